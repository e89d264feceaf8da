"""Sends the rows while everything around it is killed: each of them exactly once, by the plain client."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from mainstem.client import LATEST, Client, ClientSettings, TopicPartition
from mainstem.client.patience import patiently
from mainstem.model.errors import BrokerUnreachable
from mainstem.model.records import Record, encode_batch
from mainstem.torture.spark_rows import Rows, to_json

PATIENCE_S = 120.0
CHUNKS = 200  # rows come in so many portions
MOST_IN_CHUNK = 2000
LOOK_EVERY_S = 0.02


class Feeder(threading.Thread):
    """Stays at most `lead` rows ahead of `copied`, so that it is at work for as long as the strikes go on.

    It is the only producer, so it knows where its batch must lie: if a connection breaks it looks there
    whether the batch has come, and sends it again if not. The last row is kept back until `finish`.
    """

    def __init__(
        self, settings: ClientSettings, topic: str, rows: Rows, lead: int, copied: Callable[[], int]
    ) -> None:
        super().__init__(name="feeder", daemon=True)
        self._settings = settings
        self._topic = topic
        self._rows = rows
        self._lead = lead
        self._copied = copied
        self._ends: dict[TopicPartition, int] = {}
        self._stopped = threading.Event()
        self.sent = 0
        self.wrong = ""

    def run(self) -> None:
        try:
            with Client(self._settings) as client:
                self._feed(client)
        except Exception as error:  # told by the run, which ends then
            self.wrong = f"the feeder gave up: {type(error).__name__}: {error}"

    def stop(self) -> None:
        self._stopped.set()

    def finish(self) -> None:
        """By the run, after all other rows were sent and read: the one that closes windows."""
        with Client(self._settings) as client:
            self._send(client, TopicPartition(self._topic, 0), [self._rows.count])
        self.sent += 1

    @property
    def has_sent_all_but_one(self) -> bool:
        return self.sent >= self._rows.count - 1

    def _feed(self, client: Client) -> None:
        places = [
            TopicPartition(self._topic, one.index)
            for one in patiently(lambda: client.topic(self._topic), PATIENCE_S).partitions
        ]
        chunk = max(1, min(self._rows.count // CHUNKS, MOST_IN_CHUNK))
        for first in range(1, self._rows.count, chunk):
            numbers = range(first, min(first + chunk, self._rows.count))
            while numbers[-1] > self._copied() + self._lead:
                if self._stopped.wait(LOOK_EVERY_S):
                    return
            for index, place in enumerate(places):
                if share := [number for number in numbers if number % len(places) == index]:
                    self._send(client, place, share)
                    self.sent += len(share)

    def _send(self, client: Client, place: TopicPartition, numbers: list[int]) -> None:
        rows = map(self._rows.row, numbers)
        batch = encode_batch([Record(0, row.at_ms, row.key.encode(), to_json(row)) for row in rows])
        expected = self._ends.get(place, 0)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                client.produce({place: batch})
                break
            except BrokerUnreachable:
                if time.monotonic() > deadline:
                    raise
                if self._end(client, place) > expected:  # it had come; only the answer had not
                    break
        self._ends[place] = expected + len(numbers)

    def _end(self, client: Client, place: TopicPartition) -> int:
        return patiently(lambda: client.offsets({place: LATEST})[place].offset, PATIENCE_S)
