"""Writes small data for later versions to open:

    python tests/crash/write_format_data.py tests/crash/data/NAME           # a log with every kind of file
    python tests/crash/write_format_data.py tests/crash/data/NAME.tar.xz    # all that a broker keeps

Stored data is never overwritten: it is proof only as long as it is what the earlier version wrote. When a
format or the state in it changes, add some under a new NAME. An earlier version can be asked later on:

    git worktree add /tmp/old COMMIT
    PYTHONPATH=/tmp/old/src python tests/crash/write_format_data.py tests/crash/data/NAME.tar.xz
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pika
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

import mainstem
from mainstem.kernel.log.disk import OsDisk
from mainstem.kernel.log.manifest import read_manifest
from mainstem.testing import Broker

PATIENCE_S = 60.0
# Files as small as they may be, and a merge as soon as there is something to merge.
SETTINGS = {
    "journal.file_bytes": "1 MiB",
    "journal.reserve_bytes": "64 KiB",
    "merge.delay_ms": 0,
    "merge.min_dirty_ratio_percent": 0,
    "snapshot.interval_ms": 1000,
    "security.acl_default": "allow",  # rules can be made, and nobody has to log in
    "security.superusers": "ANONYMOUS",
}


# --- a log ---------------------------------------------------------------------------------------


def write_log(target: Path) -> None:
    from test_corruption import (
        FOLDER,
        build,
        contents,
    )  # of this version: not for those who ask an earlier one

    disk, model = build()
    held, reads = contents(disk, model)
    assert held == model.acked
    for path, inode in sorted(disk.seen.names.items()):
        if not path.endswith(".new"):
            place = target / path.removeprefix(f"{FOLDER}/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(disk.seen.files[inode])
    events = [event for unit in model.units for event in unit.replayed if event[0] == "delta"]
    expected = {
        "partitions": {
            str(partition): [hashlib.sha256(batch).hexdigest() for batch in batches]
            for partition, batches in sorted(reads.items())
        },
        "deltas": [[section, payload.hex()] for _, section, payload in events],
    }
    (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


# --- a broker ------------------------------------------------------------------------------------


def write_broker(target: Path) -> None:
    """What test_broker_formats.py looks for. The broker is killed, so that some state is in no snapshot."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with Broker(SETTINGS, data=data, process=True) as broker:
            make_topics(broker)
            write_records(broker)
            fill_files(broker, data)
            commit_offsets(broker)
            write_access(broker)
            write_queue(broker)
            left_open = write_transactions(broker)
            broker.kill()
            del left_open
        written_ms = time.time_ns() // 1_000_000
        with tarfile.open(target, "x:xz", preset=9) as tar:
            tar.add(data, "data", filter=nobodys)
            facts = json.dumps({"written_ms": written_ms, "commit": commit()}).encode()
            entry = tarfile.TarInfo("facts.json")
            entry.size = len(facts)
            tar.addfile(entry, BytesIO(facts))


def commit() -> str:
    """Of the version that wrote it."""
    asked = ["git", "-C", str(Path(mainstem.__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)


def send(broker: Broker, topic: str, *records: tuple[str | None, str | bytes], **settings: object) -> None:
    """One batch each."""
    producer = Producer({"bootstrap.servers": broker.kafka, **settings})
    for key, value in records:
        producer.produce(topic, value, key, 0)
        assert producer.flush(PATIENCE_S) == 0


def make_topics(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.kafka})
    kept = {"retention.ms": "-1"}  # whenever it is opened
    topics = [NewTopic(name, 1, 1, config=kept) for name in ("plain", "steady", "payments", "filler")]
    topics.append(NewTopic("prices", 1, 1, config={"cleanup.policy": "compact"}))
    for made in admin.create_topics(topics).values():
        made.result(PATIENCE_S)


def write_records(broker: Broker) -> None:
    send(broker, "plain", *((f"key-{number}", f"value-{number}") for number in range(5)))
    send(
        broker, "steady", *((None, f"steady-{number}") for number in range(3)), **{"enable.idempotence": True}
    )
    send(broker, "prices", ("tea", "3"), ("milk", "1"), ("tea", "4"), ("tea", "5"))


def fill_files(broker: Broker, data: Path) -> None:
    """Finish a file and wait until it is merged. Letters that are all alike take no room in the archive."""
    send(broker, "filler", *((None, b"x" * 200_000) for _ in range(6)))

    def is_merged() -> bool:
        send(broker, "filler", (None, b"x"))  # a snapshot is only taken when something was written
        manifest = read_manifest(OsDisk(), str(data))
        return manifest is not None and len(manifest.runs) > 0

    wait_until(is_merged)


def commit_offsets(broker: Broker) -> None:
    for protocol in ("classic", "consumer"):
        group = {
            "bootstrap.servers": broker.kafka,
            "group.id": f"group-{protocol}",
            "group.protocol": protocol,
        }
        consumer = Consumer({**group, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        consumer.subscribe(["plain"])
        wait_until(lambda consumer=consumer: consumer.poll(0.1) is not None)
        offset = {"classic": 2, "consumer": 3}[protocol]
        place = TopicPartition("plain", 0, offset, metadata=f"note of {protocol}")
        consumer.commit(offsets=[place], asynchronous=False)
        consumer.close()


def write_access(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.kafka})
    rule = AclBinding(
        ResourceType.TOPIC,
        "pla",
        ResourcePatternType.PREFIXED,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    for done in admin.create_acls([rule]).values():
        done.result(PATIENCE_S)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    alice = UserScramCredentialUpsertion("alice", info, b"alice-password")
    for done in admin.alter_user_scram_credentials([alice]).values():
        done.result(PATIENCE_S)


def write_queue(broker: Broker) -> None:
    """Three messages: the first is acknowledged, the second delivered, the third still waits."""
    host, _, port = broker.amqp.rpartition(":")
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("events", "topic", durable=True)
    channel.queue_declare("tasks", durable=True)
    channel.queue_bind("tasks", "events", "order.*")
    lasting = pika.BasicProperties(delivery_mode=2, headers={"kind": "test"})
    for body in (b"first", b"second", b"third"):
        channel.basic_publish("events", "order.made", body, lasting)
    first, _, _ = channel.basic_get("tasks")
    channel.basic_get("tasks")
    channel.basic_ack(first.delivery_tag)
    connection.close()


def write_transactions(broker: Broker) -> Producer:
    """The producer of the one that stays open: the client would end it if it were let go."""
    for name, end in (("committed", Producer.commit_transaction), ("aborted", Producer.abort_transaction)):
        producer = begun(broker, name)
        if name == "committed":
            group = Consumer({"bootstrap.servers": broker.kafka, "group.id": "group-transaction"})
            place = TopicPartition("plain", 0, 4)
            producer.send_offsets_to_transaction([place], group.consumer_group_metadata(), PATIENCE_S)
            group.close()
        end(producer, PATIENCE_S)
    send(broker, "payments", (None, "between"))
    left_open = begun(broker, "open")
    send(broker, "payments", (None, "behind"))
    return left_open


def begun(broker: Broker, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": broker.kafka, "transactional.id": f"txn-{name}"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for number in range(2):
        producer.produce("payments", f"{name}-{number}", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    return producer


def main(target: Path) -> None:
    if target.exists():
        sys.exit(f"{target} is there already, and stays as it is: take another name")
    if target.name.endswith(".tar.xz"):
        write_broker(target)
    else:
        write_log(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
