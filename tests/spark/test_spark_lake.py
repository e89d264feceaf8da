"""Topics to Parquet: every record once, for any reader of the folder, whatever is killed, merged or grown."""

import datetime
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from lake_kit import data_files, put_in_transaction, put_json, run_job, start_job
from pyspark.errors import StreamingQueryException
from spark_kit import T0_MS

from mainstem.model.errors import InvalidRequest, NotSupported
from mainstem.model.records import Record
from mainstem.pipeline.counting import Tally
from mainstem.pipeline.jobs import lake_folder
from mainstem.pipeline.jobs.lake_folder import Lake
from mainstem.pipeline.jobs.lake_writer import Writer

# Several queries each, which take long to start where other work goes on.
pytestmark = pytest.mark.timeout(300)

DAY_MS = 86_400_000
DAY0 = datetime.date(2023, 11, 14)  # of T0_MS


def plain(folder):
    """What a reader sees that knows nothing of us: Arrow's, over the plain folder."""
    columns = pq.read_schema(folder / "_common_metadata")
    parts = [p.split("=")[0] for p in data_files(folder)[0].relative_to(folder).parts[:-1]]
    schema = pa.schema([*columns, *(pa.field(name, pa.string()) for name in parts)])
    return ds.dataset(folder, schema=schema, partitioning="hive").to_table().to_pylist()


def test_raw_records_arrive_whole_in_a_folder_for_each_day(house, topic, tmp_path):
    house.create(topic, 2)
    headers = (("h", b"\x00"), ("n", None))
    records = [Record(0, T0_MS + i * DAY_MS // 2, b"k%d" % i, b"v%d" % i, headers) for i in range(4)]
    house.put(topic, records)
    house.put(topic, [Record(0, T0_MS, None, None)], 1)
    run_job(house, "lake", tmp_path / "c", topic=topic, path=tmp_path / "lake", metadata="headers")
    seen = house.spark.read.parquet(str(tmp_path / "lake")).orderBy("partition", "offset").collect()
    assert [(r.topic, r.partition, r.offset, r.key, r.value) for r in seen] == [
        *((topic, 0, i, b"k%d" % i, b"v%d" % i) for i in range(4)),
        (topic, 1, 0, None, None),
    ]
    assert [tuple(h) for h in seen[0].headers] == [("h", b"\x00"), ("n", None)]
    assert [int(r.timestamp.timestamp() * 1000) for r in seen[:4]] == [r.timestamp_ms for r in records]
    assert {r.day for r in seen} == {DAY0, DAY0 + datetime.timedelta(1), DAY0 + datetime.timedelta(2)}
    assert sorted(row["offset"] for row in plain(tmp_path / "lake") if row["partition"] == 0) == [0, 1, 2, 3]


def test_what_a_transaction_aborted_is_not_archived_unless_asked_for(house, topic, tmp_path):
    house.create(topic)
    put_in_transaction(house, topic, [b"aborted"], commit=False)
    put_in_transaction(house, topic, [b"committed"], commit=True)
    run_job(house, "lake", tmp_path / "c", topic=topic, path=tmp_path / "lake")
    assert [row["value"] for row in plain(tmp_path / "lake")] == [b"committed"]
    everything = {"topic": topic, "path": tmp_path / "all", "isolation": "read_uncommitted"}
    run_job(house, "lake", tmp_path / "d", **everything)
    assert [row["value"] for row in plain(tmp_path / "all")] == [b"aborted", b"committed"]


def test_typed_values_are_partitioned_by_their_own_time_and_fields(house, topic, tmp_path):
    house.create(topic)
    rows = [
        {"id": 1, "region": "north", "at": "2026-03-01T07:10:00Z"},
        {"id": 2, "region": "a/b c", "at": "2026-03-01T23:59:59Z"},
    ]
    put_json(house, topic, rows)
    house.fill(topic, [b"not json"])
    tally = Tally()
    run_job(
        house,
        "lake",
        tmp_path / "c",
        tally=tally,
        topic=topic,
        format="json",
        schema="id BIGINT, region STRING, at TIMESTAMP",
        path=tmp_path / "lake",
        partition_by="hour, region",
        event_time="at",
    )
    assert (tmp_path / "lake/day=2026-03-01/hour=07/region=north").is_dir()
    seen = house.spark.read.parquet(str(tmp_path / "lake")).orderBy("id").collect()
    assert [(r.id, r.region, r.hour, r._offset, r._topic) for r in seen] == [
        (1, "north", 7, 0, topic),
        (2, "a/b c", 23, 1, topic),
    ]
    assert house.read(f"{topic}.dead").count() == 1
    assert tally.take(0) == 2


def test_a_field_whose_name_is_taken_costs_its_record_and_not_the_lake(house, topic, tmp_path):
    house.create(topic)
    options = {"topic": topic, "format": "json", "path": tmp_path / "lake"}
    put_json(house, topic, [{"id": 1, "in": {"a": 1}}, {"id": 2, "Day": "x"}, {"id": 3, "_topic": "x"}])
    run_job(house, "lake", tmp_path / "c", **options)
    put_json(house, topic, [{"ID": 4}, {"id": 5, "in": {"A": 1}}, {"id": 6, "list": [{"b": 1}, {"B": 2}]}])
    put_json(house, topic, [{"id": 7, "new": 1}, {"id": 8, "New": 1}])
    run_job(house, "lake", tmp_path / "c", **options)
    assert sorted(row["id"] for row in plain(tmp_path / "lake")) == [1, 7]
    dead = house.read(f"{topic}.dead", includeHeaders="true").collect()
    told = {json.loads(row.value).get("id", 4): {h.key: bytes(h.value) for h in row.headers} for row in dead}
    assert sorted(told) == [2, 3, 4, 5, 6, 8]
    assert all(b"name of another" in headers["mainstem.reason"] for headers in told.values())


def test_a_restart_goes_on_where_it_ended_and_a_new_checkpoint_where_the_lake_ends(house, topic, tmp_path):
    house.create(topic, 2)
    path = tmp_path / "lake"
    for round in range(3):
        for partition in range(2):
            house.fill(topic, [b"%d-%d" % (round, i) for i in range(50)], partition)
        checkpoint = tmp_path / ("c" if round < 2 else "another")
        run_job(house, "lake", checkpoint, topic=topic, path=path, max_records=30)
    seen = house.spark.read.parquet(str(path)).select("partition", "offset", "value").collect()
    assert sorted((r.partition, r.offset, r.value) for r in seen) == sorted(
        (p, r * 50 + i, b"%d-%d" % (r, i)) for p in range(2) for r in range(3) for i in range(50)
    )


def test_a_checkpoint_that_the_lake_does_not_know_is_refused(house, topic, tmp_path):
    house.create(topic)
    house.fill(topic, [b"1"])
    run_job(house, "lake", tmp_path / "old", topic=topic, path=tmp_path / "lake")
    house.fill(topic, [b"2"])
    run_job(house, "lake", tmp_path / "new", topic=topic, path=tmp_path / "lake")
    house.fill(topic, [b"3"])
    (query,) = start_job(house, "lake", tmp_path / "old", topic=topic, path=tmp_path / "lake")
    with pytest.raises(StreamingQueryException, match="not the one that wrote"):
        query.awaitTermination(60)
    with pytest.raises(InvalidRequest, match="partition_by = 'day'"):
        start_job(house, "lake", tmp_path / "x", topic=topic, path=tmp_path / "lake", partition_by="topic")


def test_small_files_are_merged_and_no_listing_has_a_row_twice_or_misses_one(house, topic, tmp_path):
    """A reader lists and reads the folder all the while."""
    house.create(topic)
    path = tmp_path / "lake"
    options = {"topic": topic, "format": "json", "path": path, "compact_files": 3, "max_records": 10}
    put_json(house, topic, [{"id": i} for i in range(10)])
    run_job(house, "lake", tmp_path / "c", **options)
    put_json(house, topic, [{"id": i} for i in range(10, 150)], first_ms=T0_MS)
    (query,) = start_job(house, "lake", tmp_path / "c", **options)
    reads = least = 0
    while query.isActive or reads == 0:
        try:
            offsets = [row["_offset"] for row in plain(path)]
        except FileNotFoundError:  # listed before an exchange, opened after it: told, not passed over
            continue
        assert len(set(offsets)) == len(offsets)
        assert sorted(offsets) == list(range(len(offsets)))
        assert len(offsets) >= least
        least, reads = len(offsets), reads + 1
    assert query.exception() is None
    assert len(data_files(path)) < 5
    assert sorted(r.id for r in house.spark.read.parquet(str(path)).collect()) == list(range(150))
    # A folder without news is merged whole.
    put_json(house, topic, [{"id": 150}])
    run_job(house, "lake", tmp_path / "c", **options | {"compact_idle": "0 seconds"})
    assert len(data_files(path)) == 1
    assert len(plain(path)) == 151


def test_columns_grow_with_the_values(house, topic, tmp_path):
    house.create(topic)
    path = tmp_path / "lake"

    def add(*rows):
        put_json(house, topic, rows)
        run_job(house, "lake", tmp_path / "c", topic=topic, format="json", path=path)

    add({"id": 1, "n": {"a": 1}}, {"id": 2, "n": {"a": 2}})
    add({"id": 3, "name": "new", "n": {"a": 3, "b": "x"}})
    add({"id": 4.5, "n": {"a": 0.5}}, {"id": 5})
    add({"id": "six", "n": {"a": 1}}, {"id": 7, "name": 8}, {"id": 9, "n": "flat"})
    seen = {r.id: r for r in house.spark.read.parquet(str(path)).collect()}
    assert sorted(seen) == [1.0, 2.0, 3.0, 4.5, 5.0, 7.0]
    assert [seen[i].name for i in (1.0, 3.0, 4.5, 7.0)] == [None, "new", None, "8"]
    assert [tuple(seen[i].n) for i in (1.0, 3.0, 4.5)] == [(1.0, None), (3.0, "x"), (0.5, None)]
    assert sorted(row["id"] for row in plain(path)) == sorted(seen)
    dead = house.read(f"{topic}.dead", includeHeaders="true").collect()
    assert sorted(json.loads(r.value)["id"] for r in dead if b"six" not in r.value) == [9]
    reasons = {bytes(h.value).decode() for r in dead for h in r.headers if h.key == "mainstem.reason"}
    assert reasons == {
        "a field does not fit the columns of the lake: id DOUBLE, n STRUCT<a: DOUBLE, b: STRING>, name STRING"
    }


def test_a_schema_that_is_given_may_grow_and_not_change(house, topic, tmp_path):
    house.create(topic)
    path = tmp_path / "lake"
    for schema, row in (("id INT", {"id": 1}), ("id BIGINT, tag STRING", {"id": 2**40, "tag": "x"})):
        put_json(house, topic, [row])
        run_job(house, "lake", tmp_path / "c", topic=topic, format="json", schema=schema, path=path)
    assert sorted((r.id, r.tag) for r in house.spark.read.parquet(str(path)).collect()) == [
        (1, None),
        (2**40, "x"),
    ]
    put_json(house, topic, [{"id": "text"}])
    (query,) = start_job(
        house, "lake", tmp_path / "c", topic=topic, format="json", schema="id STRING", path=path
    )
    with pytest.raises(StreamingQueryException, match="id is BIGINT, not STRING"):
        query.awaitTermination(60)


def test_topics_by_a_pattern_get_a_folder_each(house, topic, tmp_path):
    for name in ("a", "b"):
        house.create(f"{topic}-{name}")
        house.fill(f"{topic}-{name}", [name.encode()])
    options = {"pattern": f"{topic}-.*", "path": tmp_path / "lake", "partition_by": "topic, day"}
    run_job(house, "lake", tmp_path / "c", **options)
    house.create(f"{topic}-c")
    house.fill(f"{topic}-c", [b"c"])
    run_job(house, "lake", tmp_path / "anew", **options)
    seen = house.spark.read.parquet(str(tmp_path / "lake")).collect()
    assert sorted((r.topic, r.value) for r in seen) == [(f"{topic}-{n}", n.encode()) for n in "abc"]


def test_delta_without_its_jars_is_explained(house, topic, tmp_path):
    house.create(topic)
    with pytest.raises(NotSupported, match="this Spark has no delta"):
        start_job(house, "lake", tmp_path / "c", topic=topic, path=tmp_path / "l", table_format="delta")


class Cut(Exception):
    """Work ends here: nothing behind it is done."""


def cut_after(patch, cls, name, number):
    """The call of that number is the last."""
    real, calls = getattr(cls, name), []

    def called(*args, **kwargs):
        found = real(*args, **kwargs)
        calls.append(name)
        if len(calls) == number:
            raise Cut
        return found

    patch.setattr(cls, name, called)


def seen_once(path):
    offsets = [row["_offset"] for row in plain(path)] if data_files(path) else []
    assert len(set(offsets)) == len(offsets)
    return offsets


def test_a_batch_that_is_cut_off_anywhere_is_in_the_lake_once(house, topic, tmp_path, monkeypatch):
    house.create(topic)
    path = tmp_path / "lake"
    put_json(house, topic, [{"id": i, "part": i % 3} for i in range(160)])
    options = {"topic": topic, "format": "json", "path": path, "partition_by": "day, part"}
    options |= {"compact_files": 2, "max_records": 40}
    # With a batch staged, noted and not moved, moved in part, moved; before an exchange, and right after it.
    moments = [(Writer, "_write", 1), (Lake, "_save", 1), (Path, "rename", 2), (Lake, "_move", 1)]
    moments += [(Lake, "workspace", 1), (lake_folder, "exchange", 1)]
    for cls, name, number in moments:
        with monkeypatch.context() as patch:
            cut_after(patch, cls, name, number)
            with pytest.raises((StreamingQueryException, Cut)):
                run_job(house, "lake", tmp_path / "c", **options)
        seen_once(path)
    run_job(house, "lake", tmp_path / "c", **options)
    assert sorted(row["id"] for row in plain(path)) == list(range(160))
    assert sorted(seen_once(path)) == list(range(160))


KILLED = """
import os, sys
sys.path[:0] = [{tests!r}]
from pathlib import Path
from lake_kit import run_job
from spark_kit import House
from pyspark.sql import SparkSession

plain, moved = Path.rename, []

def rename(self, target):
    plain(self, target)
    moved.append(target)
    if len(moved) == 2:
        os.kill(os.getpid(), 9)

Path.rename = rename
spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1").config("spark.sql.session.timeZone", "UTC")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1").getOrCreate())
run_job(House(spark, {address!r}), "lake", {checkpoint!r}, topic={topic!r}, format="json", path={path!r},
    partition_by="day, part")
"""


def test_a_driver_that_is_killed_while_it_publishes_leaves_nothing_twice_and_nothing_out(
    house, topic, tmp_path
):
    house.create(topic)
    path, checkpoint = tmp_path / "lake", tmp_path / "c"
    put_json(house, topic, [{"id": i, "part": i % 3} for i in range(90)])
    folder = os.path.dirname(__file__)
    script = KILLED.format(
        tests=folder, address=house.address, checkpoint=str(checkpoint), topic=topic, path=str(path)
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=110, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-2000:]
    assert len(seen_once(path)) == 60
    put_json(house, topic, [{"id": 90, "part": 0}])
    run_job(house, "lake", checkpoint, topic=topic, format="json", path=path, partition_by="day, part")
    assert sorted(row["id"] for row in plain(path)) == list(range(91))
