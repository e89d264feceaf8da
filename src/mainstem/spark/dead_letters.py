"""Records that could not be read go to a topic of their own, as they came, with the reason.

A task sends them when they are met (`send`), and again if it is repeated. Whoever knows the number of a batch
publishes them once by it (`publish`). They have the time at which they were sent, as retention would take
those of old records before anybody saw them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from mainstem.client import codes, sinks
from mainstem.client.client import Client
from mainstem.client.cluster import TopicPartition
from mainstem.client.patience import patiently
from mainstem.client.producing import Producer, size_of
from mainstem.model.batch import NO_CODEC
from mainstem.model.errors import BrokerRefused
from mainstem.model.records import Record
from mainstem.spark.typed import BadRecord
from mainstem.spark.writing import Stager, WriteOptions
from mainstem.wire.kafka.apis import ApiKey

LONGEST_REASON = 1000  # characters: some tell the whole value
LEFT_OUT = "mainstem.left_out"


def send(client: Client, topic: str, source: TopicPartition, bad: Sequence[BadRecord]) -> None:
    producer = Producer(client, topic)
    letters = _letters(source, bad)
    try:
        for letter in letters:
            producer.add(_fitting(letter, producer.room))
        producer.flush()
    except BrokerRefused as refused:
        if refused.code != codes.MESSAGE_TOO_LARGE:
            raise
        # The topic takes less than we were told. Some may be sent twice, as by a task that is repeated.
        for letter in letters:
            _send_alone(client, topic, letter)


def publish(
    client: Client,
    topic: str,
    bad: Mapping[TopicPartition, Sequence[BadRecord]],
    sink: str,
    batch_id: int,
    patience_s: float,
) -> None:
    """All at once, and once for each batch of a sink, however often this is called for it.

    Where the broker is a Kafka, or the topic takes less than we were told, they are sent each time.
    """
    is_ours = patiently(lambda: client.connection().offers(ApiKey.PUBLISH_STAGED), patience_s)
    if not is_ours or not _published(client, topic, bad, sink, batch_id, patience_s):
        for source, some in bad.items():
            patiently(partial(send, client, topic, source, some), patience_s)


def _published(
    client: Client,
    topic: str,
    bad: Mapping[TopicPartition, Sequence[BadRecord]],
    sink: str,
    batch_id: int,
    patience_s: float,
) -> bool:
    stager = Stager(client, WriteOptions(client.settings, topic, NO_CODEC, patience_s))
    room = stager.room(topic)
    for source, some in bad.items():
        for letter in _letters(source, some):
            stager.put(topic, _fitting(letter, room))
    try:
        sinks.publish(client, sink, batch_id, stager.finish(), patience_s, may_skip=True)
    except BrokerRefused as refused:
        if refused.code != codes.MESSAGE_TOO_LARGE:
            raise
        return False
    return True


def _letters(source: TopicPartition, bad: Sequence[BadRecord]) -> list[Record]:
    now_ms = time.time_ns() // 1_000_000  # noqa: TID251 - the time at which they are sent
    return [_letter(one, source, now_ms) for one in bad]


def _fitting(letter: Record, room: int) -> Record:
    """As much of it as there is room for in a batch."""
    return next((one for one in _forms(letter) if size_of(one) <= room), letter)


def _letter(bad: BadRecord, source: TopicPartition, now_ms: int) -> Record:
    headers = (
        ("mainstem.reason", bad.reason[:LONGEST_REASON].encode(errors="replace")),
        ("mainstem.topic", source.topic.encode()),
        ("mainstem.partition", str(source.partition).encode()),
        ("mainstem.offset", str(bad.offset).encode()),
        ("mainstem.timestamp", str(bad.timestamp_ms).encode()),
    )
    return Record(0, now_ms, bad.key, bad.value, headers)


def _forms(letter: Record) -> Iterator[Record]:
    """The letter, and with ever less of it: what is too large is still to be found where it came from."""
    yield letter
    value = f"value of {len(letter.value or b'')} bytes"
    yield _left_out(letter, letter.key, value)
    yield _left_out(letter, None, f"key of {len(letter.key or b'')} bytes, {value}")


def _left_out(letter: Record, key: bytes | None, what: str) -> Record:
    return Record(0, letter.timestamp_ms, key, None, (*letter.headers, (LEFT_OUT, what.encode())))


def _send_alone(client: Client, topic: str, letter: Record) -> None:
    refusal: BrokerRefused | None = None
    for form in _forms(letter):
        producer = Producer(client, topic)
        try:
            producer.add(form)
            producer.flush()
            return
        except BrokerRefused as refused:
            if refused.code != codes.MESSAGE_TOO_LARGE:
                raise
            refusal = refused
    assert refusal is not None
    raise refusal
