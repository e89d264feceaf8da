"""Reading the book's topics, which have one partition each: all keys, the last events, new events."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mainstem.client import codes
from mainstem.client.client import Client
from mainstem.client.cluster import Fetched, TopicPartition
from mainstem.client.patience import patiently
from mainstem.model.errors import BrokerRefused, UnknownTopic
from mainstem.model.records import Record

FIRST_STEP = 500  # records; steps back from the end grow by STEP_FACTOR
STEP_FACTOR = 4
FOLLOW_WAIT_MS = 500
FOLLOW_PATIENCE_S = 60.0  # for a broker that restarts
PARTITION_MAX_BYTES = 4 << 20
_MADE_ANEW = (codes.UNKNOWN_TOPIC, codes.UNKNOWN_TOPIC_ID)


class Table:
    """The newest value of each key of a compacted topic; each look reads on where the last one ended."""

    def __init__(self, topic: str) -> None:
        self._place = TopicPartition(topic, 0)
        self.next_offset = 0
        self.values: dict[bytes, bytes] = {}

    def look(self, client: Client) -> dict[bytes, bytes]:
        """Nothing where there is no such topic."""
        try:
            for record in self._new(client):
                if record.key is None:
                    continue
                if record.value is None:
                    self.values.pop(record.key, None)
                else:
                    self.values[record.key] = record.value
        except (UnknownTopic, BrokerRefused) as error:
            if isinstance(error, BrokerRefused) and error.code not in _MADE_ANEW:
                raise
            self.next_offset, self.values = 0, {}
        return self.values

    def _new(self, client: Client) -> Iterator[Record]:
        while True:
            (got,) = fetch(client, self._place, self.next_offset)
            if got.error_code == codes.OFFSET_OUT_OF_RANGE:
                if self.next_offset > got.high_watermark >= 0:  # another topic of the same name
                    self.values = {}
                self.next_offset = max(got.log_start, 0)
                continue
            yield from got.check().decoded()
            if got.next_offset == self.next_offset:
                return
            self.next_offset = got.next_offset


def fetch(client: Client, place: TopicPartition, offset: int, max_wait_ms: int = 0) -> list[Fetched]:
    return client.fetch({place: offset}, max_wait_ms=max_wait_ms, partition_max_bytes=PARTITION_MAX_BYTES)


def between(client: Client, place: TopicPartition, start: int, end: int) -> Iterator[Record]:
    """Records of these offsets that are still there."""
    at = start
    while at < end:
        (got,) = fetch(client, place, at)
        if got.error_code == codes.OFFSET_OUT_OF_RANGE and got.log_start > at:
            at = got.log_start
            continue
        for record in got.check().decoded():
            if record.offset < end:
                yield record
        if got.next_offset == at:
            return
        at = got.next_offset


def last_of(
    client: Client, place: TopicPartition, matches: Callable[[Record], bool], count: int, end: int
) -> list[Record]:
    """The last `count` records that match before `end`: looked for backwards, in growing steps."""
    first = client.bounds([place.topic])[place][0]
    found: list[Record] = []
    upto, step = end, FIRST_STEP
    while upto > first and len(found) < count:
        since = max(first, upto - step)
        found = [record for record in between(client, place, since, upto) if matches(record)] + found
        upto, step = since, step * STEP_FACTOR
    return found[-count:]


def follow(client: Client, place: TopicPartition, start: int) -> Iterator[Record]:
    """Without end; a broker that is away for a while is waited for."""
    at = start
    while True:
        (got,) = patiently(lambda: fetch(client, place, at, FOLLOW_WAIT_MS), FOLLOW_PATIENCE_S)  # noqa: B023
        if got.error_code == codes.OFFSET_OUT_OF_RANGE:
            at = max(got.log_start, 0)
            continue
        yield from got.check().decoded()
        at = got.next_offset
