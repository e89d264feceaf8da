"""What a topic's values look like, from a look at the first and the last of those that a query reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from mainstem.pipeline.adhoc import TopicColumns, text_columns

if TYPE_CHECKING:
    from mainstem.client import Client, TopicPartition

# Values of each end of a partition, and partitions: enough to meet fields that came later, soon enough.
SAMPLE = 300
PARTITIONS = 8
FETCH_BYTES = 1 << 20


def look_at(
    client: Client, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], topic: str
) -> TopicColumns:
    """JSON if most of its values are objects, else text."""
    values: list[bytes] = []
    places = [place for place in starts if place.topic == topic and starts[place] < ends[place]]
    for place in places[:PARTITIONS]:
        first, end = starts[place], ends[place]
        values += _values(client, place, first, end)
        last = max(first + SAMPLE, end - SAMPLE)
        if last < end:
            values += _values(client, place, last, end)
    return columns_of(topic, values)


def columns_of(topic: str, values: list[bytes]) -> TopicColumns:
    from mainstem.spark.inference import infer_fields

    objects = [value for value in values if _is_object(value)]
    fields = infer_fields(objects) if objects and len(objects) * 2 >= len(values) else {}
    # Spark does not tell names apart by case: the first one stands.
    by_lower = {name.lower(): name for name in reversed(fields)}
    kept = {name: kind for name, kind in fields.items() if by_lower[name.lower()] == name}
    if not kept:
        return text_columns(topic)
    return TopicColumns(topic, "json", kept, len(values) - len(objects), len(values))


def _values(client: Client, place: TopicPartition, first: int, end: int) -> list[bytes]:
    (fetched,) = client.fetch({place: first}, max_wait_ms=0, partition_max_bytes=FETCH_BYTES)
    records = fetched.check().decoded()
    found = [record.value for record in records if record.value and first <= record.offset < end]
    return found[:SAMPLE]


def _is_object(value: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(value), dict)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
