"""Files in care of a serving broker: merged, compacted and trimmed, while clients see what they should."""

import itertools
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from mainstem.testing import Broker

BUSY_FILES = {
    "journal.file_bytes": "1 MiB",
    "journal.reserve_bytes": "64 KiB",
    "merge.delay_ms": 0,
    "merge.retention_check_interval_ms": 100,
    "snapshot.interval_ms": 1000,
}
DEADLINE_S = 60


@pytest.fixture
def broker():
    with Broker(BUSY_FILES) as broker:
        yield broker


def create(broker, name, partitions=1, **config):
    admin = AdminClient({"bootstrap.servers": broker.kafka})
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
    for made in admin.create_topics([topic]).values():
        made.result(10)


def produce(broker, topic, records):
    """(partition, key, value) one batch each, so that there is something to merge."""
    producer = Producer({"bootstrap.servers": broker.kafka, "linger.ms": 0, "batch.num.messages": 5})
    for partition, key, value in records:
        while True:
            try:
                producer.produce(topic, value, key, partition)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(30) == 0


def read_all(broker, topic, partition):
    """(offset, key, value) from the start of the log to its end."""
    consumer = Consumer(
        {"bootstrap.servers": broker.kafka, "group.id": "reader", "enable.auto.commit": False}
    )
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        consumer.assign([TopicPartition(topic, partition, low)])
        found = []
        while consumer.position([TopicPartition(topic, partition)])[0].offset < high:
            for message in consumer.consume(500, timeout=1):
                assert message.error() is None, message.error()
                found.append((message.offset(), message.key(), message.value()))
            if low == high:
                break
        return found
    finally:
        consumer.close()


def size_of(path) -> int:
    """Files come and go while a broker looks after them."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def wait_until(condition, what):
    for _ in range(DEADLINE_S * 10):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(f"not within {DEADLINE_S} s: {what}")


def test_what_is_merged_reads_as_it_was_written(broker):
    create(broker, "orders", partitions=5)
    sent = [(n % 5, b"k%d" % n, b"v%d." % n * 40) for n in range(15_000)]
    produce(broker, "orders", sent)
    wait_until(lambda: list(broker.data.glob("files/*.run")), "a merged file")
    produce(broker, "orders", sent[:100])
    for partition in range(5):
        wanted = [(key, value) for p, key, value in (*sent, *sent[:100]) if p == partition]
        found = read_all(broker, "orders", partition)
        assert [offset for offset, _, _ in found] == list(range(len(wanted)))
        assert [(key, value) for _, key, value in found] == wanted
    broker.restart()
    assert len(read_all(broker, "orders", 0)) == len([1 for p, _, _ in (*sent, *sent[:100]) if p == 0])


def test_a_compacted_topic_keeps_the_last_value_of_each_key(broker):
    create(broker, "state", **{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    keys = [b"key-%d" % n for n in range(50)]
    rounds = itertools.islice(itertools.cycle(keys), 12_000)
    produce(broker, "state", [(0, key, b"%d" % n * 60) for n, key in enumerate(rounds)])
    last = {key: b"%d" % (11_950 + n) * 60 for n, key in enumerate(keys)}

    def compacted():
        return len(read_all(broker, "state", 0)) < 6_000

    wait_until(compacted, "fewer records than were sent")
    found = read_all(broker, "state", 0)
    assert {key: value for _, key, value in found} == last
    offsets = [offset for offset, _, _ in found]
    assert offsets == sorted(set(offsets))
    assert offsets[-1] == 11_999


def test_a_compacted_topic_forgets_a_key_whose_last_value_is_none(broker):
    create(broker, "people", **{"cleanup.policy": "compact", "delete.retention.ms": "0"})
    gone, stays = [b"gone-%d" % n for n in range(50)], [b"stays-%d" % n for n in range(50)]
    rounds = list(itertools.islice(itertools.cycle(gone + stays), 6_000))
    produce(broker, "people", [(0, key, b"%d" % n * 60) for n, key in enumerate(rounds)])
    produce(broker, "people", [(0, key, None) for key in gone])
    last = {key: b"%d" % (5_900 + n) * 60 for n, key in enumerate(gone + stays) if key in stays}
    more = itertools.count()

    def forgotten():
        # What was written last is compacted once there is something behind it.
        produce(broker, "people", [(0, b"busy", b"%d" % next(more) * 300) for _ in range(2_000)])
        found = {key for _, key, _ in read_all(broker, "people", 0)}
        assert set(stays) <= found
        return not found & set(gone)

    wait_until(forgotten, "keys that are gone")
    assert {key: value for _, key, value in read_all(broker, "people", 0) if key != b"busy"} == last


def test_retention_moves_the_start_of_the_log_and_gives_back_the_disk(broker):
    create(broker, "short", **{"retention.bytes": str(1 << 20)})
    produce(broker, "short", [(0, None, b"x" * 1000) for _ in range(8_000)])
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": "watch"})

    def start():
        return consumer.get_watermark_offsets(TopicPartition("short", 0), timeout=10)[0]

    def used_bytes():
        return sum(map(size_of, broker.data.glob("files/*")))

    wait_until(lambda: start() > 6_000, "the log to start later")
    wait_until(lambda: used_bytes() < 6 << 20, "files to be dropped")
    found = read_all(broker, "short", 0)
    assert found[-1][0] == 7_999
    assert found[0][0] == start()
    consumer.close()


def test_old_messages_go_by_time(broker):
    create(broker, "brief", **{"retention.ms": "1"})
    produce(broker, "brief", [(0, None, b"gone soon") for _ in range(10)])
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": "watch"})
    wait_until(
        lambda: consumer.get_watermark_offsets(TopicPartition("brief", 0), timeout=10) == (10, 10),
        "everything to expire",
    )
    consumer.close()
