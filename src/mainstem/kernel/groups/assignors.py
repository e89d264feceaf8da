"""Who reads which partition: the assignments a broker can make for a group.

An assignor is a pure function: the members with the topics they want, the number of partitions of each
topic, and what each member was to have so far, to what each is to have now. Every partition of a topic
that anyone wants gets exactly one owner among those who want it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    given: dict[str, set[Partition]] = {reader.member_id: set() for reader in readers}
    for topic_id in sorted(_wanted(readers)):
        members = [reader.member_id for reader in ordered if topic_id in reader.topic_ids]
        least, extra = divmod(counts[topic_id], len(members))
        start = 0
        for number, member_id in enumerate(members):
            end = start + least + (number < extra)
            given[member_id].update((topic_id, partition) for partition in range(start, end))
            start = end
    return _frozen(given)


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
        for topic_id in sorted(_wanted(readers))
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


def _wanted(readers: Sequence[Reader]) -> set[bytes]:
    return {topic_id for reader in readers for topic_id in reader.topic_ids}


def _frozen(given: Mapping[str, set[Partition]]) -> Assignment:
    return {member_id: frozenset(partitions) for member_id, partitions in given.items()}


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
    for member_id, partitions in given.items():
        while len(partitions) < quotas[member_id]:
            partitions.add(free.pop(0))


def _fill_lowest(given: dict[str, set[Partition]], free: list[Partition], readers: Sequence[Reader]) -> None:
    """Subscriptions differ: give to the lowest, then move single partitions while that evens things out."""
    readers_of: dict[bytes, list[str]] = {}
    for reader in sorted(readers, key=lambda r: r.member_id):
        for topic_id in reader.topic_ids:
            readers_of.setdefault(topic_id, []).append(reader.member_id)

    def lowest(topic_id: bytes) -> str:
        return min(readers_of[topic_id], key=lambda member_id: len(given[member_id]))

    # Topics that few want go first: later ones have more places to even out.
    for partition in sorted(free, key=lambda p: (len(readers_of[p[0]]), p)):
        given[lowest(partition[0])].add(partition)
    moved = True
    while moved:  # ends: each move lowers the sum of the squared loads
        moved = False
        for partitions in given.values():
            for partition in sorted(partitions):
                other = lowest(partition[0])
                if len(given[other]) + 1 < len(partitions):
                    partitions.remove(partition)
                    given[other].add(partition)
                    moved = True
