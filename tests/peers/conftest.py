"""Java programs and a broker for them. These tests are run by `make test-peers`, and by nothing else."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # `bench` is beside the tests, not in the package

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from java_kit import Java, jars

from mainstem.testing import Broker


@pytest.fixture(scope="session")
def class_path():
    return jars()


@pytest.fixture
def java(class_path, tmp_path):
    programs = Java(class_path, tmp_path)
    yield programs
    programs.close()


@pytest.fixture(scope="module")
def broker():
    with Broker({"security.acl_default": "allow"}, process=True) as broker:
        yield broker


class House:
    """What a test does beside the Java program it looks at."""

    def __init__(self, broker):
        self.kafka = broker.kafka
        self._admin = AdminClient({"bootstrap.servers": self.kafka, "log_level": 0})
        self._producer = Producer({"bootstrap.servers": self.kafka, "linger.ms": 5, "log_level": 0})

    def make_topic(self, name, partitions=1, **configs):
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=configs)
        self._admin.create_topics([topic])[name].result(30)

    def send(self, topic, values, keys=None):
        for number, value in enumerate(values):
            self._producer.produce(topic, value, keys[number] if keys else None)
            self._producer.poll(0)
        assert self._producer.flush(60) == 0

    def follow(self, topic, partitions=1):
        return Follower(self.kafka, topic, partitions)

    def read(self, topic, partitions=1):
        """(key, value) of every record that is committed."""
        with Follower(self.kafka, topic, partitions) as follower:
            return follower.records()


class Follower:
    """Reads what is committed, each time from where it was."""

    def __init__(self, kafka, topic, partitions=1):
        settings = {"bootstrap.servers": kafka, "group.id": "reader", "enable.auto.commit": False}
        settings |= {"isolation.level": "read_committed", "enable.partition.eof": True, "log_level": 0}
        self._consumer = Consumer(settings)
        self._records = []
        self._places = [TopicPartition(topic, partition, 0) for partition in range(partitions)]

    def records(self):
        """All that was there when it was asked, (key, value) in each partition's order."""
        self._consumer.assign(self._places)
        ends = set()
        while len(ends) < len(self._places):
            message = self._consumer.poll(30)
            assert message is not None, "no end in sight"
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ends.add(message.partition())
            elif message.partition() not in ends:
                self._records.append((message.key(), message.value()))
                self._places[message.partition()].offset = message.offset() + 1
        return list(self._records)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._consumer.close()


@pytest.fixture
def house(broker):
    return House(broker)
