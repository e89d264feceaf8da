"""Stretches of partitions: how much of what is there a trigger takes, and how it is cut into tasks. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mainstem.client.cluster import TopicPartition
from mainstem.model.errors import InvalidRequest

Positions = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets from `start` to below `end` of one partition."""

    place: TopicPartition
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    def cut(self, start: int, end: int) -> Range:
        """The part of it from `start` to below `end`; it may be empty."""
        start = min(max(start, self.start), self.end)
        return Range(self.place, start, max(start, min(end, self.end)))


def positions_to_json(positions: Positions) -> dict[str, dict[str, int]]:
    """As Spark's own connector writes them into checkpoints, in order."""
    found: dict[str, dict[str, int]] = {}
    for place in sorted(positions):
        found.setdefault(place.topic, {})[str(place.partition)] = positions[place]
    return found


def positions_from_json(value: object) -> dict[TopicPartition, int]:
    if isinstance(value, str):
        value = json.loads(value)
    if not isinstance(value, dict):
        raise InvalidRequest(f"{value!r} are not offsets of partitions")
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in value.items()
        for partition, offset in partitions.items()
    }


def ranges_between(start: Positions, end: Positions) -> list[Range]:
    """What lies between two positions; a partition that is not in `end` gives nothing."""
    return [
        Range(place, start[place], end[place])
        for place in sorted(end)
        if place in start and end[place] > start[place]
    ]


def limited(
    start: Positions, end: Positions, most: int, weights: Positions | None = None
) -> dict[TopicPartition, int]:
    """An end such that at most about `most` records, or what they weigh, lie before it: every partition gives
    in proportion to what it has, and at least one, so that a short one beside a long one is not left behind.
    """
    sizes = {place: max(0, end[place] - start.get(place, end[place])) for place in end}
    total = sum(size * (1 if weights is None else weights[place]) for place, size in sizes.items() if size)
    if total <= most:
        return dict(end)
    return {
        place: end[place] - size + min(size, max(1, most * size // total)) for place, size in sizes.items()
    }


def split(ranges: Sequence[Range], min_parts: int = 0, max_records: int | None = None) -> list[Range]:
    """Cut long ranges so that there are `min_parts` pieces at least and none is longer than `max_records`."""
    total = sum(map(len, ranges))
    longest = total if not min_parts else max(1, total // min_parts)
    if max_records is not None:
        longest = min(longest, max_records)
    return [piece for one in ranges for piece in _pieces(one, longest)]


def _pieces(one: Range, longest: int) -> Iterable[Range]:
    """Pieces of nearly equal length, none longer than `longest`."""
    count = -(-len(one) // longest) if longest else 1
    for index in range(count):
        start = one.start + len(one) * index // count
        yield Range(one.place, start, one.start + len(one) * (index + 1) // count)
