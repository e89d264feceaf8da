"""What the load sent and what the broker said to it.

Kept in the driver's memory, so it survives whatever happens to the broker. Each writer, and each group's
entry, is changed by one thread only; the judge looks when all of them rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from zlib import crc32

from mainstem.client import TopicPartition

NO_OFFSET = -1  # acknowledged, but the client was not told where


class Outcome(Enum):
    """How a transaction ended, as far as its producer knows."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"  # a commit was asked for and never answered: all of it or nothing


class Repeats(Enum):
    """How often a record may be there."""

    ONCE = "once"  # an idempotent or transactional producer
    ONCE_IF_FAILED = "once if failed"  # no retries: acknowledged or not, never twice
    OFTEN = "often"  # retries without idempotence


@dataclass(slots=True)
class Writer:
    """One producer's numbered records. `acked` holds the offsets that the broker named."""

    name: str
    repeats: Repeats
    transactional: bool = False
    sent: dict[int, TopicPartition] = field(default_factory=dict)
    acked: dict[int, int] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)  # number -> why; it may be there or not

    def next_number(self) -> int:
        return len(self.sent)


@dataclass(slots=True)
class Transaction:
    writer: str
    numbers: list[int] = field(default_factory=list)
    outcome: Outcome = Outcome.OPEN
    has_offsets: bool = False  # and the broker has said that it has them


@dataclass(slots=True)
class Committed:
    """A group's offset in one partition: the last one acknowledged, and all that were asked for since."""

    acked: int = 0
    tried: set[int] = field(default_factory=set)
    position: int = 0  # what the member reads next
    # What was acknowledged when the broker was last struck: nothing below it may come again.
    floor: int = 0


@dataclass(slots=True)
class Ledger:
    writers: dict[str, Writer] = field(default_factory=dict)
    transactions: list[Transaction] = field(default_factory=list)
    groups: dict[str, dict[TopicPartition, Committed]] = field(default_factory=dict)
    # What readers were shown while the load ran: they must be shown the same for ever.
    seen: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)
    watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)  # what clients found wrong by themselves

    def writer(self, name: str, repeats: Repeats, *, transactional: bool = False) -> Writer:
        made = self.writers[name] = Writer(name, repeats, transactional)
        return made

    def committed(self, group: str, place: TopicPartition) -> Committed:
        return self.groups.setdefault(group, {}).setdefault(place, Committed())

    def struck(self) -> None:
        """The broker is dead: it must know everything that it has acknowledged by now."""
        for places in list(self.groups.values()):
            for committed in list(places.values()):
                # A commit that spans a strike may be acknowledged after its client has begun again at an
                # earlier one. Then the client itself goes back, and the broker may.
                committed.floor = min(committed.acked, committed.position, *committed.tried)

    def saw(self, place: TopicPartition, offset: int, value: bytes) -> None:
        digest = crc32(value)
        known = self.seen.setdefault(place, {}).setdefault(offset, digest)
        if known != digest:
            self.remarks.append(f"{place} offset {offset} was read twice, with different bytes")

    def saw_watermark(self, place: TopicPartition, offset: int) -> None:
        if offset > self.watermarks.get(place, 0):
            self.watermarks[place] = offset

    def acked_records(self) -> int:
        return sum(len(writer.acked) for writer in list(self.writers.values()))


def value_of(writer: str, number: int, size: int) -> bytes:
    """A record that names itself; every byte of it follows from its name and size."""
    head = f"{writer}:{number}:{size}:".encode()
    return (head * (size // len(head) + 1))[: max(size, len(head))]


def identity(value: bytes) -> tuple[str, int] | None:
    """(writer, number) of an undamaged record, else None."""
    try:
        writer, number, size, _ = value.split(b":", 3)
        name = writer.decode(), int(number)
        return name if value == value_of(*name, int(size)) else None
    except ValueError:
        return None
