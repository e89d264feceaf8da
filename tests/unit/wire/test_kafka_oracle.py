"""Our bytes against an independent codec: kafka-python's own, for every API and version both know."""

from __future__ import annotations

import importlib
import pkgutil
from uuid import UUID

import kafka.protocol
import pytest
from kafka.protocol.api_message import ApiMessage
from kafka_samples import messages, specs_and_versions

from mainstem.wire.kafka import codec, frames
from mainstem.wire.kafka.apis import SPECS
from mainstem.wire.kafka.schema import Message


def _their_classes() -> dict[str, type[ApiMessage]]:
    found = {}
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "generate_stubs" not in module.name:
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and issubclass(value, ApiMessage) and value is not ApiMessage:
                    found[value.__name__] = value
    return found


THEIRS = _their_classes()
OTHER_NAMES = {"enable_2pc": "enable2_pc"}
SHARED = [
    pytest.param(cls, THEIRS[cls.__name__], version, id=f"{cls.__name__}-{version}")
    for spec, version in specs_and_versions()
    for cls in (spec.request, spec.response)
    if cls.__name__ in THEIRS
    and THEIRS[cls.__name__].valid_versions[0] <= version <= THEIRS[cls.__name__].valid_versions[1]
]


def test_the_oracle_covers_most_apis():
    assert len({param.values[0].__name__ for param in SHARED}) > 100


@pytest.mark.parametrize(("cls", "theirs", "version"), SHARED)
def test_both_codecs_agree_in_both_directions(cls, theirs, version):
    for message in oracle_messages(cls, version):
        ours = codec.encode(message, version)
        decoded = theirs.decode(ours, version=version)
        assert_same(message, decoded, version)
        decoded._header = None  # theirs leaves it unset when it decodes
        assert decoded.encode(version=version) == ours


def oracle_messages(cls, version):
    for message in messages(cls, version):
        if cls.__name__ == "ApiVersionsResponse":
            message.error_code = 0  # theirs reads any error answer as version 0
        yield message


def assert_same(ours, theirs, version):
    """Field by field; both sides use the schema's names in snake case."""
    if isinstance(ours, Message):
        for field in ours.FIELDS:
            if field.name.endswith("authorized_operations"):
                continue  # theirs makes a set of it; the encoded bytes are compared all the same
            other = getattr(theirs, OTHER_NAMES.get(field.name, field.name))
            if field.tag is not None and other is None:
                assert getattr(ours, field.name) == field.default
            elif field.present(version):
                assert_same(getattr(ours, field.name), other, version)
    elif isinstance(ours, list):
        assert len(ours) == len(theirs or [])
        for one, other in zip(ours, theirs or [], strict=True):
            assert_same(one, other, version)
    elif isinstance(theirs, UUID):
        assert ours == theirs.bytes
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", ["MetadataRequest", "ApiVersionsRequest", "JoinGroupRequest"])
def test_whole_request_frames_agree(name):
    theirs = THEIRS[name]
    spec = SPECS[theirs.API_KEY]
    for version in range(spec.min_version, spec.max_version + 1):
        request = theirs.decode(codec.encode(spec.request(), version), version=version)
        request._header = None
        request.API_VERSION = version
        request.with_header(correlation_id=77, client_id="me")
        frame = request.encode(version=version, header=True, framed=True)
        assert frame == frames.encode_request(spec, version, 77, "me", spec.request())


@pytest.mark.parametrize("name", ["MetadataResponse", "ApiVersionsResponse", "JoinGroupResponse"])
def test_whole_response_frames_agree(name):
    theirs = THEIRS[name]
    spec = SPECS[theirs.API_KEY]
    for version in range(spec.min_version, spec.max_version + 1):
        for message in oracle_messages(spec.response, version):
            frame = frames.encode_response(spec, version, 77, message)
            decoded = theirs.decode(frame, version=version, header=True, framed=True)
            assert decoded.header.correlation_id == 77
            assert_same(message, decoded, version)
