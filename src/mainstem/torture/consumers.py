"""Consumers: a group that commits what it read, and a watcher that notes what readers are shown."""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random  # noqa: TID251 - seeded by the run, for its load only

from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as Position

from mainstem.client import Client, ClientSettings, TopicPartition, parse_bootstrap
from mainstem.model.errors import BrokerRefused, BrokerUnreachable
from mainstem.torture.clients import consumer_settings
from mainstem.torture.gate import Gate, Worker
from mainstem.torture.ledger import Ledger

KAFKA_STORAGE_ERROR = 56
FETCH_BYTES = 256 << 10
AT_ONCE = 200  # messages


class GroupMember(Worker):
    """The one member of a group. It reads committed records and commits its offsets, waiting for each."""

    def __init__(
        self, group: str, bootstrap: str, topics: Sequence[str], chance: Random, gate: Gate, ledger: Ledger
    ) -> None:
        super().__init__(group, gate, ledger.remarks.append)
        self._ledger = ledger
        self._chance = chance
        self._consumer = Consumer(consumer_settings(bootstrap, group))
        self._consumer.subscribe(list(topics))
        self._read: dict[TopicPartition, int] = {}  # the next offset, of what is not committed yet

    def step(self) -> None:
        for message in self._consumer.consume(AT_ONCE, 0.1):
            if message.error() is None:
                self._note(message)
        if self._read and self._chance.random() < 0.5:
            self._commit()

    def _note(self, message: Message) -> None:
        place, offset = place_of(message)
        committed = self._ledger.committed(self.name, place)
        if offset < committed.floor:
            self._remark(
                f"group {self.name}: {place} was read again at {offset}, below its commit {committed.floor}"
            )
        value = message.value()
        assert isinstance(value, bytes)
        self._ledger.saw(place, offset, value)
        self._read[place] = committed.position = offset + 1

    def _commit(self) -> None:
        wanted = self._read
        for place, offset in wanted.items():
            self._ledger.committed(self.name, place).tried.add(offset)
        positions = [Position(place.topic, place.partition, offset) for place, offset in wanted.items()]
        try:
            answers = self._consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException:
            return  # whether they were taken is not known
        for answer in answers or ():
            if answer.error is None:
                place = TopicPartition(answer.topic, answer.partition)
                committed = self._ledger.committed(self.name, place)
                committed.acked, committed.tried = answer.offset, set()
        self._read = {}

    def finish(self) -> None:
        self._consumer.close()


class Watcher(Worker):
    """Reads the tail of every partition, uncommitted records too, and notes high watermarks."""

    def __init__(self, bootstrap: str, places: Sequence[TopicPartition], gate: Gate, ledger: Ledger) -> None:
        super().__init__("watcher", gate, ledger.remarks.append)
        self._ledger = ledger
        settings = ClientSettings(parse_bootstrap(bootstrap), client_id="watcher", attempts=1)
        self._client = Client(settings)
        self._next = dict.fromkeys(places, 0)

    def step(self) -> None:
        try:
            fetched = self._client.fetch(self._next, max_wait_ms=100, partition_max_bytes=FETCH_BYTES)
        except (BrokerUnreachable, BrokerRefused):
            time.sleep(0.02)  # gone, or about to go
            return
        for part in fetched:
            if part.error_code == KAFKA_STORAGE_ERROR:
                continue  # its disk was cut just now; if it stays so, reading everything back will fail
            if part.error_code:
                self._remark(f"{part.place}: reading at {part.offset} failed with code {part.error_code}")
                continue
            self._ledger.saw_watermark(part.place, part.high_watermark)
            for record in part.decoded():
                self._ledger.saw(part.place, record.offset, record.value or b"")
            if part.next_offset > part.high_watermark:
                self._remark(
                    f"{part.place}: shown up to {part.next_offset}, above the high watermark "
                    f"{part.high_watermark}"
                )
            self._next[part.place] = part.next_offset

    def finish(self) -> None:
        self._client.close()


def place_of(message: Message) -> tuple[TopicPartition, int]:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return TopicPartition(topic, partition), offset
