"""What is told of a topic and a window of time, and the recent past of it. Pure, but for files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from mainstem.model.errors import InvalidRequest

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class WindowStats(msgspec.Struct, frozen=True, kw_only=True):
    """One topic in one window. What is sent later of the same window replaces it."""

    topic: str
    start: datetime
    end: datetime
    rows: int
    rows_per_s: float  # over the whole window, also while it is open
    bytes: int  # keys and values, without what surrounds them
    bytes_per_s: float
    size_p50: int  # bytes of a record
    size_p99: int
    size_max: int
    keys: int  # different ones, to about 5 %
    latency_p50_ms: int | None = None  # from the event to the record's timestamp
    latency_p99_ms: int | None = None
    latency_max_ms: int | None = None

    @property
    def key(self) -> str:
        return f"{self.topic}|{self.start:%Y-%m-%dT%H:%M:%SZ}"


FIELDS = tuple(field.name for field in msgspec.structs.fields(WindowStats))


def window_stats(row: Mapping[str, Any]) -> WindowStats:
    """From a row of Spark's, with times in microseconds since 1970."""
    start, end = (_EPOCH + timedelta(microseconds=row[name]) for name in ("start_us", "end_us"))
    seconds = (end - start).total_seconds()
    size_p50, size_p99 = row["sizes"]
    p50, p99 = row["latencies"] or (None, None)
    return WindowStats(
        topic=row["topic"],
        start=start,
        end=end,
        rows=row["rows"],
        rows_per_s=round(row["rows"] / seconds, 3),
        bytes=row["bytes"],
        bytes_per_s=round(row["bytes"] / seconds, 3),
        size_p50=size_p50,
        size_p99=size_p99,
        size_max=row["size_max"],
        keys=row["keys"],
        latency_p50_ms=p50,
        latency_p99_ms=p99,
        latency_max_ms=row["latency_max_ms"],
    )


def encode(stats: WindowStats) -> bytes:
    return msgspec.json.encode(stats)


def decode(value: bytes) -> WindowStats | None:
    """None for what is not ours, in a topic that others may write to."""
    try:
        return msgspec.json.decode(value, type=WindowStats)
    except msgspec.DecodeError:
        return None


class History:
    """The windows of the last while, by topic and time."""

    def __init__(self, keep_s: float) -> None:
        self._keep = timedelta(seconds=keep_s)
        self._windows: dict[tuple[str, datetime], WindowStats] = {}

    def add(self, windows: Iterable[WindowStats]) -> None:
        for one in windows:
            self._windows[one.topic, one.start] = one
        if self._windows:
            oldest = max(start for _, start in self._windows) - self._keep
            self._windows = {place: one for place, one in self._windows.items() if place[1] >= oldest}

    def windows(self) -> list[WindowStats]:
        return [self._windows[place] for place in sorted(self._windows)]


def lines(windows: Iterable[WindowStats]) -> dict[str, list[WindowStats | datetime]]:
    """By topic, busiest first, without holes: a window in which nothing came is only its time."""
    found: dict[str, list[WindowStats]] = {}
    for one in windows:
        found.setdefault(one.topic, []).append(one)
    ordered = sorted(found, key=lambda topic: -sum(one.rows for one in found[topic]))
    return {topic: list(_filled(sorted(found[topic], key=lambda one: one.start))) for topic in ordered}


def _filled(windows: list[WindowStats]) -> Iterable[WindowStats | datetime]:
    before: WindowStats | None = None
    for one in windows:
        if before is not None:
            step = before.end - before.start
            missing = before.start + step
            while missing < one.start:
                yield missing
                missing += step
        yield one
        before = one


def write_table(path: Path, windows: list[WindowStats]) -> None:
    """A csv or parquet file, by its name, replaced in one step."""
    fresh = path.with_name(f".{path.name}.new")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        fresh.write_text(_csv(windows))
    else:
        _write_parquet(fresh, windows)
    fresh.replace(path)


def check_table(path: str) -> None:
    if Path(path).suffix not in (".csv", ".parquet"):
        raise InvalidRequest(f"path is a file that ends in .csv or .parquet, not {path!r}")


def _csv(windows: list[WindowStats]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    writer.writerows([_plain(getattr(one, name)) for name in FIELDS] for one in windows)
    return text.getvalue()


def _plain(value: object) -> object:
    return f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value


def _write_parquet(path: Path, windows: list[WindowStats]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {str: pa.string(), datetime: pa.timestamp("us", tz="UTC"), float: pa.float64()}
    types = {field.name: kinds.get(field.type, pa.int64()) for field in msgspec.structs.fields(WindowStats)}
    columns = {name: [getattr(one, name) for one in windows] for name in FIELDS}
    parquet.write_table(pa.table(columns, schema=pa.schema(list(types.items()))), path)
