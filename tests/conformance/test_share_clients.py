"""Share groups with confluent-kafka's share consumer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient
from kafka_kit import PATIENCE_S, Wire, create_topic, publish, until
from share_kit import configure

from mainstem.testing.broker import Broker

QUIET = {"log_level": 0}


class Workers:
    """Share consumers of one group."""

    def __init__(self, address: str, group: str, topic: str) -> None:
        self.address, self.group, self.topic = address, group, topic
        self.members: list[ShareConsumer] = []

    def hire(self, **settings: Any) -> ShareConsumer:
        named = {key.replace("_", "."): value for key, value in settings.items()}
        worker = ShareConsumer({"bootstrap.servers": self.address, "group.id": self.group, **QUIET, **named})
        worker.subscribe([self.topic])
        self.members.append(worker)
        return worker

    def close(self) -> None:
        for worker in self.members:
            worker.close()


def some(worker: ShareConsumer) -> list[Any]:
    """What comes next; waits for it."""
    found: list[Any] = until(lambda: list(worker.poll(0.2)), "records")
    assert all(one.error() is None for one in found)
    return found


@pytest.fixture
def workers(address: str, wire: Wire, group: str, topic: str) -> Iterator[Workers]:
    configure(wire, group, share_auto_offset_reset="earliest", share_heartbeat_interval_ms=50)
    made = Workers(address, group, topic)
    yield made
    made.close()


def test_two_workers_do_all_the_work_once(workers: Workers):
    create_topic(workers.address, workers.topic, 1)
    values = [str(number) for number in range(1000)]
    one, two = workers.hire(), workers.hire()
    seen: list[Counter[str]] = [Counter(), Counter()]
    publish(workers.address, workers.topic, values[:500])

    def work() -> bool:
        for worker, mine in zip((one, two), seen, strict=True):
            mine.update(message.value().decode() for message in worker.poll(0.05))
        return sum(map(len, seen)) >= len(values)

    producer = Producer({"bootstrap.servers": workers.address, "linger.ms": 0, **QUIET})
    for value in values[500:]:
        producer.produce(workers.topic, value)
        producer.flush()
    until(work, "all of it")
    assert seen[0] + seen[1] == Counter(values)


def test_partitions_are_shared_by_more_members_than_there_are(workers: Workers):
    create_topic(workers.address, workers.topic, 2)
    many = [workers.hire() for _ in range(3)]
    values = [str(number) for number in range(300)]
    publish(workers.address, workers.topic, values, partitions=2)
    seen: list[str] = []

    def work() -> bool:
        for worker in many:
            seen.extend(message.value().decode() for message in worker.poll(0.05))
        return len(seen) >= len(values)

    until(work, "all of it")
    assert sorted(seen) == sorted(values)


def test_released_records_come_again_and_rejected_ones_do_not(workers: Workers):
    create_topic(workers.address, workers.topic)
    publish(workers.address, workers.topic, ["good", "later", "bad"])
    worker = workers.hire(share_acknowledgement_mode="explicit")
    verdicts = {
        "good": AcknowledgeType.ACCEPT,
        "later": AcknowledgeType.RELEASE,
        "bad": AcknowledgeType.REJECT,
    }
    seen: list[tuple[str, int]] = []
    while len(seen) < 5:
        for message in some(worker):
            value = message.value().decode()
            seen.append((value, message.delivery_count()))
            done = len(seen) >= 5
            worker.acknowledge(message, AcknowledgeType.ACCEPT if done else verdicts[value])
        worker.commit_sync(PATIENCE_S)
    assert [one for one in seen if one[0] != "later"] == [("good", 1), ("bad", 1)]
    assert [one for one in seen if one[0] == "later"] == [("later", 1), ("later", 2), ("later", 3)]


def test_what_a_worker_had_when_it_closed_goes_to_another(workers: Workers):
    create_topic(workers.address, workers.topic)
    publish(workers.address, workers.topic, ["a"])
    first = workers.hire(share_acknowledgement_mode="explicit")
    assert [message.value() for message in some(first)] == [b"a"]
    workers.members.remove(first)
    first.close()
    (again,) = some(workers.hire())
    assert (again.value(), again.delivery_count()) == (b"a", 2)


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_closing_says_what_became_of_records_and_hears_of_no_error(
    workers: Workers, mode: str, capfd: pytest.CaptureFixture[str]
):
    """It leaves the group first, and closes its session with its last acknowledgements after that."""
    create_topic(workers.address, workers.topic)
    publish(workers.address, workers.topic, ["a"])
    errors: list[Any] = []
    worker = ShareConsumer(
        {
            "bootstrap.servers": workers.address,
            "group.id": workers.group,
            "share.acknowledgement.mode": mode,
            "error_cb": errors.append,
        }
    )
    worker.subscribe([workers.topic])
    (message,) = some(worker)
    if mode == "explicit":
        worker.acknowledge(message)
    capfd.readouterr()
    worker.close()
    assert (errors, capfd.readouterr().err) == ([], "")
    publish(workers.address, workers.topic, ["b"])
    after, seen = workers.hire(), set[bytes]()
    while b"b" not in seen:
        seen |= {one.value() for one in some(after)}
    assert (b"a" in seen) == (mode == "implicit")  # which accepts with the next poll, and there was none


def test_the_admin_client_does_not_take_it_for_a_consumer_group_and_can_delete_it(workers: Workers):
    create_topic(workers.address, workers.topic)
    publish(workers.address, workers.topic, ["a"])
    worker = workers.hire()
    some(worker)
    admin = AdminClient({"bootstrap.servers": workers.address, **QUIET})

    def names() -> list[str]:
        return [one.group_id for one in admin.list_consumer_groups().result(PATIENCE_S).valid]

    assert workers.group not in names()
    workers.members.remove(worker)
    worker.close()
    admin.delete_consumer_groups([workers.group])[workers.group].result(PATIENCE_S)
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        admin.delete_consumer_groups([workers.group])[workers.group].result(PATIENCE_S)


@pytest.mark.parametrize("acknowledged", [True, False])
def test_only_what_was_not_acknowledged_comes_again_after_a_crash(
    tmp_path: Path, group: str, topic: str, acknowledged: bool
):
    with Broker(data=tmp_path, process=True) as broker:
        create_topic(broker.kafka, topic)
        with Wire(broker.kafka) as wire:
            configure(wire, group, share_auto_offset_reset="earliest")
        publish(broker.kafka, topic, ["before"])
        crew = Workers(broker.kafka, group, topic)
        worker = crew.hire(share_acknowledgement_mode="explicit")
        for message in some(worker):
            if acknowledged:
                worker.acknowledge(message)
                worker.commit_sync(PATIENCE_S)
        broker.kill()
        crew.close()
    with Broker(data=tmp_path, process=True) as broker:
        publish(broker.kafka, topic, ["after"])
        crew = Workers(broker.kafka, group, topic)
        worker = crew.hire()
        wanted = ["after"] if acknowledged else ["before", "after"]
        seen: list[str] = []
        while len(seen) < len(wanted):
            seen += [message.value().decode() for message in some(worker)]
        crew.close()
    assert seen == wanted
