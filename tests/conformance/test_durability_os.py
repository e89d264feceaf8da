"""Topics with `durability = os`: acknowledged before the disk, with offsets that stay honest."""

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from mainstem.testing import Broker


@pytest.fixture
def broker():
    with Broker(process=True) as broker:
        admin = AdminClient({"bootstrap.servers": broker.kafka})
        topic = NewTopic("fast", num_partitions=1, replication_factor=1, config={"durability": "os"})
        for made in admin.create_topics([topic]).values():
            made.result(10)
        yield broker


def produce(broker, values):
    offsets = []
    producer = Producer({"bootstrap.servers": broker.kafka, "linger.ms": 0, "acks": "all"})
    for value in values:
        producer.produce("fast", value, on_delivery=lambda error, message: offsets.append(message.offset()))
        assert producer.flush(10) == 0
    return offsets


def read(broker, offset):
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition("fast", 0, offset)])
    high = end(broker)
    found = []
    while not found or found[-1][0] < high - 1:
        for message in consumer.consume(100, timeout=1):
            assert message.error() is None, message.error()
            found.append((message.offset(), message.value(), message.leader_epoch()))
    consumer.close()
    return found


def end(broker):
    admin = AdminClient({"bootstrap.servers": broker.kafka})
    asked = admin.list_offsets({TopicPartition("fast", 0): OffsetSpec.latest()})
    return next(iter(asked.values())).result(10).offset


def test_a_clean_stop_leaves_no_gap(broker):
    assert produce(broker, [b"a", b"b", b"c"]) == [0, 1, 2]
    broker.restart()
    assert produce(broker, [b"d"]) == [3]
    assert [(offset, value) for offset, value, _ in read(broker, 0)] == [
        (0, b"a"),
        (1, b"b"),
        (2, b"c"),
        (3, b"d"),
    ]


def test_after_a_kill_offsets_go_on_behind_what_may_have_been_told_and_the_epoch_says_so(broker):
    assert produce(broker, [b"a", b"b", b"c"]) == [0, 1, 2]
    broker.kill()
    broker.restart()
    (later,) = produce(broker, [b"d"])
    assert later > 1_000_000
    # The process died, not the machine: the operating system still had everything.
    assert read(broker, 0) == [(0, b"a", 0), (1, b"b", 0), (2, b"c", 0), (later, b"d", 1)]
    assert read(broker, 3) == [(later, b"d", 1)]


def test_a_second_kill_does_not_give_an_offset_twice(broker):
    told = produce(broker, [b"a", b"b"])
    for round_number in range(3):
        broker.kill()
        broker.restart()
        told += produce(broker, [b"%d" % round_number])
    assert told == sorted(set(told))
    assert [offset for offset, _, _ in read(broker, 0)] == told
