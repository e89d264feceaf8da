"""Reads what the sample's pipeline writes, from the topic and from Parquet, while it does."""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

from confluent_kafka import Consumer, TopicPartition

from mainstem.cli.demo_sample import LAKE, REVENUE, Expected, Figure, figure_of

POLL_S = 0.2
LAKE_EVERY_S = 1.0
LATE_S = 300.0  # how long the last windows may take once sending is over: Spark may only just have started

Rows = dict[tuple[int, str], Figure]


class Results:
    """A thread follows the topic; Parquet is looked at now and then."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "mainstem-demo-results",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._lake = folder / LAKE
        self._lake_rows: Rows = {}
        self._files: set[str] = set()
        self._looked_s = 0.0
        self.rows: Rows = {}
        self.twice: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def start(self) -> None:
        self._consumer.assign([TopicPartition(REVENUE, 0, 0)])
        self._thread.start()

    def _follow(self) -> None:
        while not self._over.is_set():
            message = self._consumer.poll(POLL_S)
            value = message.value() if message is not None and message.error() is None else None
            if isinstance(value, bytes):
                self._keep(self.rows, figure_of(value), "topic")

    def report(self) -> dict[str, object]:
        now_s = time.monotonic()
        if now_s - self._looked_s >= LAKE_EVERY_S and (self._lake / "_spark_metadata").exists():
            self._looked_s = now_s
            self._parquet()
        rows = dict(self.rows)
        last_s = max((minute_s for minute_s, _ in rows), default=0)
        latest = {region: figure.cents for (minute_s, region), figure in rows.items() if minute_s == last_s}
        return {
            "windows": len({minute_s for minute_s, _ in rows}),
            "topic_rows": len(rows),
            "lake_rows": len(self._lake_rows),
            "minute": f"{datetime.fromtimestamp(last_s, UTC):%H:%M}" if last_s else "",
            "revenue": {region: cents / 100 for region, cents in sorted(latest.items())},
        }

    def _parquet(self) -> Rows:
        """Of the files that the stream has noted as its own; each is read once."""
        from pyarrow import parquet

        for file in committed_files(self._lake / "_spark_metadata"):
            if file in self._files:
                continue
            self._files.add(file)
            for row in parquet.read_table(file).to_pylist():
                minute_s = int(row["minute"].timestamp())
                figure = Figure(minute_s, row["region"], round(row["revenue"] * 100), row["orders"])
                self._keep(self._lake_rows, figure, "Parquet")
        return self._lake_rows

    def _keep(self, rows: Rows, figure: Figure, where: str) -> None:
        window = (figure.minute_s, figure.region)
        if window in rows:
            self.twice.append(f"{where}: a second row for {figure.region}")
        rows[window] = figure

    def verdict(self, expected: Expected) -> dict[str, object]:
        """Waits until all windows that are over came out of both, or for long enough."""
        wanted = len(expected.closed())
        until_s = time.monotonic() + LATE_S
        lake: Rows = {}
        while time.monotonic() < until_s:
            lake = self._parquet()
            if len(self.rows) >= wanted and len(lake) >= wanted:
                break
            time.sleep(POLL_S)
        self._over.set()
        self._thread.join()
        self._consumer.close()
        wrong = [
            *expected.differences(self.rows, "topic"),
            *expected.differences(lake, "Parquet"),
            *self.twice,
        ]
        windows = len({minute_s for minute_s, _ in self.rows})
        return {"windows": windows, "topic_rows": len(self.rows), "lake_rows": len(lake), "wrong": wrong}


def committed_files(notes: Path) -> list[str]:
    """What Spark's file sink has noted. Every tenth note holds all before it, which may still lie there."""
    found: dict[str, None] = {}
    numbers = {int(note.name.partition(".")[0]): note for note in sorted(notes.glob("[0-9]*"))}
    whole = max((number for number, note in numbers.items() if note.suffix == ".compact"), default=-1)
    for number in sorted(number for number in numbers if number >= whole):
        for line in numbers[number].read_text(encoding="utf-8").splitlines()[1:]:
            found[unquote(json.loads(line)["path"].removeprefix("file://"))] = None
    return list(found)
