"""AMQP frames as pamqp writes them, and what a scan found in them, message by message."""

from __future__ import annotations

from dataclasses import dataclass

from pamqp import body, commands, frame, header

from mainstem.wire.amqp.scan import Acks, Method, Publishes, Refused, Scanner

FRAME_MAX = 4096
CHANNEL_MAX = 10
MAX_BODY_BYTES = 100_000


def scanner(frame_max=FRAME_MAX, channel_max=CHANNEL_MAX, max_body_bytes=MAX_BODY_BYTES):
    return Scanner(frame_max, channel_max, max_body_bytes)


def raw_frame(kind, channel, payload, end=b"\xce"):
    return bytes((kind,)) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + end


def publish_frames(
    channel, exchange, key, content, properties=b"\x00\x00", mandatory=False, part=FRAME_MAX - 8
):
    """The frames of one message; `exchange` and `key` are bytes."""
    route = bytes((len(exchange),)) + exchange + bytes((len(key),)) + key
    method = b"\0\x3c\0\x28\0\0" + route + bytes((mandatory,))
    head = b"\0\x3c\0\0" + len(content).to_bytes(8, "big") + properties
    parts = [content[at : at + part] for at in range(0, len(content), part)]
    return [
        raw_frame(1, channel, method),
        raw_frame(2, channel, head),
        *[raw_frame(3, channel, each) for each in parts],
    ]


def pamqp_publish(channel, exchange, key, content, mandatory=False, **properties):
    method = commands.Basic.Publish(exchange=exchange, routing_key=key, mandatory=mandatory)
    made = header.ContentHeader(body_size=len(content), properties=commands.Basic.Properties(**properties))
    out = frame.marshal(method, channel) + frame.marshal(made, channel)
    return out + (frame.marshal(body.ContentBody(content), channel) if content else b"")


@dataclass(frozen=True)
class Published:
    channel: int
    exchange: str
    key: str
    mandatory: bool
    properties: bytes
    body: bytes


def spread(events):
    """Events with a run taken apart."""
    for event in events:
        if isinstance(event, Publishes):
            assert len(event) == event.count > 0
            sizes = 0
            for index in range(event.count):
                found = event.properties(index), event.body(index)
                assert event.body_size(index) == len(found[1])
                sizes += len(found[0]) + len(found[1])
                yield Published(event.channel, event.exchange, event.key, event.mandatory, *found)
            assert sizes == event.bytes
        elif isinstance(event, Acks):
            for tag in range(event.first, event.last + 1):
                yield Acks(event.channel, tag, tag, event.multiple, event.kind)
        else:
            assert isinstance(event, Method | Refused)
            yield event


def feed(scan, pieces):
    """What a connection does: append what came, scan, drop what was used."""
    buffer = bytearray()
    found = []
    for piece in pieces:
        buffer += piece
        used, events = scan.scan(buffer, 0, len(buffer))
        found += spread(events)
        assert 0 <= used <= len(buffer)
        del buffer[:used]
        assert len(buffer) < scan.frame_max
    return found


def scan_all(data, **limits):
    return scanner(**limits).scan(bytearray(data), 0, len(data))


def only_error(data, **limits):
    """The error that ends this stream, which closes the connection."""
    used, events = scan_all(data, **limits)
    assert used == len(data)
    assert isinstance(events[-1], Refused)
    return events[-1].error


def unmarshal_all(data):
    """Everything in these bytes as pamqp reads it: (channel, frame)."""
    data = bytes(data)
    found = []
    while data:
        used, channel, value = frame.unmarshal(data)
        found.append((channel, value))
        data = data[used:]
    return found
