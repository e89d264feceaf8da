"""How bytes lie in the files of the log. Every layout is drawn here once, beside the Struct that reads it.

A data folder:

    LOCK                    held by the serving process
    MANIFEST                which files live, with sizes and levels; replaced atomically
    files/0000000001.journal    rounds of frames, in the order they were written (level 0)
    files/0000000001.places     its sidecar: where each partition's batches lie
    files/0000000007.run        bodies of merged files, sorted by partition and offset (level 1 and up)
    snapshots/0000000003.state  the state at a journal position

Every file starts with this 32-byte head:

    0        8         10      12        16         24       28       32
    +--------+---------+-------+---------+----------+--------+--------+
    | magic  | version | kind  | reserved| file id  | unused | crc32c |
    +--------+---------+-------+---------+----------+--------+--------+

and then holds frames:

    0      4      8      9       10      12          16
    +------+------+------+-------+-------+-----------+-----------~
    | size | crc  | kind | flags | zero  | subject   | payload (size bytes)
    +------+------+------+-------+-------+-----------+-----------~

`subject` is the partition id of a batch, body or link, and the section number of a delta. The crc is over
(file id, position of the frame, bytes 8..16 of the head, size, payload): the first two are not stored, so
that a recycled file cannot bring old frames back to life, and a frame that moved is not believed. With the
flag OWN_CRC the payload is a batch, whose own crc covers it from byte 21 on: the frame's stops there. It
covers the batch's crc, so that the two together leave nothing out, and no byte has to be looked at twice.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

import msgspec
from fastcrc.crc32 import iscsi as crc32c

from mainstem.model.errors import CorruptFile, FormatTooNew
from mainstem.model.ports import Buffer

MAGIC = b"MAINSTEM"
VERSION = 2  # 2: OWN_CRC


class FileKind(IntEnum):
    JOURNAL = 1
    RUN = 2
    PLACES = 3
    SNAPSHOT = 4
    MANIFEST = 5


class FrameKind(IntEnum):
    ROUND = 1  # starts each write: round number and what is known to be on disk
    BATCH = 2  # a body with a place of its own: its base offset is in the batch
    BODY = 3  # a body without a place: only links name it
    LINK = 4  # a place for an existing body
    DELTA = 5  # one change of state; `subject` is the section
    ATOMIC = 6  # several of the above, all or none
    SEAL = 7  # the last frame of a finished file: nothing follows
    INTENT = 8  # reserved, never written: one frame holds all that has to be all or none
    EXTENT = 9  # in runs: consecutive batches of one partition, back to back
    MOVED = 10  # in runs: old addresses of bodies that lie here now


FILE_HEAD = Struct(">8sHHIQII")
FILE_HEAD_CRC_AT = 28

OWN_CRC = 1  # a flag of a frame, see above

FRAME_HEAD = Struct(">IIBBHI")
FRAME_HEAD_BYTES = FRAME_HEAD.size
# What the crc covers besides the payload; see the picture above.
SEED = Struct(">QQBBHII")

# A round's payload. The magic lets recovery find rounds behind damage; the crc makes the find certain.
#   magic 8 | round number 8 | synced file id 8 | synced position 8
ROUND_MAGIC = b"~ROUND~\x01"
ROUND = Struct(">8sQQQ")
ROUND_FRAME_BYTES = FRAME_HEAD_BYTES + ROUND.size

# An entry of an atomic frame: size 4 | kind 1 | pad 3 | subject 4 | payload
ENTRY_HEAD = Struct(">IB3xI")

# A link's payload, followed by `overlay` bytes of msgpack (extra headers, new key). Body file 0 means the
# frame that holds the link; the body's position is then counted back from the link's own position.
# The crc is over the fields before it and the overlay: readers of one link do not read its whole frame.
#   base offset 8 | body file 8 | body position 8 | body size 4 | first record 4 | records 4
#   | max timestamp 8 | leader epoch 4 | crc 4
LINK_FIELDS = Struct(">qQQIIIqi")
LINK_CRC = Struct(">I")
LINK_BYTES = LINK_FIELDS.size + LINK_CRC.size

# One entry of a moved frame: old file id 8 | old position 8 | position in this file 8
MOVED_BODY = Struct(">QQQ")

# What must be all or none is one frame of at most this size, which recovery reads in one piece.
MAX_ATOMIC_BYTES = 64 << 20


class Link(NamedTuple):
    """A place for `records` records of a body that exists elsewhere, from its record number `first` on."""

    base_offset: int
    body_file: int
    body_position: int
    body_size: int
    first: int
    records: int
    max_timestamp_ms: int
    overlay: bytes = b""
    leader_epoch: int = 0  # of the partition that the link is a place of, not of the body's


class Overlay(msgspec.Struct, frozen=True, array_like=True):
    """What a link changes about the records it names: headers to add. New fields go to the end."""

    headers: tuple[tuple[str, bytes | None], ...] = ()


def frame_head(file_id: int, position: int, kind: int, subject: int, payload: Buffer) -> bytes:
    size = len(payload)
    crc = crc32c(payload, crc32c(SEED.pack(file_id, position, kind, 0, 0, subject, size)))
    return FRAME_HEAD.pack(size, crc, kind, 0, 0, subject)


def file_head(kind: FileKind, file_id: int) -> bytes:
    head = FILE_HEAD.pack(MAGIC, VERSION, kind, 0, file_id, 0, 0)
    return head[:FILE_HEAD_CRC_AT] + crc32c(head[:FILE_HEAD_CRC_AT]).to_bytes(4, "big")


def check_file_head(head: Buffer, kind: FileKind, path: str) -> int:
    """The file id, or an error that says what is wrong with the first bytes."""
    if len(head) < FILE_HEAD.size:
        raise CorruptFile(path, len(head), "the file head is cut short")
    magic, version, found_kind, _, file_id, _, crc = FILE_HEAD.unpack_from(head)
    if magic != MAGIC:
        raise CorruptFile(path, 0, "not a Mainstem file (bad magic)")
    if crc != crc32c(bytes(head[:FILE_HEAD_CRC_AT])):
        raise CorruptFile(path, FILE_HEAD_CRC_AT, "the file head does not match its crc")
    if version > VERSION:
        raise FormatTooNew(f"{path} has format {version}; this Mainstem reads up to {VERSION}")
    if found_kind != kind:
        raise CorruptFile(path, 10, f"expected a {kind.name} file, found kind {found_kind}")
    return int(file_id)


def pack_link(link: Link) -> bytes:
    fields = LINK_FIELDS.pack(*link[:7], link.leader_epoch)
    return fields + LINK_CRC.pack(crc32c(link.overlay, crc32c(fields))) + link.overlay


def unpack_link(payload: Buffer) -> Link | None:
    """None when the bytes are not a link or were damaged."""
    if len(payload) < LINK_BYTES:
        return None
    overlay = bytes(payload[LINK_BYTES:])
    (crc,) = LINK_CRC.unpack_from(payload, LINK_FIELDS.size)
    if crc32c(overlay, crc32c(bytes(payload[: LINK_FIELDS.size]))) != crc:
        return None
    *fields, leader_epoch = LINK_FIELDS.unpack_from(payload)
    return Link._make((*fields, overlay, leader_epoch))


def pack_overlay(overlay: Overlay) -> bytes:
    return msgspec.msgpack.encode(overlay)


def unpack_overlay(data: bytes) -> Overlay:
    return msgspec.msgpack.decode(data, type=Overlay) if data else Overlay()


PLACES_SUFFIX = ".places"


def journal_name(file_id: int) -> str:
    return f"files/{file_id:010d}.journal"


def run_name(file_id: int) -> str:
    return f"files/{file_id:010d}.run"


def body_name(file_id: int, kind: int) -> str:
    return run_name(file_id) if kind == FileKind.RUN else journal_name(file_id)


def places_name(file_id: int) -> str:
    return f"files/{file_id:010d}{PLACES_SUFFIX}"


def file_id_of(path: str) -> int:
    """Of a file that is named as above; 0 for any other."""
    number = path.rsplit("/", 1)[-1].partition(".")[0]
    return int(number) if number.isdecimal() else 0


def snapshot_name(number: int) -> str:
    return f"snapshots/{number:010d}.state"
