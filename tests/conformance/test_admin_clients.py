"""The admin clients that people use: each can do with topics what it offers, and hears the truth."""

from __future__ import annotations

import asyncio

import kafka.errors
import pytest
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import (
    ElectionType,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka import TopicPartition as PyTopicPartition
from kafka.admin import ConfigResource as PyConfigResource
from kafka.admin import ConfigResourceType as PyConfigResourceType
from kafka.admin import NewPartitions as PyNewPartitions
from kafka.admin import NewTopic as PyNewTopic

from mainstem.testing import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


def write(broker: Broker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    for number in range(count):
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(30) == 0


def results(futures):
    return {key: future.result(30) for key, future in futures.items()}


# --- confluent-kafka -----------------------------------------------------------------------------


@pytest.fixture
def confluent(broker):
    return AdminClient({"bootstrap.servers": broker.kafka})


def test_confluent_creates_grows_describes_and_deletes(confluent):
    results(confluent.create_topics([NewTopic("c-life", 2, 1, config={"retention.ms": "777"})]))
    results(confluent.create_partitions([NewPartitions("c-life", 5)]))
    described = confluent.describe_topics(TopicCollection(["c-life"]), include_authorized_operations=True)[
        "c-life"
    ].result(30)
    assert len(described.partitions) == 5
    assert len(described.authorized_operations) == 8
    assert not described.is_internal
    results(confluent.delete_topics(["c-life"]))
    assert "c-life" not in confluent.list_topics(timeout=10).topics


def test_confluent_hears_why_a_topic_cannot_be(confluent):
    futures = confluent.create_topics([NewTopic("c-no", 1, 3)])
    with pytest.raises(KafkaException, match="there is 1 broker"):
        futures["c-no"].result(30)


def test_confluent_changes_configs(confluent):
    results(confluent.create_topics([NewTopic("c-conf", 1, 1)]))
    change = ConfigResource(
        ResourceType.TOPIC,
        "c-conf",
        incremental_configs=[
            ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET),
            ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
        ],
    )
    results(confluent.incremental_alter_configs([change]))
    asked = [ConfigResource(ResourceType.TOPIC, "c-conf"), ConfigResource(ResourceType.BROKER, "1")]
    topic, own = results(confluent.describe_configs(asked)).values()
    assert (topic["retention.ms"].value, topic["cleanup.policy"].value) == ("1000", "delete,compact")
    assert own["num.partitions"].is_read_only


def test_confluent_deletes_records_and_lists_offsets(confluent, broker):
    results(confluent.create_topics([NewTopic("c-rec", 1, 1)]))
    write(broker, "c-rec", 10)
    (deleted,) = results(confluent.delete_records([TopicPartition("c-rec", 0, 4)])).values()
    assert deleted.low_watermark == 4
    partition = TopicPartition("c-rec", 0)
    (first,) = results(confluent.list_offsets({partition: OffsetSpec.earliest()})).values()
    (last,) = results(confluent.list_offsets({partition: OffsetSpec.latest()})).values()
    assert (first.offset, last.offset) == (4, 10)


def test_confluent_describes_the_cluster_and_needs_no_election(confluent, broker):
    cluster = confluent.describe_cluster(include_authorized_operations=True).result(30)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [broker.kafka]
    assert len(cluster.authorized_operations) == 7
    results(confluent.create_topics([NewTopic("c-led", 1, 1)]))
    outcome = confluent.elect_leaders(ElectionType.PREFERRED, [TopicPartition("c-led", 0)]).result(30)
    (error,) = outcome.values()
    assert error.name() == "ELECTION_NOT_NEEDED"


# --- kafka-python --------------------------------------------------------------------------------


@pytest.fixture
def python(broker):
    client = KafkaAdminClient(bootstrap_servers=broker.kafka)
    yield client
    client.close()


def test_kafka_python_creates_grows_describes_and_deletes(python):
    python.create_topics([PyNewTopic("p-life", 2, 1, topic_configs={"retention.ms": "777"})])
    python.create_partitions({"p-life": PyNewPartitions(4)})
    (described,) = python.describe_topics(["p-life"])
    assert len(described["partitions"]) == 4
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        python.create_topics([PyNewTopic("p-life", 2, 1)])
    python.delete_topics(["p-life"])
    assert "p-life" not in python.list_topics()


def test_kafka_python_changes_and_describes_configs(python):
    python.create_topics([PyNewTopic("p-conf", 1, 1)])
    python.alter_configs([PyConfigResource(PyConfigResourceType.TOPIC, "p-conf", {"retention.ms": "55"})])
    assert "55" in str(python.describe_configs([PyConfigResource(PyConfigResourceType.TOPIC, "p-conf")]))
    own = python.describe_configs([PyConfigResource(PyConfigResourceType.BROKER, "1")], config_filter="all")
    assert "num.partitions" in str(own)


def test_kafka_python_trims_and_looks_at_the_cluster(python, broker):
    python.create_topics([PyNewTopic("p-rec", 1, 1)])
    write(broker, "p-rec", 5)
    partition = PyTopicPartition("p-rec", 0)
    assert python.delete_records({partition: 3})[partition]["low_watermark"] == 3
    assert [node["broker_id"] for node in python.describe_cluster()["brokers"]] == [1]
    assert str(broker.data) in str(python.describe_log_dirs())
    assert python.list_partition_reassignments() == {}


# --- aiokafka ------------------------------------------------------------------------------------


def test_aiokafka_creates_grows_configures_trims_and_deletes(broker):
    async def run() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.kafka)
        await admin.start()
        try:
            await admin.create_topics([AioNewTopic("a-life", 2, 1)])
            await admin.create_partitions({"a-life": AioNewPartitions(3)})
            (described,) = await admin.describe_topics(["a-life"])
            assert len(described["partitions"]) == 3
            resource = AioConfigResource(AioConfigResourceType.TOPIC, "a-life", {"retention.ms": "66"})
            await admin.alter_configs([resource])
            asked = AioConfigResource(AioConfigResourceType.TOPIC, "a-life")
            (told,) = await admin.describe_configs([asked])
            assert "config_names='retention.ms', config_value='66'" in str(told)
            await asyncio.to_thread(write, broker, "a-life", 4)
            wanted = {AioTopicPartition("a-life", 0): RecordsToDelete(before_offset=2)}
            assert await admin.delete_records(wanted) == {AioTopicPartition("a-life", 0): 2}
            assert (await admin.describe_cluster())["cluster_id"]
            await admin.delete_topics(["a-life"])
            assert "a-life" not in await admin.list_topics()
        finally:
            await admin.close()

    asyncio.run(run())
