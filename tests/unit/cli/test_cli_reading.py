from __future__ import annotations

import pytest

from mainstem.cli.reading import Reader, newest
from mainstem.cli.when import When, parse_when
from mainstem.client import TopicPartition
from mainstem.client.cluster import Fetched
from mainstem.model.records import Record, encode_batch

NOW_MS = 1_700_000_000_000
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Broker:
    """Partitions as offset -> timestamp, a batch for each; offsets that are missing are holes."""

    def __init__(self, ends, **records):
        self.ends = ends
        self.records = {A: records.get("a", {}), B: records.get("b", {})}
        self.asked = 0

    def fetch(self, offsets, **_):
        self.asked += 1
        assert self.asked < 100, "it never ends"
        return [self._fetched(place, at) for place, at in offsets.items()]

    def _fetched(self, place, at):
        found = b"".join(
            encode_batch([Record(offset, time_ms, None, b"")], base_offset=offset)
            for offset, time_ms in self.records[place].items()
            if offset >= at
        )
        end = self.ends[place]
        return Fetched(place, at, 0, end, end, 0, (), memoryview(found))


def offsets(found):
    return [(place.partition, record.offset) for place, record in found]


@pytest.mark.parametrize("committed", [True, False])
def test_a_hole_at_the_end_ends_the_reading(committed):
    broker = Broker({A: 10, B: 5}, a={0: 1, 7: 2}, b={})
    reader = Reader(broker, {A: 0, B: 0}, {A: 10, B: 5}, committed=committed)
    assert offsets(reader.records()) == [(0, 0), (0, 7)]


def test_the_newest_are_looked_for_further_back_where_there_are_holes():
    broker = Broker({A: 100, B: 3}, a={2: 5, 50: 6}, b={0: 1, 1: 2, 2: 9})
    found, positions = newest(broker, {A: (0, 100), B: (0, 3)}, 3)
    assert offsets(found) == [(0, 2), (0, 50), (1, 2)]
    assert positions[B] == 3
    assert 50 < positions[A] <= 100


def test_of_equally_new_ones_the_later_partition_and_offset_counts():
    broker = Broker({A: 2, B: 2}, a={0: 1, 1: 1}, b={0: 1, 1: 1})
    found, _ = newest(broker, {A: (0, 2), B: (0, 2)}, 3)
    assert offsets(found) == [(0, 1), (1, 0), (1, 1)]


def test_nothing_has_no_newest():
    assert newest(Broker({A: 0, B: 0}), {A: (0, 0), B: (0, 0)}, 3)[0] == []


@pytest.mark.parametrize("text", ["10m", "10 minutes ago", "10 min ago", "10 Minutes", "600 seconds ago"])
def test_times_past_are_said_in_many_ways(text):
    assert parse_when(text, NOW_MS) == When(time_ms=NOW_MS - 600_000)
