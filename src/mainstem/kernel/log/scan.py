"""Read the frames of a file in order, believing none that does not match its crc.

Written as one loop over columns, without an object per frame: it decides how soon a broker serves again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct

from fastcrc.crc32 import iscsi as crc32c

from mainstem.kernel.log.layout import (
    FRAME_HEAD,
    FRAME_HEAD_BYTES,
    OWN_CRC,
    ROUND,
    ROUND_MAGIC,
    SEED,
    FrameKind,
)
from mainstem.model.batch import CRC_AT, SIGNED_FROM
from mainstem.model.ports import File

# A file is read in windows of this size, so that recovery needs little memory however large the file.
WINDOW_BYTES = 8 << 20
# Small enough to stay in the processor's cache: what lies behind the last frame is read, but seldom used.
TAIL_BYTES = 1 << 20
TAIL_ZEROS = bytes(TAIL_BYTES)
_ROUND_BYTES = FRAME_HEAD_BYTES + ROUND.size
OWN = Struct(">I")  # a batch's own crc
# Of a batch's header: base offset, leader epoch, last offset delta, greatest timestamp, producer id.
BATCH_ROW = Struct(">q4xi7xi8xqq")
# Plain numbers: looking up a member of an enumeration costs as much as everything else in these loops.
_BATCH, _ROUND, _SEAL = int(FrameKind.BATCH), int(FrameKind.ROUND), int(FrameKind.SEAL)
_NO_OTHERS = frozenset((_BATCH, _ROUND, _SEAL))


@dataclass(slots=True)
class Scan:
    """Frames found: columns of equal length. `end` is where the first frame that is none begins."""

    kinds: list[int] = field(default_factory=list)
    subjects: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)  # of the payload, in the file
    sizes: list[int] = field(default_factory=list)
    end: int = 0
    why: str = ""  # what ended the scan: "end", "zero" (never written), "short", "crc"
    needs: int = 0  # with "short": the bytes that the frame at `end` claims to take


def scan(view: memoryview, origin: int, start: int, file_id: int, max_frames: int = 1 << 62) -> Scan:
    """Frames from file position `start` on; view[0] is the byte at file position `origin`."""
    found = Scan()
    add_kind, add_subject = found.kinds.append, found.subjects.append
    add_position, add_size = found.positions.append, found.sizes.append
    unpack, pack_seed, unpack_own = FRAME_HEAD.unpack_from, SEED.pack, OWN.unpack_from
    at, limit = start - origin, len(view)
    why = "end"
    while max_frames > 0:
        payload = at + FRAME_HEAD_BYTES
        if payload > limit:
            why = "end" if at == limit else "short"
            found.needs = FRAME_HEAD_BYTES
            break
        size, crc, kind, flags, zero, subject = unpack(view, at)
        if kind == 0:
            why = "crc" if size or crc or subject else "zero"
            break
        end = payload + size
        if end > limit:
            why = "short"
            found.needs = FRAME_HEAD_BYTES + size
            break
        seed = crc32c(pack_seed(file_id, origin + at, kind, flags, zero, subject, size))
        if flags & OWN_CRC and size > SIGNED_FROM:
            signed = payload + SIGNED_FROM
            sound = crc32c(view[payload:signed], seed) == crc
            sound = sound and crc32c(view[signed:end]) == unpack_own(view, payload + CRC_AT)[0]
        else:
            sound = crc32c(view[payload:end], seed) == crc
        if not sound:
            why = "crc"
            break
        add_kind(kind)
        add_subject(subject)
        add_position(origin + payload)
        add_size(size)
        at = end
        max_frames -= 1
    found.end = origin + at
    found.why = why
    return found


@dataclass(slots=True)
class Window:
    """A part of a file with the frames that lie wholly in it."""

    view: memoryview
    origin: int
    found: Scan

    def payload(self, index: int) -> memoryview:
        start = self.found.positions[index] - self.origin
        return self.view[start : start + self.found.sizes[index]]


@dataclass(slots=True)
class Rows:
    """The batches among the frames of a window, as columns, and where the other frames are."""

    partitions: list[int]
    bases: list[int]
    lasts: list[int]
    positions: list[int]
    sizes: list[int]
    tops: list[int]  # greatest timestamp of each batch
    epochs: list[int]
    producers: list[int]  # producer ids, -1 for none
    others: list[int]  # indexes of frames that are neither batch nor round nor seal
    before: list[int]  # for each of those, how many batches come before it
    round_number: int  # of the last round, 0 if there is none
    sealed: bool


def batch_rows(view: memoryview, origin: int, found: Scan) -> Rows:
    kinds, subjects, positions, sizes = found.kinds, found.subjects, found.positions, found.sizes
    batches = [index for index, kind in enumerate(kinds) if kind == _BATCH]
    others = [index for index, kind in enumerate(kinds) if kind not in _NO_OTHERS]
    at = [positions[index] for index in batches]
    unpack = BATCH_ROW.unpack_from
    rows = [unpack(view, position - origin) for position in at]
    round_number = 0
    for index in range(len(kinds) - 1, -1, -1):
        if kinds[index] == _ROUND:
            round_number = ROUND.unpack_from(view, positions[index] - origin)[1]
            break
    return Rows(
        partitions=[subjects[index] for index in batches],
        bases=[row[0] for row in rows],
        lasts=[row[0] + row[2] for row in rows],
        positions=at,
        sizes=[sizes[index] for index in batches],
        tops=[row[3] for row in rows],
        epochs=[row[1] for row in rows],
        producers=[row[4] for row in rows],
        others=others,
        before=[bisect_left(batches, index) for index in others],
        round_number=round_number,
        sealed=_SEAL in kinds,
    )


def scan_file(file: File, start: int, file_id: int, limit: int) -> Iterator[Window]:
    """Windows over file[start:limit]; the last one's `found` says where and why frames ended."""
    position, size = start, WINDOW_BYTES
    while True:
        view = memoryview(file.pread(min(size, limit - position), position))
        found = scan(view, position, position, file_id)
        whole_rest_seen = position + len(view) >= limit
        if found.why == "short" and not whole_rest_seen and found.end + found.needs <= limit:
            if found.kinds:
                yield Window(view, position, found)
            position, size = found.end, max(WINDOW_BYTES, found.needs)
            continue
        if found.why == "end" and not whole_rest_seen:
            yield Window(view, position, found)
            position, size = found.end, WINDOW_BYTES
            continue
        yield Window(view, position, found)
        return


def later_sync(file: File, file_id: int, bad: int, limit: int) -> int | None:
    """The position of a valid round behind `bad` which says that bytes beyond `bad` had reached the disk.

    Then `bad` is damage; None means that it may be a torn tail.
    """
    position = bad
    while position < limit:
        data = file.pread(min(TAIL_BYTES, limit - position), position)
        # Nearly all of a tail is zeros, and comparing is faster than searching.
        at = -1 if data == TAIL_ZEROS else data.find(ROUND_MAGIC)
        while at != -1:
            start = position + at - FRAME_HEAD_BYTES
            head = memoryview(file.pread(_ROUND_BYTES, start) if start >= bad else b"")
            found = scan(head, start, start, file_id, max_frames=1)
            if found.kinds == [FrameKind.ROUND]:
                _, _, synced_file, synced_position = ROUND.unpack_from(head, FRAME_HEAD_BYTES)
                if synced_file == file_id and synced_position > bad:
                    return start
            at = data.find(ROUND_MAGIC, at + 1)
        # Windows overlap so that a round across their border is found too.
        position += max(len(data) - len(ROUND_MAGIC), 1)
    return None
