"""Members of groups, polled together until everybody has a share."""

from __future__ import annotations

import select
import subprocess
import sys
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from kafka_kit import until

PARTITIONS = 6
CLASSIC = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 100}


class Member:
    """A consumer of one topic, with what its callbacks told."""

    def __init__(self, address: str, group: str, topic: str, settings: dict[str, Any]) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 200,
                "fetch.wait.max.ms": 20,
                "enable.auto.commit": False,
                **settings,
            }
        )
        self.assigned_times = 0
        self.gave_up: set[int] = set()
        self.seen: list[str] = []
        self.consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned_times += 1

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.gave_up |= {one.partition for one in partitions}

    def poll(self) -> set[int]:
        """Take what is there; the partitions it reads now."""
        message = self.consumer.poll(0.01)
        if message is not None and message.error() is None:
            self.seen.append(message.value().decode())
        return {one.partition for one in self.consumer.assignment()}


class Crowd:
    """The members of a group that live in this process."""

    def __init__(self, address: str, group: str, topic: str, settings: dict[str, Any]) -> None:
        self._where = (address, group, topic)
        self._settings = settings
        self.members: list[Member] = []

    def join(self, **settings: Any) -> Member:
        named = {key.replace("_", "."): value for key, value in settings.items()}
        self.members.append(Member(*self._where, {**self._settings, **named}))
        return self.members[-1]

    def settle(self, *sizes: int, partitions: int = PARTITIONS) -> None:
        """Until every partition has one reader among them, and they have so many each."""

        def settled() -> bool:
            held = [member.poll() for member in self.members]
            together = sorted(partition for some in held for partition in some)
            return together == list(range(partitions)) and sorted(map(len, held)) == sorted(sizes)

        until(settled, f"shares of {sizes}")

    def leave(self, member: Member) -> None:
        self.members.remove(member)
        member.consumer.close()

    def close(self) -> None:
        for member in self.members:
            member.consumer.close()


_STRANGER = """
import sys
from confluent_kafka import Consumer
address, group, topic, *pairs = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": address, "group.id": group, **dict(p.split("=") for p in pairs)})
consumer.subscribe([topic])
while True:
    consumer.poll(0.05)
    if consumer.assignment():
        print("has a share", flush=True)
"""


class Stranger:
    """A member in a process of its own, which can be killed as a crash does it."""

    def __init__(self, address: str, group: str, topic: str, settings: dict[str, Any]) -> None:
        pairs = [f"{key}={value}" for key, value in settings.items()]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _STRANGER, address, group, topic, *pairs], stdout=subprocess.PIPE
        )

    def __enter__(self) -> Stranger:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def wait_for_a_share(self, others: Crowd) -> None:
        """The others go on polling: who does not poll does not give up what the stranger is to have."""
        told = self._process.stdout
        assert told is not None

        def has_one() -> bool:
            for member in others.members:
                member.poll()
            return bool(select.select([told], [], [], 0)[0])

        until(has_one, "the stranger to have a share")
        assert told.readline() == b"has a share\n"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
