"""What a dead letter tells its consumer: x-death and the headers around it, as RabbitMQ writes them.

The record has a header `dead`, a msgpack list of `Death`, the latest first, one for each queue and reason.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from mainstem.wire.amqp import properties
from mainstem.wire.amqp.tables import Seconds, Value


class Death(NamedTuple):
    queue: str
    reason: str  # rejected, expired, maxlen, delivery_limit
    times: int
    first_ms: int  # when it died there first
    exchange: str
    keys: list[str]
    expiration: str | None  # that it had when it was published


_DECODER = msgspec.msgpack.Decoder(list[Death])


def deaths(raw: bytes) -> list[Death]:
    """Empty if this is no such list: a Kafka client may write any header."""
    try:
        return _DECODER.decode(raw)
    except msgspec.DecodeError:
        return []


def with_deaths(raw: bytes, found: list[Death]) -> bytes:
    """Properties of a dead letter. It no longer expires: its expiration is told in x-death."""
    if not found:
        return raw
    last = found[0]
    first = min(reversed(found), key=lambda death: death.first_ms)
    named: dict[str, Value] = {
        "x-death": [_entry(death) for death in found],
        "x-first-death-exchange": first.exchange,
        "x-first-death-queue": first.queue,
        "x-first-death-reason": first.reason,
        "x-last-death-exchange": last.exchange,
        "x-last-death-queue": last.queue,
        "x-last-death-reason": last.reason,
    }
    return properties.patch(raw, named, change={properties.EXPIRATION: None})


def _entry(death: Death) -> dict[str, Value]:
    made: dict[str, Value] = {
        "count": death.times,
        "reason": death.reason,
        "queue": death.queue,
        "time": Seconds(death.first_ms // 1000),
        "exchange": death.exchange,
        "routing-keys": death.keys,
    }
    if death.expiration is not None:
        made["original-expiration"] = death.expiration
    return made
