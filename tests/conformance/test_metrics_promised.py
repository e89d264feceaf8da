"""What /metrics of a real broker tells about real traffic, and that the docs name every meter."""

import re
import urllib.request
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from mainstem.testing import Broker

DOCS = Path(__file__).parents[2] / "docs/operate/observe.md"


def samples(broker: Broker) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{broker.http}/metrics") as answer:
        text = answer.read().decode()
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def test_metrics_tell_what_went_in_and_out_and_how_far_behind_a_group_is():
    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.kafka})
        for number in range(10):
            producer.produce("metered", f"value {number}")
        assert producer.flush(30) == 0
        consumer = Consumer(
            {"bootstrap.servers": broker.kafka, "group.id": "slow", "enable.auto.commit": False}
        )
        consumer.assign([TopicPartition("metered", 0, 0)])
        assert len(consumer.consume(10, 30)) == 10
        consumer.commit(offsets=[TopicPartition("metered", 0, 4)], asynchronous=False)
        consumer.close()
        seen = samples(broker)
    assert seen["mainstem_messages_in_total"] == 10
    assert seen["mainstem_messages_in_bytes_total"] > 70
    assert seen['mainstem_messages_out_bytes_total{listener="kafka"}'] > 70
    assert seen["mainstem_journal_rounds_total"] >= 2
    assert seen["mainstem_journal_sync_seconds_count"] >= 2
    assert seen["mainstem_journal_written_bytes_total"] > seen["mainstem_messages_in_bytes_total"]
    assert (seen["mainstem_topics"], seen["mainstem_partitions"], seen["mainstem_groups"]) == (1, 1, 1)
    assert seen["mainstem_open_transactions"] == 0
    assert seen['mainstem_group_lag{group="slow",topic="metered"}'] == 6
    assert seen["process_resident_memory_bytes"] > 0
    assert any(name.startswith("mainstem_build_info{version=") for name in seen)


def test_the_lag_of_a_group_leaves_out_what_was_deleted_before_it_was_read():
    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.kafka})
        for number in range(10):
            producer.produce("trimmed", f"value {number}")
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": "slow"})
        consumer.commit(offsets=[TopicPartition("trimmed", 0, 1)], asynchronous=False)
        consumer.close()
        admin = AdminClient({"bootstrap.servers": broker.kafka})
        for deleted in admin.delete_records([TopicPartition("trimmed", 0, 7)]).values():
            deleted.result(30)
        seen = samples(broker)
    assert seen['mainstem_group_lag{group="slow",topic="trimmed"}'] == 3


def test_every_meter_of_ours_is_in_the_docs_and_every_meter_in_the_docs_exists():
    with Broker() as broker, urllib.request.urlopen(f"http://{broker.http}/metrics") as answer:
        there = set(re.findall(r"^# TYPE (mainstem_\w+)", answer.read().decode(), re.MULTILINE))
    assert set(re.findall(r"`(mainstem_\w+)`", DOCS.read_text())) == there


def test_a_full_disk_is_told_by_a_meter_and_by_readyz_which_stays_ready(monkeypatch):
    def readyz() -> bytes:
        with urllib.request.urlopen(f"http://{broker.http}/readyz") as answer:
            return answer.read()

    with Broker() as broker:
        found = samples(broker)
        assert (found["mainstem_writes_refused"], readyz()) == (0, b"ok\n")
        assert found["mainstem_disk_free_bytes"] > 0
        with monkeypatch.context() as full:
            for module in ("mainstem.app", "mainstem.broker.broker_meters"):
                full.setattr(f"{module}.refuses_writes", lambda _: True)
            assert samples(broker)["mainstem_writes_refused"] == 1
            assert readyz() == b"ok, but writes are refused: the disk is full\n"
        assert readyz() == b"ok\n"
