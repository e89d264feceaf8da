"""Where the records of a source lie in its mirror: what offsets are translated by. Pure.

Offsets at the source have gaps (compaction, markers of transactions), those of a copy have none. A
`Stretch` tells of one batch of the mirror and one partition which offsets were copied, as `Run`s without a
gap, and where in the target the first of them lies at the earliest. So a translated offset is exact where
nobody else writes to the target, and otherwise too low by what others wrote: a record may be read twice, and
none is left out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

# Runs that a stretch keeps. Between runs that were left out a translation is too low by what lies there.
MOST_RUNS = 512
# The newest batches are all kept; of older ones the last of each so many.
FINE_BATCHES = 4096
COARSE_BATCHES = 256


class Run(NamedTuple):
    """`length` records with consecutive offsets; `ordinal` is the first one's number in its stretch."""

    source: int
    ordinal: int
    length: int


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """The records of one partition in one batch."""

    query: str  # the id of the streaming query: another one has copied anew
    batch: int
    topic: str  # of the source
    partition: int
    target: str  # the topic's name here
    target_id: str = ""  # and its id, in hex: one that is deleted and made anew has another
    source_end: int  # behind the last record
    target_start: int  # of the first record, at the earliest
    records: int
    runs: tuple[Run, ...]  # ascending; at least one

    @property
    def source_start(self) -> int:
        return self.runs[0].source

    def translate(self, offset: int) -> int:
        """Where a reader that is at `offset` of the source goes on in the target; from `source_start` on."""
        if offset >= self.source_end:
            return self.target_start + self.records
        at = bisect_right(self.runs, offset, key=lambda run: run.source) - 1
        run = self.runs[at]
        following, behind = self.source_end, self.records
        if at + 1 < len(self.runs):
            following, behind = self.runs[at + 1].source, self.runs[at + 1].ordinal
        # Two numbers of records that lie before `offset` for sure: those of runs that are known, and all up
        # to the next one that is known but as many as could lie between.
        before = max(run.ordinal + min(offset - run.source, run.length), behind - (following - offset))
        return self.target_start + before


class Copied:
    """Gathers the runs of one partition while its records pass."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.records = 0

    def add(self, offsets: pa.Array) -> None:
        """More offsets, ascending."""
        if not len(offsets):
            return
        jumps = pc.not_equal(pc.subtract(offsets.slice(1), offsets.slice(0, len(offsets) - 1)), 1)
        starts = [0, *(at + 1 for at in pc.indices_nonzero(jumps).to_pylist())]
        for start, end in zip(starts, [*starts[1:], len(offsets)], strict=True):
            self.append(offsets[start].as_py(), end - start)

    def append(self, source: int, length: int) -> None:
        last = self.runs[-1] if self.runs else None
        if last is not None and last.source + last.length == source:
            self.runs[-1] = last._replace(length=last.length + length)
        else:
            self.runs.append(Run(source, self.records, length))
        self.records += length

    def extend(self, other: Copied) -> None:
        """What another task has copied, which lies behind."""
        for run in other.runs:
            self.append(run.source, run.length)

    @property
    def source_end(self) -> int:
        return self.runs[-1].source + self.runs[-1].length


def thinned(runs: Sequence[Run], most: int = MOST_RUNS) -> tuple[Run, ...]:
    """At most so many of them, the first among them."""
    step = -(-len(runs) // most) or 1
    return tuple(runs[::step])


def keys_of(stretch: Stretch) -> tuple[str, str]:
    """Keys in the compacted topic that keeps stretches: a ring of the newest, and one of each few hundred."""
    place = f"{stretch.topic}/{stretch.partition}"
    fine, coarse = stretch.batch % FINE_BATCHES, stretch.batch // COARSE_BATCHES
    return f"{place}/{fine}", f"{place}/{stretch.query}/{coarse}"


class Target(NamedTuple):
    """A topic here, as it is now."""

    name: str
    id: str  # in hex

    def holds(self, stretch: Stretch) -> bool:
        """Whether the copies are in it: not if they went by another name, or into one deleted since."""
        return stretch.target == self.name and stretch.target_id in ("", self.id)


class Mapping:
    """All stretches that are known, by partition of the source."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], dict[str, Stretch]] = {}
        self._sorted: dict[tuple[str, int], tuple[Target, list[list[Stretch]]]] = {}
        self._queries: dict[str, None] = {}  # in the order of their last stretch

    def apply(self, key: str, stretch: Stretch) -> None:
        """In the order of the topic: what comes later replaces what has the same key."""
        place = (stretch.topic, stretch.partition)
        self._held.setdefault(place, {})[key] = stretch
        if next(reversed(self._queries), None) != stretch.query:
            self._queries.pop(stretch.query, None)
            self._queries[stretch.query] = None
            self._sorted.clear()
        self._sorted.pop(place, None)

    def translate(self, topic: str, partition: int, offset: int, target: Target) -> int | None:
        """None: nothing is known of what lies there; only the beginning of the target leaves nothing out."""
        for stretches in self._by_query((topic, partition), target):
            if stretches[0].source_start <= offset:
                at = bisect_right(stretches, offset, key=lambda one: one.source_start) - 1
                return stretches[at].translate(offset)
        return None

    def _by_query(self, place: tuple[str, int], target: Target) -> list[list[Stretch]]:
        """The newest query first: it has copied anew, from where it began."""
        known = self._sorted.get(place)
        if known is None or known[0] != target:
            queries: dict[str, dict[int, Stretch]] = {}
            for stretch in filter(target.holds, self._held.get(place, {}).values()):
                queries.setdefault(stretch.query, {})[stretch.batch] = stretch
            known = self._sorted[place] = (
                target,
                [
                    sorted(queries[query].values(), key=lambda one: one.source_start)
                    for query in reversed(self._queries)
                    if query in queries
                ],
            )
        return known[1]
