"""Who reads which partition: the assignments a broker can make for a group.

An assignor is a pure function: the members with the topics they want, the number of partitions of each
topic, and what each member was to have so far, to what each is to have now. Every partition of a topic
that anyone wants gets exactly one owner among those who want it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappush, heapreplace, merge
from itertools import groupby, islice
from operator import itemgetter
from typing import TypeAlias

Partition: TypeAlias = tuple[bytes, int]  # (topic id, partition)
Assignment: TypeAlias = dict[str, frozenset[Partition]]  # member id -> what it is to read


@dataclass(frozen=True, slots=True)
class Reader:
    member_id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]


Assignor: TypeAlias = Callable[
    [Sequence[Reader], Mapping[bytes, int], Mapping[str, frozenset[Partition]]], Assignment
]


def range_assignor(
    readers: Sequence[Reader], counts: Mapping[bytes, int], before: Mapping[str, frozenset[Partition]]
) -> Assignment:
    """Each topic is cut into ranges, so that equal partitions of several topics meet at one member.

    Members are taken in a fixed order, static ones first: a restart under a new member id moves nothing.
    """
    del before  # ranges follow from the members alone
    ordered = sorted(readers, key=lambda r: (r.instance_id is None, r.instance_id or r.member_id))
    given: list[set[Partition]] = [set() for _ in ordered]
    places: dict[frozenset[bytes], list[int]] = {}  # in that order, of those with the same wishes
    for place, reader in enumerate(ordered):
        places.setdefault(reader.topic_ids, []).append(place)
    of_wish = list(places.values())
    for topic_id, wishes in _wishes_by_topic(places).items():
        members = [of_wish[wish] for wish in wishes]
        least, extra = divmod(counts[topic_id], sum(map(len, members)))
        start = 0
        # No more members than partitions are looked at: the rest get nothing.
        for number, place in enumerate(islice(merge(*members), counts[topic_id])):
            end = start + least + (number < extra)
            given[place].update((topic_id, partition) for partition in range(start, end))
            start = end
    return {reader.member_id: frozenset(mine) for reader, mine in zip(ordered, given, strict=True)}


def uniform_assignor(
    readers: Sequence[Reader], counts: Mapping[bytes, int], before: Mapping[str, frozenset[Partition]]
) -> Assignment:
    """As even as can be, and among the even assignments close to the one before."""
    given: dict[str, set[Partition]] = {}
    for reader in sorted(readers, key=lambda r: r.member_id):
        kept = before.get(reader.member_id, frozenset())
        given[reader.member_id] = {
            (topic_id, partition)
            for topic_id, partition in kept
            if topic_id in reader.topic_ids and partition < counts[topic_id]
        }
    taken: set[Partition] = set().union(*given.values())
    free = [
        (topic_id, partition)
        for topic_id in sorted(wanted_topics(readers))
        for partition in range(counts[topic_id])
        if (topic_id, partition) not in taken
    ]
    if len({reader.topic_ids for reader in readers}) <= 1:
        _fill_quotas(given, free)
    else:
        _fill_lowest(given, free, readers)
    return _frozen(given)


ASSIGNORS: dict[str, Assignor] = {"uniform": uniform_assignor, "range": range_assignor}


def by_topic(partitions: Iterable[Partition]) -> list[tuple[bytes, list[int]]]:
    """Sorted and grouped, as protocols list them."""
    grouped: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        grouped.setdefault(topic_id, []).append(partition)
    return list(grouped.items())


def wanted_topics(readers: Sequence[Reader]) -> set[bytes]:
    """Members of a group mostly want the same: each wish is looked at once."""
    return set().union(*{reader.topic_ids for reader in readers})


def _frozen(given: Mapping[str, set[Partition]]) -> Assignment:
    return {member_id: frozenset(partitions) for member_id, partitions in given.items()}


def _wishes_by_topic(wishes: Iterable[frozenset[bytes]]) -> dict[bytes, list[int]]:
    """For each topic the numbers of the wishes that have it."""
    numbers_of: dict[bytes, list[int]] = {}
    for number, topic_ids in enumerate(wishes):
        for topic_id in topic_ids:
            numbers_of.setdefault(topic_id, []).append(number)
    return numbers_of


def _fill_quotas(given: dict[str, set[Partition]], free: list[Partition]) -> None:
    """All want the same topics: everyone gets total // members, some get one more."""
    if not given:
        return
    total = len(free) + sum(len(partitions) for partitions in given.values())
    least, extra = divmod(total, len(given))
    # Those with most already are first in line for the one more: it costs no move.
    in_line = sorted(given, key=lambda member_id: -len(given[member_id]))
    quotas = {member_id: least + (number < extra) for number, member_id in enumerate(in_line)}
    for member_id, partitions in given.items():
        for partition in sorted(partitions)[quotas[member_id] :]:
            partitions.remove(partition)
            free.append(partition)
    rest = iter(free)
    for member_id, partitions in given.items():
        partitions.update(islice(rest, quotas[member_id] - len(partitions)))


def _fill_lowest(given: dict[str, set[Partition]], free: list[Partition], readers: Sequence[Reader]) -> None:
    """Subscriptions differ: give to the lowest, then move single partitions while that evens things out."""
    loads = _Loads(given, readers)
    # Topics that few want go first: later ones have more places to even out.
    in_order = sorted(free, key=lambda p: (loads.readers_of(p[0]), p))
    for topic_id, partitions in groupby(in_order, key=itemgetter(0)):
        loads.give(topic_id, list(partitions))
    moved = True
    while moved:  # ends: each move lowers the sum of the squared loads
        moved = False
        for place, mine in enumerate(given.values()):
            for partition in sorted(mine):
                other = loads.lowest(partition[0])
                if len(other) + 1 < len(mine):
                    mine.remove(partition)
                    other.add(partition)
                    loads.moved_from(place)
                    moved = True


FEW = 3  # partitions: to look for the lowest for each costs less than a heap


@dataclass(slots=True)
class _Crowd:
    """All who want a topic. Topics that the same members want share one."""

    heaps: list[list[tuple[int, int]]]
    readers: int
    # (top of a heap, its number), as a heap: a top as it is or, if it grew since, as it was. [] until needed.
    tops: list[tuple[tuple[int, int], int]] = field(default_factory=list)
    topics: int = 0


class _Loads:
    """Who has least of those who want a topic; of several the first by id.

    Members that want the same topics share a heap of (load, place). An entry may be of the past, but each
    member has one that is not above its load, so an entry at the top that is true is the lowest of its heap.
    Loads that grew are put right when they come to the top; of others `moved_from` is told.
    """

    def __init__(self, given: Mapping[str, set[Partition]], readers: Sequence[Reader]) -> None:
        """`given`: in the order of the member ids. A member's place is the one it has there."""
        self._given = list(given.values())
        places = {member_id: place for place, member_id in enumerate(given)}
        heaps: dict[frozenset[bytes], list[tuple[int, int]]] = {}
        self._heap_of: dict[int, list[tuple[int, int]]] = {}  # by place
        for reader in readers:
            place = places[reader.member_id]
            heap = heaps.setdefault(reader.topic_ids, [])
            heap.append((len(self._given[place]), place))
            self._heap_of[place] = heap
        in_order = list(heaps.values())
        for heap in in_order:
            heapify(heap)
        crowds: dict[tuple[int, ...], _Crowd] = {}
        self._crowd_of: dict[bytes, _Crowd] = {}  # by topic
        for topic_id, numbers in _wishes_by_topic(heaps).items():
            crowd = crowds.get(tuple(numbers))
            if crowd is None:
                of_crowd = [in_order[number] for number in numbers]
                crowd = crowds[tuple(numbers)] = _Crowd(of_crowd, sum(map(len, of_crowd)))
            crowd.topics += 1
            self._crowd_of[topic_id] = crowd
        self._known: dict[int, set[Partition]] = {}  # what `lowest` said of a crowd, until something moves

    def readers_of(self, topic_id: bytes) -> int:
        """How many want it."""
        return self._crowd_of[topic_id].readers

    def give(self, topic_id: bytes, partitions: Sequence[Partition]) -> None:
        """Each to the lowest. Before anything is asked."""
        crowd = self._crowd_of[topic_id]
        if crowd.topics * len(partitions) <= FEW:
            for partition in partitions:
                _, place = min(map(self._top, crowd.heaps))
                self._given[place].add(partition)
            return
        tops = crowd.tops
        if not tops:
            tops += [(heap[0], number) for number, heap in enumerate(crowd.heaps)]
            heapify(tops)
        for partition in partitions:
            while True:
                seen, number = tops[0]
                top = self._top(crowd.heaps[number])
                if top == seen:
                    break
                heapreplace(tops, (top, number))
            self._given[top[1]].add(partition)

    def lowest(self, topic_id: bytes) -> set[Partition]:
        """What the lowest has."""
        crowd = self._crowd_of[topic_id]
        known = self._known.get(id(crowd))
        if known is None:
            _, place = min(map(self._top, crowd.heaps))
            known = self._known[id(crowd)] = self._given[place]
        return known

    def moved_from(self, place: int) -> None:
        heappush(self._heap_of[place], (len(self._given[place]), place))
        self._known.clear()

    def _top(self, heap: list[tuple[int, int]]) -> tuple[int, int]:
        while True:
            load, place = heap[0]
            now = len(self._given[place])
            if load == now:
                return heap[0]
            heapreplace(heap, (now, place))
