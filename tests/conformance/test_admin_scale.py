"""A hundred thousand topics: created, written, listed, described, and there again after a restart."""

from __future__ import annotations

import time

import pytest
from raw_kafka import Raw

from mainstem.model.record import Record
from mainstem.model.records import encode_batch
from mainstem.testing import Broker
from mainstem.wire.kafka.apis import ApiKey
from mainstem.wire.kafka.offsets import ListOffsetsPartition, ListOffsetsTopic
from mainstem.wire.kafka.produce import PartitionProduceData, TopicProduceData
from mainstem.wire.kafka.topics import CreatableTopic, DeleteTopicState

TOPICS = 100_000
MOST_MIB = 400  # the broker's memory with them, at its peak; half of it was seen


class Steps:
    """Says how long each step took and what the broker's memory is then."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._since = time.monotonic()

    def memory_mib(self, line: str = "VmRSS") -> int:
        status = open(f"/proc/{self._broker._runner._process.pid}/status").read()  # noqa: SIM115
        return int(status.split(f"{line}:")[1].split()[0]) // 1024

    def __call__(self, name: str) -> None:
        now = time.monotonic()
        print(
            f"{name:12} {now - self._since:6.2f} s, {self.memory_mib()} MiB, peak {self.memory_mib('VmHWM')}"
        )
        self._since = time.monotonic()


def create(raw: Raw, names: list[str]) -> None:
    for first in range(0, len(names), 10_000):
        wanted = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            for name in names[first : first + 10_000]
        ]
        answer = raw.ask(ApiKey.CREATE_TOPICS, 4, topics=wanted, timeout_ms=120_000)
        assert not any(topic.error_code for topic in answer.topics)


def write(raw: Raw, names: list[str]) -> None:
    batch = bytes(encode_batch([Record(0, int(time.time() * 1000), None, b"v" * 100)]))
    for first in range(0, len(names), 500):
        data = [
            TopicProduceData(name, partition_data=[PartitionProduceData(0, batch)])
            for name in names[first : first + 500]
        ]
        answer = raw.ask(ApiKey.PRODUCE, 9, acks=-1, timeout_ms=60_000, topic_data=data)
        assert not any(p.error_code for topic in answer.responses for p in topic.partition_responses)


def described(raw: Raw) -> int:
    count, cursor = 0, None
    while True:
        answer = raw.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], cursor=cursor)
        count += len(answer.topics)
        cursor = answer.next_cursor
        if cursor is None:
            return count


def ends(raw: Raw, names: list[str]) -> set[int]:
    wanted = [ListOffsetsTopic(name, [ListOffsetsPartition(0, -1, -1)]) for name in names]
    answer = raw.ask(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=wanted)
    return {partition.offset for topic in answer.topics for partition in topic.partitions}


@pytest.mark.timeout(600)  # a quarter of a minute where the hot modules are compiled and nothing else runs
def test_a_hundred_thousand_topics_are_created_written_listed_described_and_survive_a_kill():
    names = [f"topic-{number:06}" for number in range(TOPICS)]
    with Broker({"journal.file_bytes": "64 MiB"}, process=True) as broker:
        step = Steps(broker)
        with Raw(broker.kafka, timeout_s=300) as raw:
            create(raw, names)
            step("created")
            write(raw, names)
            step("written")
            assert len(raw.ask(ApiKey.METADATA, 12, topics=None).topics) == TOPICS
            step("listed")
            assert len(raw.ask(ApiKey.METADATA, 12, topics=None).topics) == TOPICS
            step("listed again")
            assert described(raw) == TOPICS
            step("described")
        broker.kill()
        step = Steps(broker)
        broker.start()
        step("killed, up")
        with Raw(broker.kafka, timeout_s=300) as raw:
            assert ends(raw, names) == {1}
            step("ends")
            assert len(raw.ask(ApiKey.METADATA, 12, topics=None).topics) == TOPICS
            gone = [DeleteTopicState(name=name) for name in names[: TOPICS // 2]]
            raw.ask(ApiKey.DELETE_TOPICS, 6, topics=gone, timeout_ms=120_000)
            step("half deleted")
        assert step.memory_mib("VmHWM") < MOST_MIB
        broker.restart()
        with Raw(broker.kafka, timeout_s=300) as raw:
            assert len(raw.ask(ApiKey.METADATA, 12, topics=None).topics) == TOPICS // 2
