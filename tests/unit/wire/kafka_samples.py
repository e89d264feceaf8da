"""Deterministic sample messages for every Kafka class and version, from its own declaration."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from mainstem.wire.kafka.apis import SPECS, ApiSpec
from mainstem.wire.kafka.schema import RECORDS, STRING, UUID, Array, Field, Kind, Message, Scalar

WORDS = ("", "a", "orders", "größe-漢字", "x" * 40, "long" * 40)  # the last needs a two-byte varint
LIMITS = {"b": 7, "h": 15, "H": 16, "i": 31, "I": 32, "q": 63}


def specs_and_versions() -> list[tuple[ApiSpec, int]]:
    return [(spec, v) for spec in SPECS.values() for v in range(spec.min_version, spec.max_version + 1)]


def messages(cls: type[Message], version: int, count: int = 3) -> Iterator[Message]:
    """The default message, then `count` filled ones: always the same for one class and version."""
    yield cls()
    rng = random.Random(f"{cls.__name__}{version}")
    for _ in range(count):
        yield sample(cls, version, rng)


def sample(cls: type[Message], version: int, rng: random.Random) -> Message:
    present = [f for f in cls.FIELDS if f.present(version)]
    return cls(**{f.name: field_value(f, version, rng) for f in present})


def field_value(field: Field, version: int, rng: random.Random) -> Any:
    if (field.tag is not None or version >= field.nullable) and rng.random() < 0.3:
        if field.tag is None:
            return None
        return field.default() if field.fresh() else field.default
    return value(field.kind, version, rng)


def value(kind: Kind, version: int, rng: random.Random) -> Any:
    if isinstance(kind, Array):
        return [value(kind.element, version, rng) for _ in range(rng.choice((0, 1, 2, 3)))]
    if isinstance(kind, Scalar):
        return scalar(kind, rng)
    if kind is STRING:
        return rng.choice(WORDS)
    if isinstance(kind, type):
        return sample(kind, version, rng)
    data = rng.randbytes(rng.choice((0, 1, 20, 200)))
    return memoryview(data) if kind is RECORDS else data


def scalar(kind: Scalar, rng: random.Random) -> Any:
    if kind is UUID:
        return rng.randbytes(16)
    if kind.code == "?":
        return rng.random() < 0.5
    if kind.code == "d":
        return rng.uniform(-1e9, 1e9)
    bits = LIMITS[kind.code]
    return rng.choice((0, 1, 2**bits - 1, rng.getrandbits(bits), 0 if kind.code.isupper() else -(2**bits)))
