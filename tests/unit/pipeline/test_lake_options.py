"""Options of the jobs lake, replay and stats: checked before Spark starts, and in their pages."""

from pathlib import Path

import pytest

from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.jobs import job_of
from mainstem.pipeline.jobs.lake_options import local_folder, seconds, size_bytes, subscription
from mainstem.pipeline.jobs.replay import time_us

PAGES = Path(__file__).parents[3] / "docs" / "pipelines"
KINDS = ("lake", "replay", "stats")
GIVEN = {
    "lake": {"topic": "orders", "path": "lake/orders"},
    "replay": {"topic": "again", "path": "lake/orders"},
    "stats": {"topic": "orders"},
}


def options(kind, **given):
    job = job_of(kind)
    return {one.name: one.default for one in job.options} | GIVEN[kind] | given


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_is_in_the_page_with_its_default(kind):
    page = (PAGES / f"jobs-{kind}.md").read_text().split("## Options")[1].split("\n## ")[0]
    rows = {line.split("|")[1].strip(): line for line in page.splitlines() if line.startswith("| `")}
    for option in job_of(kind).options:
        row = rows[f"`{option.name}`"]
        assert not option.default or f"`{option.default}`" in row
    assert len(rows) == len(job_of(kind).options)


@pytest.mark.parametrize("kind", KINDS)
def test_few_options_are_enough(kind):
    job_of(kind).check(options(kind))


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("lake", {"topic": ""}, "give topic"),
        ("lake", {"pattern": "a.*"}, "both are given"),
        ("lake", {"format": "jsn"}, "did you mean 'json'"),
        ("lake", {"format": "csv"}, "csv needs a schema"),
        ("lake", {"format": "avro"}, "avro needs avro_schema"),
        ("lake", {"event_time": "at"}, "event_time needs a format"),
        ("lake", {"metadata": "keys"}, "did you mean 'key'"),
        ("lake", {"partition_by": " , "}, "partition_by is empty"),
        ("lake", {"compact_files": "1"}, "2 or more"),
        ("lake", {"target_size": "big"}, "target_size is a size"),
        ("lake", {"compact_idle": "soon"}, "compact_idle is a time"),
        ("lake", {"path": "s3a://bucket/x"}, "a folder that driver and executors all see"),
        ("lake", {"table_format": "hudi"}, "table_format is one of"),
        ("lake", {"path": ""}, "parquet needs a path"),
        ("lake", {"table": "db.orders"}, "parquet needs a path, not a table"),
        ("lake", {"table_format": "delta", "path": ""}, "either path or table"),
        ("lake", {"table_format": "iceberg", "table": "db.orders"}, "either path or table"),
        ("lake", {"compression": "rar"}, "compression is one of"),
        ("lake", {"max_records": "0"}, "whole number from 1"),
        ("lake", {"isolation": "commited"}, "did you mean 'read_committed'"),
        ("stats", {"isolation": "none"}, "isolation is one of read_committed"),
        ("replay", {"partitioning": "keys"}, "did you mean 'key'"),
        ("replay", {"from": "yesterday"}, "from is a time"),
        ("stats", {"topic": "a, b"}, "into is missing"),
        ("stats", {"into": "orders"}, "no end"),
        ("stats", {"plot": "p.jpg"}, "ends in .png"),
        ("stats", {"window": "0 seconds"}, "a second or more"),
    ],
)
def test_wrong_options_are_explained(kind, given, message):
    with pytest.raises(InvalidRequest, match=message):
        job_of(kind).check(options(kind, **given))


def test_a_table_of_a_catalog_takes_the_place_of_a_path():
    job_of("lake").check(options("lake", table_format="iceberg", path="", table="local.db.orders"))


def test_times_and_sizes_are_read_as_people_write_them():
    assert [seconds("t", text) for text in ("90 seconds", "1 Hour", "2days", "1.5 minutes")] == [
        90,
        3600,
        172_800,
        90,
    ]
    assert [size_bytes("s", text) for text in ("128 MiB", "1kb", "5")] == [128 << 20, 1000, 5]
    assert local_folder("path", "file:///a/b") == "/a/b"
    assert subscription({"topic": "a , b"}) == {"subscribe": "a,b"}
    assert (
        time_us("t", "1970-01-02T00:00:00.5") == time_us("t", "1970-01-02T01:00:00.5+01:00") == 86_400_500_000
    )


def test_hours_lie_within_days():
    from mainstem.pipeline.jobs.lake import shape_of

    assert shape_of(options("lake", partition_by="topic,hour")).partition_by == ("topic", "day", "hour")
