"""The few Kafka requests that the bench itself needs, over one blocking socket.

Written by hand so that both brokers are probed and prepared by the same code, and by no client library
whose start-up would blur a start-up measurement. Versions are old, plain ones that both brokers speak.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Sequence
from types import TracebackType

from fastcrc.crc32 import iscsi as crc32c

PRODUCE, LIST_OFFSETS, METADATA, CREATE_TOPICS, DELETE_RECORDS = 0, 2, 3, 19, 21
LATEST = -1
HIGH_WATERMARK = -1
BATCH_HEAD_BYTES = 61  # of a record batch, before its first record
TOPIC_ALREADY_EXISTS = 36


class Refused(Exception):
    """A broker answered with an error code."""


class Admin:
    def __init__(self, port: int, timeout_s: float = 120.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None
    ) -> None:
        self._socket.close()

    def _ask(self, key: int, version: int, body: bytes) -> bytes:
        head = struct.pack(">hhi", key, version, 1) + _string("bench-admin")
        self._socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)[4:]  # without the correlation id

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise ConnectionError("the broker closed the connection")
            data += part
        return bytes(data)

    def brokers(self) -> int:
        """How many brokers the cluster has: above 0, it serves."""
        (count,) = struct.unpack_from(">i", self._ask(METADATA, 1, struct.pack(">i", 0)))
        return int(count)

    def list_topics_bytes(self) -> int:
        """Size of the answer that lists every topic with its partitions."""
        return len(self._ask(METADATA, 1, struct.pack(">i", -1)))

    def create_topics(self, names: Sequence[str], partitions: int) -> None:
        """All of them in one request; those that exist already are left as they are."""
        body = struct.pack(">i", len(names))
        body += b"".join(_string(name) + struct.pack(">ihii", partitions, 1, 0, 0) for name in names)
        answer = self._ask(CREATE_TOPICS, 2, body + struct.pack(">ib", 120_000, 0))
        count, at = struct.unpack_from(">i", answer, 4)[0], 8
        for _ in range(count):
            name, at = _read_string(answer, at)
            (code,) = struct.unpack_from(">h", answer, at)
            _, at = _read_string(answer, at + 2)
            if code not in (0, TOPIC_ALREADY_EXISTS):
                raise Refused(f"create topic {name}: error {code}")

    def end_offsets(self, name: str, partitions: int) -> list[int] | None:
        """Where each partition ends; None while the broker does not lead all of them yet."""
        body = struct.pack(">ii", -1, 1) + _string(name) + struct.pack(">i", partitions)
        body += b"".join(struct.pack(">iq", i, LATEST) for i in range(partitions))
        answer = self._ask(LIST_OFFSETS, 1, body)
        ends, (_, at) = {}, _read_string(answer, 4)
        for i in range(partitions):
            index, code, _, end = struct.unpack_from(">ihqq", answer, at + 4 + i * 22)
            if code:
                return None
            ends[index] = end
        return [ends[i] for i in range(partitions)]

    def wait_until_led(self, name: str, partitions: int, timeout_s: float = 60) -> None:
        """A topic that was just made may need a moment before it takes records."""
        deadline = time.monotonic() + timeout_s
        while self.end_offsets(name, partitions) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"topic {name} has no leader after {timeout_s:.0f} s")
            time.sleep(0.02)

    def delete_records(self, name: str, partitions: int) -> None:
        """All that the topic holds by now."""
        body = struct.pack(">i", 1) + _string(name) + struct.pack(">i", partitions)
        body += b"".join(struct.pack(">iq", i, HIGH_WATERMARK) for i in range(partitions))
        answer = self._ask(DELETE_RECORDS, 0, body + struct.pack(">i", 60_000))
        _, at = _read_string(answer, 8)
        for i in range(partitions):
            index, _, code = struct.unpack_from(">iqh", answer, at + 4 + i * 14)
            if code:
                raise Refused(f"delete the records of {name}-{index}: error {code}")

    def produce_one_each(self, names: Sequence[str], value: bytes) -> None:
        """One record to partition 0 of each topic, in one request."""
        batch = _batch(value)
        body = struct.pack(">hhii", -1, -1, 60_000, len(names))
        entry = struct.pack(">iii", 1, 0, len(batch)) + batch
        body += b"".join(_string(name) + entry for name in names)
        answer, at = self._ask(PRODUCE, 7, body), 4
        for _ in range(len(names)):
            name, at = _read_string(answer, at)
            _, _, code = struct.unpack_from(">iih", answer, at)
            if code:
                raise Refused(f"produce to {name}: error {code}")
            at += 4 + 4 + 2 + 8 + 8 + 8


def wait_until_ready(port: int, is_alive: Iterable[bool], timeout_s: float) -> None:
    """Returns as soon as a broker on this port answers Metadata and names itself."""
    deadline = time.monotonic() + timeout_s
    for alive in is_alive:
        if not alive:
            raise ConnectionError("the broker ended before it was ready")
        if time.monotonic() > deadline:
            raise TimeoutError(f"no broker on port {port} after {timeout_s:.0f} s")
        try:
            with Admin(port, timeout_s=5) as admin:
                if admin.brokers():
                    return
        except OSError:
            pass
        time.sleep(0.005)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", data, at)
    end = at + 2 + max(size, 0)
    return data[at + 2 : end].decode(), end


def _varint(value: int) -> bytes:
    coded, out = (value << 1) ^ (value >> 63), bytearray()
    while coded > 127:
        out.append(coded & 127 | 128)
        coded >>= 7
    return bytes([*out, coded])


def record(index: int, value: bytes) -> bytes:
    """One record of a batch, without key and headers, written at the batch's own time."""
    body = b"\0" + _varint(0) + _varint(index) + _varint(-1) + _varint(len(value)) + value + _varint(0)
    return _varint(len(body)) + body


def _batch(value: bytes) -> bytes:
    """A record batch (magic 2) with one record, without producer."""
    now_ms = time.time_ns() // 1_000_000
    checked = struct.pack(">hiqqqhii", 0, 0, now_ms, now_ms, -1, -1, -1, 1) + record(0, value)
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c(checked)) + checked
