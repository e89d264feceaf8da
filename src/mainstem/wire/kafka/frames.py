"""Frames: a 4-byte size, a header, a message.

    request   size:int32 | api_key:int16 version:int16 correlation_id:int32 client_id:string | [tags] | body
    response  size:int32 | correlation_id:int32 | [tags] | body

The client id keeps its classic int16 length even in the flexible header. Decoders here get the frame
without its size.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from mainstem.model.errors import InvalidRequest, UnsupportedVersion
from mainstem.wire.kafka.apis import SPECS, ApiSpec
from mainstem.wire.kafka.codec import decoder, encoder
from mainstem.wire.kafka.primitives import Buffer, Malformed, read_varint, skip_tags
from mainstem.wire.kafka.schema import Message

SIZE = struct.Struct(">i")
_REQUEST_HEAD = struct.Struct(">hhih")  # key, version, correlation id, length of the client id
_RESPONSE_HEAD = struct.Struct(">ii")  # size, correlation id


@dataclass(slots=True)
class RequestHeader:
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(buf: Buffer) -> tuple[RequestHeader, int]:
    """The header of a request, and where its body starts.

    Of an unknown API only the classic part is read, because nobody can tell whether tags follow. A version
    beyond the known ones is taken to be flexible if the API ever was, which is what Kafka does too.
    """
    size = len(buf)
    if size < _REQUEST_HEAD.size:
        raise InvalidRequest(f"request header: {size} bytes are too few")
    key, version, correlation_id, length = _REQUEST_HEAD.unpack_from(buf)
    pos: int = _REQUEST_HEAD.size
    client_id: str | None = None
    if length >= 0:
        end = pos + length
        if end > size:
            raise InvalidRequest(f"request header: a client id of {length} bytes exceeds the frame")
        try:
            client_id = str(buf[pos:end], "utf-8")
        except UnicodeDecodeError:
            raise InvalidRequest("request header: the client id is not UTF-8") from None
        pos = end
    elif length != -1:
        raise InvalidRequest(f"request header: a client id of length {length}")
    spec = SPECS.get(key)
    if spec is not None and version >= spec.flexible_since:
        pos = _skip_header_tags(buf, pos, "request header")
    return RequestHeader(key, version, correlation_id, client_id), pos


def decode_request(spec: ApiSpec, version: int, buf: Buffer, pos: int) -> Message:
    """The body of a request, from `pos` on."""
    _require(spec, version)
    return decoder(spec.request, version)(buf, pos)[0]


def encode_response(spec: ApiSpec, version: int, correlation_id: int, message: Message) -> bytes:
    """A whole response frame, size included."""
    out = bytearray(_RESPONSE_HEAD.pack(0, correlation_id))
    if spec.response_header_version(version):
        out.append(0)
    encoder(spec.response, version)(message, out)
    SIZE.pack_into(out, 0, len(out) - SIZE.size)
    return bytes(out)


def response_head(spec: ApiSpec, version: int, correlation_id: int, body_bytes: int) -> bytes:
    """What stands before a body that is encoded already: size, correlation id and tags."""
    tags = b"\0" if spec.response_header_version(version) else b""
    return (
        _RESPONSE_HEAD.pack(_RESPONSE_HEAD.size - SIZE.size + len(tags) + body_bytes, correlation_id) + tags
    )


def encode_request(
    spec: ApiSpec, version: int, correlation_id: int, client_id: str | None, message: Message
) -> bytes:
    """A whole request frame, size included."""
    _require(spec, version)
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    out = bytearray(SIZE.size)
    out += _REQUEST_HEAD.pack(spec.key, version, correlation_id, length)
    out += name
    if spec.request_header_version(version) == 2:
        out.append(0)
    encoder(spec.request, version)(message, out)
    SIZE.pack_into(out, 0, len(out) - SIZE.size)
    return bytes(out)


def decode_response(spec: ApiSpec, version: int, buf: Buffer) -> tuple[int, Message]:
    """Correlation id and body of a response that was asked for with `version`."""
    _require(spec, version)
    if len(buf) < SIZE.size:
        raise InvalidRequest(f"response header: {len(buf)} bytes are too few")
    correlation_id: int = SIZE.unpack_from(buf)[0]
    pos: int = SIZE.size
    if spec.response_header_version(version):
        pos = _skip_header_tags(buf, pos, "response header")
    return correlation_id, decoder(spec.response, version)(buf, pos)[0]


def _require(spec: ApiSpec, version: int) -> None:
    if not spec.supports(version):
        raise UnsupportedVersion(f"{spec.name} v{version}")


def _skip_header_tags(buf: Buffer, pos: int, title: str) -> int:
    try:
        count, pos = read_varint(buf, pos)
        return skip_tags(buf, pos, len(buf), count) if count else pos
    except IndexError:
        raise InvalidRequest(f"{title}: the bytes end too early") from None
    except Malformed as bad:
        raise InvalidRequest(f"{title}: {bad}") from None
