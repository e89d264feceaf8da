"""Windows of topics: their figures, their recent past, tables and pictures of it."""

import csv
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq

from mainstem.pipeline.jobs.stats_plot import draw
from mainstem.pipeline.jobs.stats_rows import History, decode, encode, lines, window_stats, write_table

START = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)


def window(minute, topic="orders", rows=60, latencies=None):
    start_us = int((START + timedelta(minutes=minute)).timestamp()) * 1_000_000
    return window_stats(
        {
            "topic": topic,
            "start_us": start_us,
            "end_us": start_us + 60_000_000,
            "rows": rows,
            "bytes": rows * 100,
            "sizes": [90, 150],
            "size_max": 151,
            "keys": 7,
            "latencies": latencies,
            "latency_max_ms": latencies and latencies[1] + 1,
        }
    )


def test_rates_are_over_the_whole_window():
    one = window(0, rows=90, latencies=[5, 9])
    assert (one.rows_per_s, one.bytes_per_s, one.latency_p99_ms, one.latency_max_ms) == (1.5, 150.0, 9, 10)
    assert one.key == "orders|2026-11-15T08:00:00Z"


def test_messages_come_back_as_they_were_and_others_are_passed_over():
    one = window(3, latencies=[1, 2])
    assert decode(encode(one)) == one
    assert b'"start":"2026-11-15T08:03:00Z"' in encode(one)
    assert decode(b"{}") is decode(b"not json") is None


def test_the_past_keeps_the_last_word_and_not_for_ever():
    history = History(keep_s=120)
    history.add([window(0), window(1, rows=1), window(1, "other")])
    history.add([window(1, rows=5), window(3)])
    assert [(one.topic, one.start.minute, one.rows) for one in history.windows()] == [
        ("orders", 1, 5),
        ("orders", 3, 60),
        ("other", 1, 60),
    ]


def test_lines_have_no_holes_and_the_busiest_comes_first():
    drawn = lines([window(0, "calm"), window(0, rows=100), window(3)])
    assert list(drawn) == ["orders", "calm"]
    assert [getattr(one, "start", one).minute for one in drawn["orders"]] == [0, 1, 2, 3]
    assert isinstance(drawn["orders"][1], datetime)


def test_tables_are_whole_files(tmp_path):
    windows = [window(0), window(1, latencies=[5, 9])]
    for name in ("s.csv", "s.parquet"):
        write_table(tmp_path / "out" / name, windows)
    with (tmp_path / "out/s.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["start"], row["rows"], row["latency_p50_ms"]) for row in rows] == [
        ("2026-11-15T08:00:00Z", "60", ""),
        ("2026-11-15T08:01:00Z", "60", "5"),
    ]
    table = pq.read_table(tmp_path / "out/s.parquet").to_pylist()
    assert [(row["start"], row["latency_p50_ms"]) for row in table] == [(START, None), (windows[1].start, 5)]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["s.csv", "s.parquet"]


def test_a_picture_is_drawn_with_and_without_latency_and_with_many_topics(tmp_path):
    many = [window(minute, f"topic-{number}") for number in range(12) for minute in range(3)]
    for name, windows in (("a", [window(0)]), ("b", [window(0, latencies=[5, 9]), window(5)]), ("c", many)):
        draw(windows, tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
