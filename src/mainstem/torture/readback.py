"""Everything that is in a broker: all records by our own client, committed ones by librdkafka's consumer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Position

from mainstem.client import Client, ClientSettings, TopicPartition, parse_bootstrap
from mainstem.client.groups import committed_offsets
from mainstem.model.batch import iter_batches
from mainstem.model.errors import MainstemError
from mainstem.model.records import decode_records
from mainstem.torture.clients import SETTLE_S, consumer_settings
from mainstem.torture.consumers import place_of
from mainstem.torture.ledger import identity

FETCH_BYTES = 8 << 20


class Stored(NamedTuple):
    """A record: who it says it is (None: damaged), and a digest of all its bytes."""

    name: tuple[str, int] | None
    digest: int


def stored(value: bytes) -> Stored:
    return Stored(identity(value), crc32(value))


@dataclass(slots=True)
class View:
    """One partition. `records` is all there is, `committed` what a reader of committed records gets."""

    start: int = 0
    high_watermark: int = 0
    last_stable: int = 0
    records: dict[int, Stored] = field(default_factory=dict)
    markers: set[int] = field(default_factory=set)
    committed: dict[int, Stored] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Readback:
    views: Mapping[TopicPartition, View]
    groups: Mapping[str, Mapping[TopicPartition, int]]


def read_back(bootstrap: str, places: Sequence[TopicPartition], groups: Iterable[str]) -> Readback:
    views = {place: View() for place in places}
    with Client(ClientSettings(parse_bootstrap(bootstrap), client_id="readback")) as client:
        topics = client.cluster({place.topic for place in places}).topics
        # A partition that is gone is seen as an empty one, and judged so.
        there = {p: view for p, view in views.items() if p.partition < len(topics[p.topic].partitions)}
        _read_all(client, there)
        offsets = {group: committed_offsets(client, group) for group in groups}
    _read_committed(bootstrap, there)
    return Readback(views, offsets)


def _read_all(client: Client, views: Mapping[TopicPartition, View]) -> None:
    waiting = dict.fromkeys(views, 0)
    while waiting:
        for fetched in client.fetch(
            waiting, max_wait_ms=0, max_bytes=FETCH_BYTES, partition_max_bytes=FETCH_BYTES
        ):
            view = views[fetched.check().place]
            view.start = fetched.log_start
            view.high_watermark = fetched.high_watermark
            view.last_stable = fetched.last_stable_offset
            for at, header in iter_batches(fetched.records):
                if header.is_control:
                    view.markers.add(header.base_offset)
                    continue
                for record in decode_records(fetched.records[at : at + header.size]):
                    view.records[record.offset] = stored(record.value or b"")
            following = fetched.next_offset
            if following >= fetched.high_watermark:
                del waiting[fetched.place]
            elif len(fetched.records):
                waiting[fetched.place] = following
            elif len(waiting) == 1:
                # Alone in its request, and given nothing: it will never be given anything.
                raise MainstemError(
                    f"{fetched.place}: nothing to read at {following}, below the high watermark "
                    f"{fetched.high_watermark}"
                )


def _read_committed(bootstrap: str, views: Mapping[TopicPartition, View]) -> None:
    consumer = Consumer(consumer_settings(bootstrap, "readback", enable_partition_eof=True))
    consumer.assign([Position(place.topic, place.partition, 0) for place in views])
    left = set(views)
    until = time.monotonic() + SETTLE_S
    try:
        while left:
            for message in consumer.consume(1000, 1.0):
                place, offset = place_of(message)
                error = message.error()
                if error is None:
                    value = message.value()
                    assert isinstance(value, bytes)
                    views[place].committed[offset] = stored(value)
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(place)
                else:
                    raise MainstemError(f"reading committed records of {place}: {error.str()}")
            if time.monotonic() > until:
                raise MainstemError(
                    f"reading committed records came to no end in {', '.join(map(str, left))}"
                )
    finally:
        consumer.close()
