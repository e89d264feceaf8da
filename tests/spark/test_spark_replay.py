"""A lake back to a topic: the same records, in the same order, once, however its files are merged."""

import io
import json

import pytest
from fastavro import schemaless_writer
from lake_kit import ONCE, counted_rows, data_files, put_json, run_job, start_job
from spark_kit import T0_MS

from mainstem.model.errors import InvalidRequest
from mainstem.model.records import Record

# Several queries each, which take long to start where other work goes on.
pytestmark = pytest.mark.timeout(300)


def records(house, topic, *columns):
    columns = columns or ("partition", "key", "value", "timestamp", "headers")
    read = house.read(topic, includeHeaders="true").orderBy("partition", "offset").select(*columns)
    return [tuple(row) for row in read.collect()]


def test_what_comes_back_is_what_went_in(house, topic, tmp_path):
    """Bytes, nulls, headers, times, partitions and order; in batches, with a restart, over merged files."""
    lake, target = tmp_path / "lake", f"{topic}-back"
    house.create(topic, 2)

    def fill(first):
        for partition in range(2):
            some = [
                Record(
                    0, T0_MS + i * 3_600_000, b"%d" % (i % 5) if i % 3 else None, b"%d" % i, (("h", b"x"),)
                )
                for i in range(first, first + 40)
            ]
            house.put(topic, [*some, Record(0, T0_MS, b"gone", None)], partition)

    archive = {"topic": topic, "path": lake, "metadata": "headers", "compact_files": 2, "max_records": 60}
    replay = {"path": lake, "topic": target, "max_records": 60}
    fill(0)
    run_job(house, "lake", tmp_path / "c", **archive)
    (query,) = run_job(house, "replay", tmp_path / "r", **replay)
    assert records(house, target) == records(house, topic)
    assert counted_rows(query) == 82

    # Files that were replayed are merged with new ones; only what is new is replayed.
    before = data_files(lake)
    fill(40)
    run_job(house, "lake", tmp_path / "c", **archive, compact_idle="0 seconds")
    assert set(before) - set(data_files(lake))
    run_job(house, "replay", tmp_path / "r", **replay)
    assert records(house, target) == records(house, topic)
    assert len(records(house, target)) == 164
    run_job(house, "replay", tmp_path / "r", **replay)
    assert len(records(house, target)) == 164


def test_typed_rows_of_a_time_and_a_condition_are_written_anew(house, topic, tmp_path):
    house.create(topic, 3)
    rows = [{"id": i, "region": "north" if i % 2 else "a=b", "n": {"x": [i]}} for i in range(20)]
    put_json(house, topic, rows, 1, key=b"k", first_ms=T0_MS)
    archive = {"topic": topic, "format": "json", "path": tmp_path / "lake", "partition_by": "region, day"}
    run_job(house, "lake", tmp_path / "c", **archive)
    house.create(f"{topic}-some")
    run_job(
        house,
        "replay",
        tmp_path / "r",
        path=tmp_path / "lake",
        topic="{topic}-some",
        where="region = 'a=b' AND id < 16 AND day = '2023-11-14'",
        partitioning="key",
        **{"from": "2023-11-14T22:13:20.004Z", "until": "2023-11-14T22:13:20.018"},
    )
    back = records(house, f"{topic}-some", "key", "value")
    assert [json.loads(value) for _, value in back] == [rows[i] for i in range(4, 16, 2)]
    assert {key for key, _ in back} == {b"k"}


AVRO = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}


def avro(number):
    out = io.BytesIO()
    schemaless_writer(out, AVRO, {"id": number})
    return out.getvalue()


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({"format": "csv", "schema": "id INT, name STRING"}, [b"1,one", b'2,"a,b"']),
        ({"format": "avro", "avro_schema": json.dumps(AVRO), "metadata": "value"}, [avro(1), avro(2)]),
    ],
)
def test_other_formats_come_back_too(house, topic, tmp_path, options, values):
    house.create(topic)
    house.fill(topic, values, key=b"k")
    run_job(house, "lake", tmp_path / "c", topic=topic, path=tmp_path / "lake", partition_by="id", **options)
    assert sorted(path.parent.name for path in data_files(tmp_path / "lake")) == ["id=1", "id=2"]
    run_job(house, "replay", tmp_path / "r", path=tmp_path / "lake", topic=f"{topic}-b")
    back = records(house, f"{topic}-b", "key", "value")
    key = None if options["format"] == "avro" else b"k"  # it was not asked for
    assert back == [(key, value) for value in values]


def test_a_stream_replays_what_is_archived_while_it_runs(house, topic, tmp_path):
    house.create(topic)
    house.fill(topic, [b"%d" % i for i in range(10)])
    archive = {"topic": topic, "path": tmp_path / "lake"}
    run_job(house, "lake", tmp_path / "c", **archive)
    live = {"processingTime": "100 milliseconds"}
    with pytest.raises(InvalidRequest, match="archive again"):
        start_job(house, "replay", tmp_path / "x", live, path=tmp_path / "lake", topic=topic)
    (query,) = start_job(house, "replay", tmp_path / "r", live, path=tmp_path / "lake", topic=f"{topic}-b")
    try:
        house.fill(topic, [b"%d" % i for i in range(10, 20)])
        run_job(house, "lake", tmp_path / "c", **archive)
        query.processAllAvailable()
    finally:
        query.stop()
    assert [value for (value,) in records(house, f"{topic}-b", "value")] == [b"%d" % i for i in range(20)]


def test_what_cannot_be_replayed_is_explained(house, topic, tmp_path):
    with pytest.raises(InvalidRequest, match="is not a lake"):
        start_job(house, "replay", tmp_path / "r", ONCE, path=tmp_path / "none", topic="t")
    house.create(topic, 2)
    house.create(f"{topic}-narrow")
    house.fill(topic, [b"1"])
    run_job(house, "lake", tmp_path / "c", topic=topic, path=tmp_path / "lake")
    with pytest.raises(InvalidRequest, match="has 1 partitions, the lake 2"):
        start_job(house, "replay", tmp_path / "r", path=tmp_path / "lake", topic=f"{topic}-narrow")
    with pytest.raises(InvalidRequest, match="where: .*ofset"):
        start_job(house, "replay", tmp_path / "r", path=tmp_path / "lake", topic="t", where="ofset > 1")
