"""The Kafka codec under generated messages and damaged bytes."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.model.errors import InvalidRequest
from mainstem.wire.kafka import codec, hot
from mainstem.wire.kafka.apis import SPECS
from mainstem.wire.kafka.fetch import FetchRequest
from mainstem.wire.kafka.frames import decode_request_header
from mainstem.wire.kafka.produce import ProduceRequest
from mainstem.wire.kafka.schema import STRING, UUID, Array, Field, Kind, Message, Scalar

BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
EVERY = [
    (cls, version)
    for spec in SPECS.values()
    for version in range(spec.min_version, spec.max_version + 1)
    for cls in (spec.request, spec.response)
]
_known: dict[tuple[type[Message], int], st.SearchStrategy[Message]] = {}


def values(kind: Kind, version: int) -> st.SearchStrategy[Any]:
    if isinstance(kind, Array):
        return st.lists(values(kind.element, version), max_size=2)
    if isinstance(kind, type):
        return instances(kind, version)
    if kind is STRING:
        return st.text(st.characters(codec="utf-8"), max_size=150)
    if not isinstance(kind, Scalar):
        return st.binary(max_size=150)
    if kind is UUID:
        return st.binary(min_size=16, max_size=16)
    if kind.code == "?":
        return st.booleans()
    if kind.code == "d":
        return st.floats(allow_nan=False)
    bits = BITS[kind.code.lower()]
    low = 0 if kind.code.isupper() else -(2 ** (bits - 1))
    return st.integers(low, low + 2**bits - 1)


def field_values(field: Field, version: int) -> st.SearchStrategy[Any]:
    strategy = values(field.kind, version)
    if field.tag is not None and not field.fresh():
        return st.just(field.default) | strategy
    return st.none() | strategy if version >= field.nullable else strategy


def instances(cls: type[Message], version: int) -> st.SearchStrategy[Message]:
    if (cls, version) not in _known:
        fields = {f.name: field_values(f, version) for f in cls.FIELDS if f.present(version)}
        _known[cls, version] = st.builds(cls, **fields)
    return _known[cls, version]


@settings(max_examples=800, deadline=None)
@given(st.sampled_from(EVERY), st.data())
def test_any_message_survives_the_wire(which, data):
    cls, version = which
    message = data.draw(instances(cls, version))
    encoded = codec.encode(message, version)
    assert codec.decoder(cls, version)(memoryview(encoded), 0) == (message, len(encoded))
    again = codec.encode(codec.decode(cls, version, encoded), version)
    assert again == encoded


def damaged(encoded: bytes, data: st.DataObject) -> memoryview:
    """The bytes with a few overwritten, cut or appended."""
    broken = bytearray(encoded)
    for position in data.draw(st.lists(st.integers(0, max(0, len(broken) - 1)), max_size=4)):
        if broken:
            broken[position] = data.draw(st.integers(0, 255))
    return memoryview(
        bytes(broken[: data.draw(st.integers(0, len(broken)))]) + data.draw(st.binary(max_size=8))
    )


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(EVERY), st.data())
def test_damaged_bytes_decode_or_are_an_invalid_request(which, data):
    cls, version = which
    broken = damaged(codec.encode(data.draw(instances(cls, version)), version), data)
    try:
        _message, end = codec.decoder(cls, version)(broken, 0)
    except InvalidRequest:
        return
    assert end <= len(broken)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_hot_requests_parse_or_are_an_invalid_request(data):
    cls = data.draw(st.sampled_from([ProduceRequest, FetchRequest]))
    version = data.draw(st.integers(3, 13) if cls is ProduceRequest else st.integers(4, 18))
    broken = damaged(codec.encode(data.draw(instances(cls, version)), version), data)
    parse = hot.parse_produce if cls is ProduceRequest else hot.parse_fetch
    try:
        parse(broken, 0, version)
    except InvalidRequest:
        return
    if version < FetchRequest.FLEXIBLE_SINCE:  # the hot path skips tagged fields without looking inside
        codec.decode(cls, version, broken)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_are_a_request_header_or_an_invalid_request(data):
    try:
        _header, end = decode_request_header(data)
    except InvalidRequest:
        return
    assert end <= len(data)
