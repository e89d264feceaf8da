"""Batches become Arrow columns that hold what decoding them record by record gives."""

import datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.client.cluster import Fetched, TopicPartition
from mainstem.model.batch import APPEND_TIME_BIT, HEADER, seal
from mainstem.model.errors import CorruptBatch, InvalidRequest
from mainstem.model.record_loop import Columns
from mainstem.model.records import Record, decode_records, encode_batch, open_records
from mainstem.spark import columns as columns_module
from mainstem.spark.columns import TYPES, Collector, ddl_of, names_of

OPTIONAL = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=5), OPTIONAL), max_size=3).map(tuple)
TIMES = st.integers(-1, 2**41) | st.integers(-(2**60), 2**60)
RECORDS = st.lists(st.builds(Record, st.just(0), TIMES, OPTIONAL, OPTIONAL, HEADERS), min_size=1, max_size=30)
BATCHES = st.lists(st.tuples(RECORDS, st.integers(0, 4)), min_size=1, max_size=6)
MOST_US = ((1 << 63) // 1000 - 1) * 1000


def fetched(data, offset=0):
    return Fetched(TopicPartition("t", 3), offset, 0, 1 << 40, 1 << 40, 0, (), memoryview(data))


def rows_of(collector, data, offset=0, stop=1 << 40):
    batches = [*collector.add(fetched(data, offset), stop, False), *collector.rest()]
    return batches, pa.Table.from_batches(batches) if batches else None


@settings(max_examples=150)
@given(BATCHES, st.integers(0, 60), st.integers(0, 200))
def test_columns_hold_what_records_hold(batches, first, stop):
    data, base, expected = bytearray(), 0, []
    for records, codec in batches:
        batch = encode_batch(records, codec=codec, base_offset=base)
        expected += [r for r in decode_records(batch) if first <= r.offset < stop]
        data += batch
        base += len(records)
    names = tuple(name for name in TYPES if name != "timestamp")
    collector = Collector("t", 3, (*names, "timestamp"))
    found, table = rows_of(collector, data, first, stop)
    assert (table.num_rows if table else 0) == len(expected)
    if table is None:
        return
    assert table.column("key").to_pylist() == [r.key for r in expected]
    assert table.column("value").to_pylist() == [r.value for r in expected]
    assert table.column("offset").to_pylist() == [r.offset for r in expected]
    assert set(table.column("topic").to_pylist()) == {"t"}
    assert set(table.column("partition").to_pylist()) == {3}
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    assert times == [max(-MOST_US, min(MOST_US, r.timestamp_ms * 1000)) for r in expected]
    headers = [
        None if h is None else tuple((one["key"], one["value"]) for one in h)
        for h in table.column("headers").to_pylist()
    ]
    assert headers == [r.headers or None for r in expected]
    for batch in found:
        batch.validate(full=True)


def test_types_are_those_that_spark_wants():
    data = encode_batch([Record(0, 1, b"k", b"v")])
    (batch,), _ = rows_of(Collector("t", 3, tuple(TYPES)), data)
    assert batch.schema == pa.schema([pa.field(name, kind) for name, kind in TYPES.items()])


def test_batches_are_cut_at_a_good_size(monkeypatch):
    monkeypatch.setattr(columns_module, "ROWS", 10)
    data = b"".join(encode_batch([Record(0, 1, None, b"v")] * 4, base_offset=4 * i) for i in range(5))
    found, table = rows_of(Collector("t", 3, ("offset",)), data)
    assert [len(batch) for batch in found] == [8, 8, 4]
    assert table["offset"].to_pylist() == list(range(20))


def test_a_batch_larger_than_that_comes_whole(monkeypatch):
    monkeypatch.setattr(columns_module, "ROWS", 10)
    data = encode_batch([Record(0, 1, None, b"v")] * 25)
    found, _ = rows_of(Collector("t", 3, ("offset",)), data)
    assert [len(batch) for batch in found] == [25]


def append_time(batch, time_ms):
    fields = list(HEADER.unpack_from(batch))
    fields[5] |= APPEND_TIME_BIT
    fields[8] = time_ms
    HEADER.pack_into(batch, 0, *fields)
    seal(batch)
    return batch


def test_the_brokers_time_counts_where_the_topic_says_so():
    data = encode_batch([Record(0, 5, None, b"a")])
    data += append_time(encode_batch([Record(0, 6, None, b"b")] * 2, base_offset=1), 1000)
    _, table = rows_of(Collector("t", 3, ("timestamp", "timestampType")), data)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert [(at - epoch).total_seconds() * 1000 for at in table["timestamp"].to_pylist()] == [5, 1000, 1000]
    assert table["timestampType"].to_pylist() == [0, 1, 1]


def test_damage_is_an_error():
    batch = encode_batch([Record(0, 1, b"k", b"v" * 50)])
    batch[61] = 200  # the record claims to be longer than it is
    with pytest.raises(CorruptBatch):
        rows_of(Collector("t", 3, ("value",)), batch)


def test_columns_are_named_in_order():
    assert names_of((), False) == tuple(name for name in TYPES if name != "headers")
    assert names_of((), True)[-1] == "headers"
    assert ddl_of(names_of(("offset", "key"), False)) == "offset BIGINT, key BINARY"
    for wrong in (("nope",), ("key", "key")):
        with pytest.raises(InvalidRequest):
            names_of(wrong, False)


def test_large_keys_fill_a_batch_too(monkeypatch):
    monkeypatch.setattr(columns_module, "BYTES", 1000)
    data = b"".join(encode_batch([Record(0, 1, b"k" * 600, None)], base_offset=i) for i in range(4))
    found, _ = rows_of(Collector("t", 3, ("key",)), data)
    assert [len(batch) for batch in found] == [2, 2]


def test_a_column_has_an_end():
    columns = Columns(10)
    _, data = open_records(encode_batch([Record(0, 1, b"k", b"v")]))
    memoryview(columns.key_end_data).cast("i")[0] = (1 << 31) - 5
    with pytest.raises(InvalidRequest, match="in one column"):
        columns.add(data, 1, (0, 0, 1), None, 0, 10)


def test_memory_is_used_again_once_nobody_holds_the_rows_in_it() -> None:
    columns = Columns(10)
    batch = encode_batch([Record(0, 5, b"k", b"v" * 100)], base_offset=0)
    header, data = open_records(batch)
    base = (header.base_offset, header.last_offset_delta, header.base_timestamp_ms)
    columns.add(data, 1, base, None, 0, 1)
    held = pa.py_buffer(columns.values)
    assert not columns.clear()
    assert columns.rows == 1, "nothing has changed"
    del held
    assert columns.clear()
    assert (columns.rows, columns.held_bytes, any(columns.value_valid), any(columns.key_valid)) == (
        0,
        0,
        False,
        False,
    )
    columns.add(data, 1, base, None, 0, 1)
    assert bytes(columns.values[:100]) == b"v" * 100


@pytest.mark.parametrize("kept_batches", [0, 1, 100])
def test_rows_that_somebody_keeps_stay_as_they_are(kept_batches: int) -> None:
    """Spark lets go of each record batch once it has the next one; others may keep some, or all."""
    collector, seen, kept = Collector("t", 0, ("key", "value", "offset")), [], []
    for number in range(20):
        records = [Record(0, 5, None, bytes([number]) * 5000)] * 1000
        batch = encode_batch(records, base_offset=1000 * number)
        for rows in collector.add(fetched(batch, 1000 * number), 1 << 40, False):
            seen += [value[0] for value in rows.column("value").to_pylist()]
            kept = [*kept, rows][-kept_batches:] if kept_batches else []
    seen += [value[0] for rows in collector.rest() for value in rows.column("value").to_pylist()]
    assert seen == [number for number in range(20) for _ in range(1000)]
    values = [value[0] for rows in kept for value in rows.column("value").to_pylist()]
    offsets = [offset for rows in kept for offset in rows.column("offset").to_pylist()]
    assert values == [offset // 1000 for offset in offsets]


def test_record_batches_use_memory_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def make(*arguments):
        made.append(arguments)
        return Columns(*arguments)

    monkeypatch.setattr(columns_module, "Columns", make)
    collector = Collector("t", 0, ("value",))
    for number in range(30):
        batch = encode_batch([Record(0, 5, None, b"v" * 5000)] * 1000, base_offset=1000 * number)
        for rows in collector.add(fetched(batch, 1000 * number), 1 << 40, False):
            assert len(rows)
    assert len(made) <= 5
    large = columns_module.ROWS + 1
    batch = encode_batch([Record(0, 5, None, b"v")] * large, base_offset=30_000)
    sizes = [len(rows) for rows in collector.add(fetched(batch, 30_000), 1 << 40, False)]
    for number in range(40):
        batch = encode_batch([Record(0, 5, None, b"v")] * 1000, base_offset=60_000 + 1000 * number)
        sizes += map(len, collector.add(fetched(batch, 60_000 + 1000 * number), 1 << 40, False))
    assert sizes[-1] <= columns_module.ROWS, "one large batch does not make later ones large"
