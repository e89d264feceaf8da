"""Entries of an atomic frame: batches, bodies, links and deltas that happen together or not at all."""

from __future__ import annotations

from dataclasses import dataclass

from mainstem.kernel.log.journal import NewPlace
from mainstem.kernel.log.layout import ENTRY_HEAD, MAX_ATOMIC_BYTES, FrameKind, Link, pack_link
from mainstem.model.errors import RequestTooLarge
from mainstem.model.ports import Buffer


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """A batch with its offsets set."""

    partition: int
    batch: Buffer
    place: NewPlace


@dataclass(frozen=True, slots=True)
class BodyEntry:
    """A batch without a place; links in the same frame name it by its index among the entries."""

    batch: Buffer


@dataclass(frozen=True, slots=True)
class LinkEntry:
    """A place for a body: one that lies on disk (`link` says where), or entry number `body` of this frame."""

    partition: int
    link: Link
    body: int | None = None


@dataclass(frozen=True, slots=True)
class DeltaEntry:
    section: int
    payload: bytes


Entry = BatchEntry | BodyEntry | LinkEntry | DeltaEntry


def pack_atomic(entries: list[Entry]) -> tuple[bytes, tuple[NewPlace, ...]]:
    """The payload of an atomic frame and the places it creates."""
    chunks: list[Buffer] = []
    places: list[NewPlace] = []
    starts: list[int] = []  # where each entry's bytes begin in the payload
    at = 0
    for entry in entries:
        start = at + ENTRY_HEAD.size
        if isinstance(entry, BatchEntry):
            kind, subject, payload = FrameKind.BATCH, entry.partition, entry.batch
            place = entry.place
        elif isinstance(entry, LinkEntry):
            kind, subject = FrameKind.LINK, entry.partition
            link = entry.link
            if entry.body is not None:
                link = link._replace(body_file=0, body_position=start - starts[entry.body])
            payload = pack_link(link)
            last = link.base_offset + link.records - 1
            place = NewPlace(subject, link.base_offset, last, link.max_timestamp_ms, len(payload))
            place.link = True
            if link.body_file:
                place.body = link.body_file, link.body_position
        elif isinstance(entry, BodyEntry):
            kind, subject, payload = FrameKind.BODY, 0, entry.batch
        else:
            kind, subject, payload = FrameKind.DELTA, entry.section, entry.payload
        if kind in (FrameKind.BATCH, FrameKind.LINK):
            place.at = start
            places.append(place)
        starts.append(start)
        chunks += [ENTRY_HEAD.pack(len(payload), kind, subject), payload]
        at = start + len(payload)
    if at > MAX_ATOMIC_BYTES:
        raise RequestTooLarge(f"an all-or-none change of {at} bytes; at most {MAX_ATOMIC_BYTES} fit in one")
    return b"".join(chunks), tuple(places)
