"""Records that could not be read go to a topic of their own, as they came, with the reason.

They are sent when they are met: a task that is repeated sends them again. They have the time at which they
were sent, as retention would take those of old records before anybody saw them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from mainstem.client import codes
from mainstem.client.client import Client
from mainstem.client.cluster import TopicPartition
from mainstem.client.producing import Producer, size_of
from mainstem.model.errors import BrokerRefused
from mainstem.model.records import Record
from mainstem.spark.typed import BadRecord

LONGEST_REASON = 1000  # characters: some tell the whole value
LEFT_OUT = "mainstem.left_out"


def send(client: Client, topic: str, source: TopicPartition, bad: Sequence[BadRecord]) -> None:
    now_ms = time.time_ns() // 1_000_000  # noqa: TID251 - the time at which they are sent
    producer = Producer(client, topic)
    letters = [_letter(one, source, now_ms) for one in bad]
    try:
        for letter in letters:
            producer.add(next((one for one in _forms(letter) if size_of(one) <= producer.room), letter))
        producer.flush()
    except BrokerRefused as refused:
        if refused.code != codes.MESSAGE_TOO_LARGE:
            raise
        # The topic takes less than we were told. Some may be sent twice, as by a task that is repeated.
        for letter in letters:
            _send_alone(client, topic, letter)


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
