"""Made-up input for an example, over an ordinary Kafka client; that of logs through rsyslog.

python examples/generate.py behaviour --count 20000
"""

import argparse
import importlib
import os
import tempfile
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

NAMES = ("behaviour", "logs", "metrics", "orders")
PARTITIONS = 2
TIMEOUT_S = 60
MAX_UNSENT = 50_000  # the client refuses more than twice as many


def generate(name: str, bootstrap: str, count: int | None, seed: int, until: datetime) -> int:
    """How many events the topic has got."""
    example = importlib.import_module(f"{name}.events")
    count = count or example.COUNT
    create(bootstrap, example.TOPIC)
    if name == "logs":
        lines = [line.syslog() for line in example.lines(count, seed, until)]
        through_rsyslog(bootstrap, example.TOPIC, lines)
    else:
        send(bootstrap, example.TOPIC, example.events(count, seed, until))
    return count


def client(bootstrap: str) -> dict[str, Any]:
    """What is wrong is told once, by who asked; not by the client for every attempt."""
    return {"bootstrap.servers": bootstrap, "log_level": 0}


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient(client(bootstrap))
    (made,) = admin.create_topics([NewTopic(topic, PARTITIONS)], request_timeout=5).values()
    try:
        made.result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise SystemExit(f"{bootstrap}: {error.args[0].str()}; is there a broker?") from None


def send(bootstrap: str, topic: str, events: Iterable[tuple[str, bytes]]) -> None:
    producer = Producer(client(bootstrap) | {"linger.ms": 20, "enable.idempotence": True})
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error:
            failed.append(error)

    for key, value in events:
        while len(producer) > MAX_UNSENT:
            producer.poll(0.1)
        producer.produce(topic, value, key, on_delivery=delivered)
        producer.poll(0)
    if producer.flush(TIMEOUT_S) or failed:
        raise SystemExit(f"{topic} did not get all of it: {failed[:1]}")


def through_rsyslog(bootstrap: str, topic: str, lines: list[bytes]) -> None:
    from logs.rsyslogd import Rsyslogd

    before = size(bootstrap, topic)
    with (
        tempfile.TemporaryDirectory(prefix="rsyslog-") as folder,
        Rsyslogd(Path(folder), bootstrap, topic) as daemon,
    ):
        daemon.send(lines)
        deadline_s = time.monotonic() + TIMEOUT_S
        while size(bootstrap, topic) < before + len(lines):
            if time.monotonic() > deadline_s:
                raise SystemExit(f"{topic} did not get all lines in {TIMEOUT_S} s")
            time.sleep(0.2)


def size(bootstrap: str, topic: str) -> int:
    consumer = Consumer(client(bootstrap) | {"group.id": "examples"})
    known = consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, number), TIMEOUT_S) for number in known]
    consumer.close()
    return sum(high - low for low, high in ends)


def values(bootstrap: str, topic: str) -> list[bytes]:
    """All that a topic holds now."""
    consumer = Consumer(client(bootstrap) | {"group.id": "examples", "enable.partition.eof": True})
    known = consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in known])
    found: list[bytes] = []
    ended = 0
    while ended < len(known):
        message = consumer.poll(TIMEOUT_S)
        error = None if message is None else message.error()
        if message is None or (error and error.code() != KafkaError._PARTITION_EOF):
            raise SystemExit(f"{topic} cannot be read: {error or 'it says nothing'}")
        if error:
            ended += 1
        else:
            found.append(message.value())
    consumer.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Send made-up input for an example.")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--count", type=int, help="how many events")
    parser.add_argument("--seed", type=int, default=7, help="the same seed makes the same events [7]")
    parser.add_argument("--bootstrap", default=os.environ.get("MAINSTEM_BOOTSTRAP", "127.0.0.1:9092"))
    given = parser.parse_args()
    sent = generate(given.name, given.bootstrap, given.count, given.seed, datetime.now(UTC))
    print(f"{given.name}: {sent:,} events sent")


if __name__ == "__main__":
    main()
