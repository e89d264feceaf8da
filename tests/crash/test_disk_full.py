"""A full disk: writers get the typed error, everything else goes on, and writes resume when space is back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from mainstem.client import Client, ClientSettings, TopicPartition, parse_bootstrap
from mainstem.client.admin import create_topic, delete_records, delete_topic
from mainstem.client.groups import commit_offsets, committed_offsets
from mainstem.model.errors import BrokerRefused
from mainstem.model.record import Record
from mainstem.model.records import encode_batch
from mainstem.torture.clients import producer_settings
from mainstem.torture.disks import LoopDisk, why_no_power_cut
from mainstem.torture.readback import read_back
from mainstem.torture.server import Server

KAFKA_STORAGE_ERROR = 56
DISK_BYTES = 40 << 20
BALLAST_BYTES = 12 << 20
VALUE_BYTES = 50_000
ENOUGH = 2 * DISK_BYTES // VALUE_BYTES  # records, which are more than fit

pytestmark = pytest.mark.skipif(
    why_no_power_cut() is not None, reason="filling a small disk of its own: " + str(why_no_power_cut())
)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    small = LoopDisk(tmp_path, DISK_BYTES)
    small.create()
    with (small.path / "ballast").open("wb") as ballast:
        os.posix_fallocate(ballast.fileno(), 0, BALLAST_BYTES)
    yield small
    small.remove()


@pytest.fixture
def server(disk: LoopDisk) -> Iterator[Server]:
    running = Server(disk.path / "data")
    running.start()
    yield running
    running.kill_all()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(ClientSettings(parse_bootstrap(server.kafka))) as made:
        yield made


def send(client: Client, place: TopicPartition, number: int) -> int:
    value = f"{number}:".encode() + os.urandom(VALUE_BYTES)
    return client.produce({place: encode_batch([Record(0, 1, None, value)])})[place]


def fill(client: Client, place: TopicPartition, first: int = 0) -> int:
    """Write until the disk is full; the number that was not taken any more."""
    for number in range(first, first + ENOUGH):
        if not is_taken(client, place, number):
            return number
    raise AssertionError("the disk never got full")


def is_taken(client: Client, place: TopicPartition, number: int) -> bool:
    """False: there was no space. Any other refusal is an error."""
    try:
        send(client, place, number)
    except BrokerRefused as refused:
        if refused.code != KAFKA_STORAGE_ERROR:
            raise
        return False
    return True


def eventually(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.05)


def numbers(client: Client, place: TopicPartition) -> list[int]:
    """The records that can be read, by the number they begin with."""
    start, end = client.bounds([place.topic])[place]
    found: list[int] = []
    while start < end:
        (fetched,) = client.fetch({place: start})
        found += [int((record.value or b"").split(b":", 1)[0]) for record in fetched.check().decoded()]
        start = fetched.next_offset
    return found


def test_a_full_disk_refuses_writes_and_serves_all_else(server: Server, client: Client, disk: LoopDisk):
    orders, spare = TopicPartition("orders", 0), TopicPartition("spare", 0)
    create_topic(client, "orders", 1)
    create_topic(client, "spare", 1)
    taken = fill(client, orders)
    assert taken > 0
    with pytest.raises(BrokerRefused) as refused:
        send(client, spare, 0)
    assert refused.value.code == KAFKA_STORAGE_ERROR

    # Reads, offsets, deletes and restarts go on.
    assert numbers(client, orders) == list(range(taken))
    for offset in range(1, taken):
        commit_offsets(client, "group", {orders: offset})
    assert committed_offsets(client, "group") == {orders: taken - 1}
    assert delete_records(client, {orders: 2}) == {orders: 2}
    delete_topic(client, "spare")
    server.kill()
    server.start()
    assert numbers(client, orders) == list(range(2, taken))
    assert committed_offsets(client, "group") == {orders: taken - 1}
    assert server.stop() == 0
    server.start()

    # A producer that waits is served once there is space.
    producer = Producer(producer_settings(server.kafka, enable_idempotence=True))
    producer.produce("orders", b"%d:waiting" % taken, partition=0)
    (disk.path / "ballast").unlink()
    assert producer.flush(60) == 0
    assert numbers(client, orders) == list(range(2, taken + 1))


def test_what_is_deleted_makes_room_for_new_writes(server: Server, client: Client):
    orders, kept = TopicPartition("orders", 0), TopicPartition("kept", 0)
    create_topic(client, "orders", 1)
    create_topic(client, "kept", 1)
    send(client, kept, 0)
    taken = fill(client, orders)
    delete_records(client, {orders: taken - 1})
    eventually(lambda: is_taken(client, orders, taken))
    assert numbers(client, orders) == [taken - 1, taken]

    def is_filled_again() -> bool:
        end = client.bounds(["orders"])[orders][1]
        return fill(client, orders, end) > taken + taken // 2  # the room came back, not only a file's worth

    eventually(is_filled_again)
    delete_topic(client, "orders")
    eventually(lambda: is_taken(client, kept, 1))
    assert numbers(client, kept) == [0, 1]
    server.kill()
    server.start()
    assert numbers(client, kept) == [0, 1]
    assert read_back(server.kafka, [kept], []).views[kept].high_watermark == 2
