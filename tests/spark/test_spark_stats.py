"""Figures of topics per window: right, told once for each batch, and drawn."""

import csv
import json
import statistics
import struct

import pyarrow.parquet as pq
import pytest
from lake_kit import ONCE, put_in_transaction, run_job, start_job
from spark_kit import T0_MS

from mainstem.model.errors import InvalidRequest
from mainstem.model.records import Record
from mainstem.pipeline.counting import Tally

# Several queries each, which take long to start where other work goes on.
pytestmark = pytest.mark.timeout(300)

MINUTE_MS = 60_000
START_MS = T0_MS // MINUTE_MS * MINUTE_MS  # of a minute


def newest(house, topic):
    """The last word on each window."""
    rows = house.read(topic).orderBy("offset").collect()
    return {bytes(row.key).decode(): json.loads(row.value) for row in rows}


def put_events(house, topic, minute, count, latency_ms=250, partition=0):
    first = START_MS + minute * MINUTE_MS
    records = []
    for i in range(count):
        at_ms = first + i
        value = json.dumps({"at": at_ms - latency_ms, "pad": "x" * (i % 10)}).encode()
        records.append(Record(0, at_ms, b"k%d" % (i % 7), value))
    house.put(topic, records, partition)
    return records


def test_windows_have_the_figures_of_their_records(house, topic, tmp_path):
    house.create(topic, 2)
    sent = put_events(house, topic, 0, 300)
    put_events(house, topic, 2, 50, latency_ms=2_000, partition=1)
    house.fill(topic, [None, b"no json"], first_ms=START_MS + 3 * MINUTE_MS)
    options = {"topic": topic, "event_time": "at", "path": tmp_path / "s.csv", "plot": tmp_path / "p.png"}
    tally = Tally()
    run_job(house, "stats", tmp_path / "c", tally=tally, **options)
    assert tally.take(0) == 3
    told = newest(house, f"{topic}-stats")
    assert sorted(told) == [f"{topic}|2023-11-14T22:{minute}:00Z" for minute in (13, 15, 16)]
    first, third, last = (told[key] for key in sorted(told))
    sizes = [len(r.key) + len(r.value) for r in sent]
    assert (first["rows"], first["rows_per_s"], first["bytes"]) == (300, 5.0, sum(sizes))
    assert (first["size_p50"], first["size_max"]) == (int(statistics.median_low(sizes)), max(sizes))
    assert first["keys"] == 7
    assert [first[f"latency_{p}_ms"] for p in ("p50", "p99", "max")] == [250, 250, 250]
    assert (third["rows"], third["latency_p50_ms"]) == (50, 2000)
    assert (last["rows"], last["bytes"], last["keys"], last["latency_p50_ms"]) == (2, 7, 0, None)
    with (tmp_path / "s.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [(row["start"], int(row["rows"])) for row in table] == [
        (told[key]["start"], told[key]["rows"]) for key in sorted(told)
    ]
    picture = (tmp_path / "p.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert struct.unpack(">I", picture[16:20])[0] >= 800

    # A restart goes on with open windows, and the picture's past is still there.
    put_events(house, topic, 3, 10)
    options |= {"path": tmp_path / "s.parquet"}
    run_job(house, "stats", tmp_path / "c", **options)
    again = newest(house, f"{topic}-stats")
    assert again[max(told)]["rows"] == 12
    assert again[min(told)] == first
    assert pq.read_table(tmp_path / "s.parquet").column("rows").to_pylist() == [300, 50, 12]


def test_what_a_transaction_aborted_is_not_counted(house, topic, tmp_path):
    house.create(topic)
    put_in_transaction(house, topic, [b"aborted"] * 5, commit=False)
    put_in_transaction(house, topic, [b"committed"] * 3, commit=True)
    run_job(house, "stats", tmp_path / "c", topic=topic, window="1 day")
    assert sum(one["rows"] for one in newest(house, f"{topic}-stats").values()) == 3


def test_several_topics_are_told_apart_and_results_are_not_counted(house, topic, tmp_path):
    for name, count in (("a", 30), ("b", 60)):
        house.create(f"{topic}-{name}")
        put_events(house, f"{topic}-{name}", 0, count)
    options = {"pattern": f"{topic}-.*", "into": f"{topic}-results", "window": "30 seconds"}
    run_job(house, "stats", tmp_path / "c", **options)
    run_job(house, "stats", tmp_path / "c", **options)  # now the pattern fits the results too
    told = newest(house, f"{topic}-results")
    assert {one["topic"]: (one["rows"], one["rows_per_s"]) for one in told.values()} == {
        f"{topic}-a": (30, 1.0),
        f"{topic}-b": (60, 2.0),
    }


def test_wrong_options_are_explained(house, tmp_path):
    for options, message in (
        ({"topic": "a, b"}, "into is missing"),
        ({"topic": "a", "into": "a"}, "no end"),
        ({"topic": "a", "window": "1 fortnight"}, "window is a time"),
        ({"topic": "a", "path": "x.json"}, "csv or .parquet"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            start_job(house, "stats", tmp_path / "c", ONCE, **options)
