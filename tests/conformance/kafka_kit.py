"""What the tests over real sockets share: waiting for a condition, and requests by hand."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from mainstem.model.record import Record
from mainstem.model.records import encode_batch
from mainstem.wire.kafka.apis import SPECS
from mainstem.wire.kafka.frames import SIZE, decode_response, encode_request
from mainstem.wire.kafka.groups import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from mainstem.wire.kafka.metadata import MetadataRequest, MetadataRequestTopic
from mainstem.wire.kafka.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

T = TypeVar("T")
PATIENCE_S = 90.0
_names = itertools.count(1)
_by_name = {spec.name: spec for spec in SPECS.values()}


def until(look: Callable[[], T], what: str = "it", patience_s: float = PATIENCE_S) -> T:
    """Look again and again until there is something to see."""
    end = time.monotonic() + patience_s
    while not (seen := look()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {patience_s} s for {what}; last seen: {seen!r}")
        time.sleep(0.01)
    return seen


def new_name(prefix: str) -> str:
    return f"{prefix}-{next(_names)}"


class Wire:
    """One connection on which requests are made by hand, in the version that is named."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._pending: list[tuple[Any, int]] = []
        self._next = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, message: Any, version: int | None = None) -> Any:
        self.send(message, version)
        return self.receive()

    def send(self, message: Any, version: int | None = None) -> None:
        spec = _by_name[type(message).__name__.removesuffix("Request")]
        number = spec.max_version if version is None else version
        self._next += 1
        self._pending.append((spec, number))
        self._socket.sendall(encode_request(spec, number, self._next, "by-hand", message))

    def receive(self) -> Any:
        spec, version = self._pending.pop(0)
        (size,) = SIZE.unpack(self._exactly(SIZE.size))
        return decode_response(spec, version, self._exactly(size))[1]

    def _exactly(self, size: int) -> bytes:
        out = bytearray()
        while len(out) < size:
            piece = self._socket.recv(size - len(out))
            if not piece:
                raise ConnectionError("the broker hung up")
            out += piece
        return bytes(out)

    # --- what many tests ask ---------------------------------------------------------------------

    def topic_id(self, topic: str) -> bytes:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        found: bytes = self.ask(asked, 12).topics[0].topic_id
        return found

    def produce(self, topic: str, batch: bytes, *, txn_id: str | None = None, version: int = 9) -> Any:
        """The partition's part of the answer, for partition 0."""
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        message = ProduceRequest(transactional_id=txn_id, acks=-1, timeout_ms=5000, topic_data=[data])
        return self.ask(message, version).responses[0].partition_responses[0]

    def join(self, group: str, member_id: str = "", *, version: int = 9, **more: Any) -> JoinGroupResponse:
        """Joins again with the id it is given, as clients do."""
        self.send(join_request(group, member_id, **more), version)
        answer: JoinGroupResponse = self.receive()
        if answer.error_code == 79:
            return self.join(group, answer.member_id, version=version, **more)
        return answer


def join_request(group: str, member_id: str = "", **more: Any) -> JoinGroupRequest:
    protocols = more.pop("protocols", {"range": b"\0\1\0\0\0\0\xff\xff\xff\xff\0\0\0\0"})
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=more.pop("session_timeout_ms", 10_000),
        rebalance_timeout_ms=more.pop("rebalance_timeout_ms", 10_000),
        member_id=member_id,
        protocol_type=more.pop("protocol_type", "consumer"),
        protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()],
        **more,
    )


def batch(
    values: Sequence[str], producer: tuple[int, int] = (-1, -1), sequence: int = -1, *, txn: bool = False
) -> bytes:
    now_ms = int(time.time() * 1000)
    records = [Record(0, now_ms, None, value.encode(), ()) for value in values]
    return bytes(
        encode_batch(
            records,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            transactional=txn,
        )
    )


# --- clients -------------------------------------------------------------------------------------


def create_topic(address: str, name: str, partitions: int = 1) -> str:
    admin = AdminClient({"bootstrap.servers": address})
    for done in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        done.result(PATIENCE_S)
    return name


def publish(address: str, topic: str, values: Iterable[str], partitions: int = 1) -> None:
    """Acknowledged when this returns; spread over the partitions in turn."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % partitions)
    assert producer.flush(PATIENCE_S) == 0


def read(address: str, topic: str, count: int, *, committed: bool = True) -> list[str]:
    """The first `count` values of partition 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": new_name("reader"),
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        return [message.value().decode() for message in take([consumer], count)]
    finally:
        consumer.close()


def take(consumers: Sequence[Consumer], count: int, patience_s: float = PATIENCE_S) -> list[Any]:
    """So many messages, from whichever of the consumers has them."""
    found: list[Any] = []
    end = time.monotonic() + patience_s
    for consumer in itertools.cycle(consumers):
        message = consumer.poll(0.02)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message)
        if len(found) >= count:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"{len(found)} of {count} messages in {patience_s} s")
    raise AssertionError("no consumers")
