"""A Kafka connection without a client: whole requests, or any bytes at all."""

from __future__ import annotations

import socket
import struct

from mainstem.wire.kafka.apis import SPECS, ApiKey
from mainstem.wire.kafka.frames import decode_response, encode_request


class Raw:
    def __init__(self, address: str, timeout_s: float = 20.0) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.correlation_id = 0

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    @property
    def peer(self) -> str:
        """As the broker's log names this connection."""
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_frame(self, body: bytes) -> None:
        self.send(struct.pack(">i", len(body)) + body)

    def receive(self, size: int) -> bytes:
        """That many bytes, or fewer if the broker closes."""
        parts = []
        while size:
            try:
                part = self.socket.recv(min(size, 1 << 20))
            except ConnectionResetError:
                break
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def receive_frame(self) -> bytes | None:
        """The next answer without its size; None once the broker has closed."""
        head = self.receive(4)
        if len(head) < 4:
            return None
        (size,) = struct.unpack(">i", head)
        body = self.receive(size)
        return body if len(body) == size else None

    def ask(self, key: ApiKey, version: int, **fields):
        """One request and its answer, decoded."""
        spec = SPECS[key]
        self.correlation_id += 1
        self.send(encode_request(spec, version, self.correlation_id, "raw", spec.request(**fields)))
        frame = self.receive_frame()
        assert frame is not None, f"the broker closed the connection instead of answering {spec.name}"
        correlation_id, message = decode_response(spec, version, frame)
        assert correlation_id == self.correlation_id
        return message

    def is_closed(self) -> bool:
        """Whether the broker closes this connection without another byte; waits for it."""
        return self.receive(1) == b""


def header(key: int, version: int, correlation_id: int = 7, client_id: bytes = b"raw") -> bytes:
    return struct.pack(">hhih", key, version, correlation_id, len(client_id)) + client_id
