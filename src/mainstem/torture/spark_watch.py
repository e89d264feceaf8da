"""What readers of committed records are shown: how far they could read, and everything in the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import TypeVar

import msgspec

from mainstem.client import LATEST, Client, ClientSettings, TopicPartition
from mainstem.client.patience import patiently
from mainstem.model.errors import BrokerRefused, BrokerUnreachable, MainstemError
from mainstem.torture.spark_job import Job
from mainstem.torture.spark_judge import Copied, Ends, First, Output, Shown, Window
from mainstem.torture.spark_rows import Row

T = TypeVar("T")

LOOK_EVERY_S = 0.05
FETCH_BYTES = 8 << 20
PATIENCE_S = 60.0
# Partitions of each topic. Keys go to several partitions, so that a batch can be torn between them.
INPUT_PARTITIONS, COPY_PARTITIONS, SUM_PARTITIONS = 4, 3, 2


class Watcher(threading.Thread):
    """Asks all the time how far the outputs can be read; all of a topic in one request, at one moment."""

    def __init__(self, settings: ClientSettings, job: Job) -> None:
        super().__init__(name="watcher", daemon=True)
        self._client = Client(settings)
        self._ends: dict[str, list[Ends]] = {topic: [] for topic in job.outputs}
        self._job = job
        self._stopped = threading.Event()
        self.wrong = ""

    def run(self) -> None:
        while not self._stopped.wait(LOOK_EVERY_S):
            try:
                for topic in self._ends:
                    self._look(topic)
            except (BrokerUnreachable, BrokerRefused):
                continue  # it was killed just now
            except Exception as error:  # told by the run, which ends then
                self.wrong = f"the watcher gave up: {type(error).__name__}: {error}"
                return

    def stop(self) -> None:
        self._stopped.set()
        self.join()
        self._client.close()

    def reached(self, topic: str) -> int:
        """Records that can be read."""
        seen = self._ends[topic]
        return sum(seen[-1]) if seen else 0

    def shown(self) -> Shown:
        job = self._job
        return Shown(self._ends[job.copies], self._ends[job.windows], self._ends.get(job.firsts, ()))

    def _look(self, topic: str) -> None:
        count = COPY_PARTITIONS if topic == self._job.copies else SUM_PARTITIONS
        places = [TopicPartition(topic, index) for index in range(count)]
        found = self._client.offsets(dict.fromkeys(places, LATEST), committed=True)
        ends = tuple(found[place].offset for place in places)
        seen = self._ends[topic]
        if not seen or seen[-1] != ends:
            seen.append(ends)


class _Sent(msgspec.Struct):
    id: int
    key: str
    amount: int
    at: datetime


def read_output(settings: ClientSettings, job: Job) -> Output:
    with Client(settings) as client:
        sent = [
            Row(one.id, one.key, one.amount, round(one.at.timestamp() * 1000))
            for part in _read(client, job.source, INPUT_PARTITIONS, _Sent)
            for one in part
        ]
        return Output(
            sent,
            _read(client, job.copies, COPY_PARTITIONS, Copied),
            _read(client, job.windows, SUM_PARTITIONS, Window),
            _read(client, job.firsts, SUM_PARTITIONS, First) if job.with_firsts else None,
        )


def _read(client: Client, topic: str, partitions: int, kind: type[T]) -> list[list[T]]:
    """All that a reader of committed records gets, by partition."""
    decoder = msgspec.json.Decoder(kind)
    return [
        [decoder.decode(value) for value in _values(client, TopicPartition(topic, index))]
        for index in range(partitions)
    ]


def _values(client: Client, place: TopicPartition) -> Iterator[bytes]:
    offset = 0
    while True:
        (fetched,) = patiently(
            partial(
                client.fetch, {place: offset}, max_wait_ms=0, partition_max_bytes=FETCH_BYTES, committed=True
            ),
            PATIENCE_S,
        )
        for record in fetched.check().decoded(committed=True):
            # Nobody writes transactions here, so every offset is a record, and ends are numbers of records.
            if record.offset != offset:
                raise MainstemError(f"{place}: offset {offset} is not there, {record.offset} follows")
            offset += 1
            yield record.value or b""
        if offset >= fetched.last_stable_offset:
            return
        if not fetched.records:
            raise MainstemError(f"{place}: nothing to read at {offset}, below {fetched.last_stable_offset}")
