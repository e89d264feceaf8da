"""Filters that shorten a read: which they are, and what they say about ranges."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from mainstem.client.cluster import TopicPartition
from mainstem.spark.filters import earliest_ms, narrowing, record_column
from mainstem.spark.formats import Format
from mainstem.spark.ranges import Range
from mainstem.spark.typed import Typing

WHOLE = Range(TopicPartition("a", 1), 10, 20)
AT = datetime(2024, 5, 1, tzinfo=UTC)
AT_MS = int(AT.timestamp()) * 1000


@pytest.mark.parametrize(
    ("one", "left"),
    [
        (EqualTo(("topic",), "a"), (10, 20)),
        (EqualTo(("topic",), "b"), None),
        (In(("topic",), ("b", "a")), (10, 20)),
        (EqualTo(("partition",), 1), (10, 20)),
        (In(("partition",), (0, 2)), None),
        (EqualTo(("offset",), 15), (15, 16)),
        (EqualTo(("offset",), 20), None),
        (GreaterThan(("offset",), 15), (16, 20)),
        (GreaterThanOrEqual(("offset",), 15), (15, 20)),
        (LessThan(("offset",), 15), (10, 15)),
        (LessThanOrEqual(("offset",), 15), (10, 16)),
        (LessThan(("offset",), 5), None),
    ],
)
def test_places_are_narrowed_exactly(one, left):
    kept = narrowing(record_column(one, None), one)(WHOLE)
    assert ((kept.start, kept.end) if len(kept) else None) == left


@pytest.mark.parametrize(
    "one",
    [
        IsNotNull(("offset",)),
        Not(EqualTo(("offset",), 5)),
        EqualTo(("key",), b"k"),
        EqualTo(("offset",), None),
    ],
)
def test_others_are_left_to_spark(one):
    assert narrowing(record_column(one, None), one) is None


@pytest.mark.parametrize(
    ("one", "since_ms"),
    [
        (GreaterThan(("timestamp",), AT), AT_MS),
        (GreaterThanOrEqual(("timestamp",), AT), AT_MS),
        (EqualTo(("timestamp",), AT + timedelta(microseconds=1999)), AT_MS + 1),
        (LessThan(("timestamp",), AT), None),
        (GreaterThan(("timestamp",), datetime(1960, 1, 1, tzinfo=UTC)), None),
        (GreaterThan(("timestamp",), datetime(2024, 5, 1)), None),
        (GreaterThan(("offset",), AT), None),
    ],
)
def test_a_time_tells_where_to_begin_and_never_where_to_end(one, since_ms):
    assert earliest_ms(record_column(one, None), one) == since_ms


def test_of_typed_rows_only_what_they_tell_of_the_record_counts():
    schema = pa.schema([pa.field("offset", pa.int64()), pa.field("_offset", pa.int64())])
    typing = Typing(Format("json"), schema, ("offset",))
    assert record_column(EqualTo(("_offset",), 5), typing) == "offset"
    assert record_column(EqualTo(("offset",), 5), typing) == ""
    assert record_column(EqualTo(("_partition",), 5), typing) == ""
    assert record_column(EqualTo(("a", "offset"), 5), None) == ""
