"""Recorded bytes for what kafka-python does not know: share groups, KIP-848, tokens and dropped versions.

Each line of `kafka_vectors.txt` was read and written back, byte for byte, by the Java classes of Kafka 4.3.1,
or of 3.9.1 where 4.x has dropped the version.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from mainstem.wire.kafka import codec
from mainstem.wire.kafka.apis import SPECS
from mainstem.wire.kafka.schema import Message

VECTORS = [line.split(" ") for line in (Path(__file__).parent / "kafka_vectors.txt").read_text().splitlines()]


def class_named(name: str) -> type[Message]:
    for spec in SPECS.values():
        if name in (f"{spec.name}Request", f"{spec.name}Response"):
            return spec.request if name.endswith("Request") else spec.response
    return getattr(import_module("mainstem.wire.kafka.consumer_protocol"), name)


@pytest.mark.parametrize(("name", "version", "data"), [pytest.param(*v, id="-".join(v[:2])) for v in VECTORS])
def test_bytes_that_java_agreed_to_read_and_write_the_same(name, version, data):
    cls, expected = class_named(name), bytes.fromhex(data)
    message, end = codec.decoder(cls, int(version))(expected, 0)
    assert end == len(expected)
    assert codec.encode(message, int(version)) == expected
