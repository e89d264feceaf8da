"""Headers and frames."""

from __future__ import annotations

import pytest
from kafka_samples import messages, specs_and_versions

from mainstem.model.errors import InvalidRequest, UnsupportedVersion
from mainstem.wire.kafka.api_versions import ApiVersionsResponse
from mainstem.wire.kafka.apis import SPECS, ApiKey
from mainstem.wire.kafka.frames import (
    RequestHeader,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from mainstem.wire.kafka.metadata import MetadataRequest
from mainstem.wire.kafka.sasl import SaslHandshakeRequest


@pytest.mark.parametrize("client_id", ["rdkafka", "", None])
def test_a_request_frame_reads_back_for_every_api_and_version(client_id):
    for spec, version in specs_and_versions():
        request = next(messages(spec.request, version, count=0))
        frame = encode_request(spec, version, -5, client_id, request)
        assert int.from_bytes(frame[:4]) == len(frame) - 4
        body = memoryview(frame)[4:]
        header, pos = decode_request_header(body)
        assert header == RequestHeader(spec.key, version, -5, client_id)
        assert decode_request(spec, version, body, pos) == request


def test_a_response_frame_reads_back_for_every_api_and_version():
    for spec, version in specs_and_versions():
        response = next(messages(spec.response, version, count=0))
        frame = encode_response(spec, version, 2**31 - 1, response)
        assert int.from_bytes(frame[:4]) == len(frame) - 4
        assert decode_response(spec, version, memoryview(frame)[4:]) == (2**31 - 1, response)


def test_the_classic_header_has_no_tags():
    frame = encode_request(SPECS[ApiKey.SASL_HANDSHAKE], 1, 3, "me", SaslHandshakeRequest("PLAIN"))
    assert frame[4:] == b"\x00\x11\x00\x01\x00\x00\x00\x03\x00\x02me\x00\x05PLAIN"


def test_header_tags_of_a_flexible_request_are_skipped():
    header, pos = decode_request_header(
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00\x01x\x01\x05\x02ab\x01\x00\x00"
    )
    assert (header.client_id, pos) == ("x", 16)


def test_api_versions_is_always_answered_with_the_oldest_header():
    frame = encode_response(SPECS[ApiKey.API_VERSIONS], 3, 7, ApiVersionsResponse(error_code=0))
    assert frame[4:8] == b"\x00\x00\x00\x07"
    assert frame[8:10] == b"\x00\x00"  # the error code, no tags before it
    assert frame[10] == 1


def test_api_versions_of_an_unknown_version_has_a_flexible_header():
    header, pos = decode_request_header(b"\x00\x12\x00\x63\x00\x00\x00\x01\xff\xff\x00rest")
    assert header == RequestHeader(18, 99, 1, None)
    assert pos == 11


def test_of_an_unknown_api_the_classic_header_is_read():
    header, pos = decode_request_header(b"\x03\xe8\x00\x00\x00\x00\x00\x01\x00\x01x\x00")
    assert header == RequestHeader(1000, 0, 1, "x")
    assert pos == 11


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\x7f\xff",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\xff\xfe",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00\x01\xff\x00",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00\x01x",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00\x01x\x01\x05\x7fab",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00\x01x\x80\x80\x80\x80\x80\x80",
    ],
)
def test_a_broken_request_header_is_an_invalid_request(data):
    with pytest.raises(InvalidRequest, match="request header"):
        decode_request_header(data)


@pytest.mark.parametrize("data", [b"\x00\x00\x00", b"\x00\x00\x00\x01"])
def test_a_broken_response_header_is_an_invalid_request(data):
    with pytest.raises(InvalidRequest, match="response header"):
        decode_response(SPECS[ApiKey.METADATA], 12, data)


def test_a_version_outside_the_range_is_refused_by_name():
    spec = SPECS[ApiKey.METADATA]
    with pytest.raises(UnsupportedVersion, match="Metadata v99"):
        decode_request(spec, 99, b"", 0)
    with pytest.raises(UnsupportedVersion, match="Produce v2"):
        encode_request(SPECS[ApiKey.PRODUCE], 2, 1, None, MetadataRequest())


def test_every_api_key_has_a_spec_with_classes_of_its_name():
    assert set(SPECS) == set(ApiKey)
    for spec in SPECS.values():
        assert spec.request.__name__ == f"{spec.name}Request"
        assert spec.response.__name__ == f"{spec.name}Response"
