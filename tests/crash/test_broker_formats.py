"""Folders that brokers of earlier versions left behind are served as they were. See write_format_data.py."""

from __future__ import annotations

import json
import tarfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pika
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
)
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition as PythonPartition

from mainstem.broker.system import SystemClock
from mainstem.kernel.log.disk import OsDisk
from mainstem.kernel.log.layout import VERSION
from mainstem.kernel.log.manifest import read_manifest, written_version
from mainstem.testing import Broker

STORED = sorted((Path(__file__).parent / "data").glob("*.tar.xz"))
PATIENCE_S = 60.0
SETTINGS = {
    "journal.file_bytes": "1 MiB",
    "journal.reserve_bytes": "64 KiB",
    # The broker's clock stands in the past, those of its clients do not.
    "topics.message_timestamp_after_max_ms": str(2**63 - 1),
    "security.superusers": "ANONYMOUS",
    "security.acl_default": "allow",
}


@pytest.fixture(params=STORED, ids=lambda path: path.name)
def stored(request, tmp_path, monkeypatch) -> Path:
    """A copy, and a clock that goes on from when it was written: nothing in it has expired."""
    with tarfile.open(request.param) as tar:
        tar.extractall(tmp_path, filter="data")
    ahead_ms = json.loads((tmp_path / "facts.json").read_text())["written_ms"] - SystemClock().monotonic_ms()
    monkeypatch.setattr(SystemClock, "now_ms", lambda clock: clock.monotonic_ms() + ahead_ms)
    return tmp_path / "data"


@pytest.fixture
def broker(stored) -> Iterator[Broker]:
    with Broker(SETTINGS, data=stored) as broker:
        yield broker


@pytest.fixture
def admin(broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.kafka})


def values(broker: Broker, topic: str, isolation: str = "read_committed") -> list[tuple[str | None, str]]:
    """(key, value) of all that such a reader may see."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.kafka,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found = []
    with closing(consumer):
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, "neither a record nor the end"
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                return found
            key = message.key()
            found.append((key.decode() if key is not None else None, message.value().decode()))


def produce(broker: Broker, topic: str, key: str | None, value: str, **settings: object) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka, **settings})
    told: list[KafkaError | None] = []
    producer.produce(topic, value, key, 0, on_delivery=lambda error, _: told.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert told == [None]


PLAIN = [(f"key-{number}", f"value-{number}") for number in range(5)]


def test_there_is_a_stored_folder_with_a_run_and_state_behind_its_snapshots(stored):
    manifest = read_manifest(OsDisk(), str(stored))
    assert manifest is not None
    assert manifest.runs
    assert manifest.snapshots
    assert written_version(OsDisk(), str(stored)) <= VERSION


def test_records_are_read_and_more_are_taken_over_restarts(broker):
    for number in range(2):
        added = [("new", str(at)) for at in range(number)]
        assert values(broker, "plain") == PLAIN + added
        assert len(values(broker, "filler")) >= 6
        produce(broker, "plain", "new", str(number))
        broker.restart()
    assert values(broker, "plain") == [*PLAIN, ("new", "0"), ("new", "1")]


def test_a_compacted_topic_has_its_config_and_the_last_value_of_each_key(broker, admin):
    assert dict(values(broker, "prices")) == {"tea": "5", "milk": "1"}
    asked = ConfigResource(ConfigResource.Type.TOPIC, "prices")
    (config,) = admin.describe_configs([asked]).values()
    assert config.result(PATIENCE_S)["cleanup.policy"].value == "compact"
    produce(broker, "prices", "tea", "6")
    assert dict(values(broker, "prices")) == {"tea": "6", "milk": "1"}


def test_the_sequence_of_an_idempotent_producer_is_known(broker):
    assert values(broker, "steady") == [(None, f"steady-{number}") for number in range(3)]
    python = KafkaAdminClient(bootstrap_servers=broker.kafka)
    with closing(python):
        (state,) = python.describe_producers([PythonPartition("steady", 0)]).values()
        (known,) = state.active_producers
        assert (known.producer_epoch, known.last_sequence) == (0, 2)
        produce(broker, "steady", None, "of another", **{"enable.idempotence": True})
        (state,) = python.describe_producers([PythonPartition("steady", 0)]).values()
        ids = [producer.producer_id for producer in state.active_producers]
    assert len(set(ids)) == 2, "no id is given out again"


def test_transactions_are_committed_aborted_and_open_as_they_were(broker):
    with closing(KafkaAdminClient(bootstrap_servers=broker.kafka)) as python:
        found = python.describe_transactions(["txn-committed", "txn-aborted", "txn-open"])
    states = [found[f"txn-{name}"].state.value for name in ("committed", "aborted", "open")]
    assert states == ["CompleteCommit", "CompleteAbort", "Ongoing"]
    committed = ["committed-0", "committed-1", "between"]
    assert [value for _, value in values(broker, "payments")] == committed
    everything = [
        "committed-0",
        "committed-1",
        "aborted-0",
        "aborted-1",
        "between",
        "open-0",
        "open-1",
        "behind",
    ]
    assert [value for _, value in values(broker, "payments", "read_uncommitted")] == everything

    successor = Producer({"bootstrap.servers": broker.kafka, "transactional.id": "txn-open"})
    successor.init_transactions(PATIENCE_S)
    assert [value for _, value in values(broker, "payments")] == [*committed, "behind"]
    successor.begin_transaction()
    successor.produce("payments", "of the successor", partition=0)
    successor.commit_transaction(PATIENCE_S)
    assert [value for _, value in values(broker, "payments")] == [*committed, "behind", "of the successor"]


def test_an_open_transaction_whose_time_was_up_long_ago_is_aborted(stored, monkeypatch):
    now_ms = SystemClock().now_ms
    monkeypatch.setattr(SystemClock, "now_ms", lambda clock: now_ms() + 3_600_000)
    with Broker(SETTINGS, data=stored) as broker:
        until = time.monotonic() + PATIENCE_S
        while (None, "behind") not in values(broker, "payments"):
            assert time.monotonic() < until
        assert "open-0" not in [value for _, value in values(broker, "payments")]


def test_groups_of_both_protocols_go_on_from_their_offsets(broker, admin):
    for name, offset, note in (
        ("group-classic", 2, "note of classic"),
        ("group-consumer", 3, "note of consumer"),
        ("group-transaction", 4, ""),
    ):
        asked = ConsumerGroupTopicPartitions(name)
        (found,) = admin.list_consumer_group_offsets([asked]).values()
        (place,) = found.result(PATIENCE_S).topic_partitions
        assert (place.topic, place.partition, place.offset, place.metadata or "") == (
            "plain",
            0,
            offset,
            note,
        )
    for protocol, offset in (("classic", 2), ("consumer", 3)):
        group = {"group.id": f"group-{protocol}", "group.protocol": protocol}
        with closing(Consumer({"bootstrap.servers": broker.kafka, **group})) as consumer:
            consumer.subscribe(["plain"])
            message = consumer.poll(PATIENCE_S)
            assert (message.offset(), message.value()) == (offset, b"value-%d" % offset)


def test_users_and_rules_hold(stored):
    with Broker({**SETTINGS, "security.authentication": "required"}, data=stored) as broker:
        alice = logged_in(broker, "alice-password")
        with closing(Consumer({**alice, "group.id": "alice"})) as consumer:
            consumer.assign([TopicPartition("plain", 0, OFFSET_BEGINNING)])
            assert consumer.poll(PATIENCE_S).value() == b"value-0"
        assert refusal(alice, "plain") == KafkaError.TOPIC_AUTHORIZATION_FAILED
        errors: list[KafkaError] = []
        stranger = AdminClient({**logged_in(broker, "another-password"), "error_cb": errors.append})
        until = time.monotonic() + PATIENCE_S
        while not errors:
            stranger.poll(0.1)
            assert time.monotonic() < until
        assert errors[0].code() == KafkaError._AUTHENTICATION


def logged_in(broker: Broker, password: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.kafka,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": password,
    }


def refusal(client: dict[str, str], topic: str) -> int:
    told: list[KafkaError] = []
    producer = Producer(client)
    producer.produce(topic, "x", partition=0, on_delivery=lambda error, _: told.append(error))
    producer.flush(PATIENCE_S)
    return told[0].code()


def test_users_and_rules_are_listed(admin):
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    (rule,) = admin.describe_acls(every).result(PATIENCE_S)
    assert (rule.restype, rule.name) == (ResourceType.TOPIC, "pla")
    assert rule.resource_pattern_type == ResourcePatternType.PREFIXED
    assert (rule.principal, rule.host) == ("User:alice", "*")
    assert (rule.operation, rule.permission_type) == (AclOperation.READ, AclPermissionType.ALLOW)
    (user,) = admin.describe_user_scram_credentials(["alice"]).values()
    (login,) = user.result(PATIENCE_S).scram_credential_infos
    assert (login.mechanism, login.iterations) == (ScramMechanism.SCRAM_SHA_512, 4096)


def test_a_queue_has_its_binding_and_the_messages_that_were_not_acknowledged(broker):
    with channel_of(broker) as channel:
        channel.basic_publish("events", "order.sent", b"fourth")
        got = [channel.basic_get("tasks", auto_ack=True) for _ in range(4)]
    assert [body for _, _, body in got] == [b"second", b"third", b"fourth", None]
    assert got[0][0].redelivered  # of the others too: a crash makes it say so too often, never too seldom
    assert [properties.headers for _, properties, _ in got[:2]] == [{"kind": "test"}] * 2


@contextmanager
def channel_of(broker: Broker) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    host, _, port = broker.amqp.rpartition(":")
    with closing(pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel
