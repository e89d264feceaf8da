"""Classic groups with real clients: who reads what when members come, go, crash and come back."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from group_kit import CLASSIC, PARTITIONS, Crowd, Stranger
from kafka import KafkaConsumer
from kafka_kit import create_topic, publish, until

from mainstem.testing.broker import Broker


@pytest.fixture
def crowd(address: str, group: str, topic: str) -> Iterator[Callable[..., Crowd]]:
    made: list[Crowd] = []

    def make(**settings: Any) -> Crowd:
        create_topic(address, topic, PARTITIONS)
        named = {key.replace("_", "."): value for key, value in settings.items()}
        made.append(Crowd(address, group, topic, {**CLASSIC, **named}))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_partitions_are_shared_anew_when_members_come_and_go(crowd, strategy):
    group = crowd(partition_assignment_strategy=strategy)
    first = group.join()
    group.settle(6)
    group.join()
    group.settle(3, 3)
    group.join()
    group.settle(2, 2, 2)
    group.leave(first)
    group.settle(3, 3)


def test_cooperative_members_keep_what_stays_theirs(crowd):
    group = crowd(partition_assignment_strategy="cooperative-sticky")
    first = group.join()
    group.settle(6)
    group.join()
    group.settle(3, 3)
    assert len(first.gave_up) == 3


def test_the_partitions_of_a_crashed_member_go_to_the_others_when_its_session_ends(
    crowd, address, group, topic
):
    local = crowd(session_timeout_ms=1000)
    local.join()
    local.settle(6)
    with Stranger(address, group, topic, {**CLASSIC, "session.timeout.ms": 1000}) as stranger:
        until(lambda: len(local.members[0].poll()) == 3, "the stranger to take its share")
        stranger.wait_for_a_share(local)
        stranger.kill()
        local.settle(6)


def test_a_static_member_that_comes_back_in_time_disturbs_nobody(crowd):
    group = crowd(session_timeout_ms=30_000)
    stays = group.join(group_instance_id="stays")
    returns = group.join(group_instance_id="returns")
    group.settle(3, 3)
    before, had = stays.assigned_times, returns.poll()
    group.leave(returns)  # static members do not say that they leave
    again = group.join(group_instance_id="returns")
    until(lambda: [member.poll() for member in group.members] and again.poll() == had, "its old share")
    assert stays.assigned_times == before


def test_two_owners_of_one_instance_id_cannot_both_go_on(crowd):
    group = crowd()
    first = group.join(group_instance_id="only")
    group.settle(6)
    second = group.join(group_instance_id="only")
    until(lambda: len(second.poll()) == 6, "the newer one to own everything")
    group.members.remove(first)

    def fenced() -> bool:
        message = first.consumer.poll(0.05)
        return message is not None and message.error() is not None and "fenced" in message.error().str()

    until(fenced, "the older one to be told")
    first.consumer.close()


def test_every_record_is_seen_by_one_member_and_offsets_are_taken_over(crowd, address, topic):
    group = crowd(partition_assignment_strategy="range")
    first = group.join()
    group.settle(6)
    values = [str(number) for number in range(60)]
    publish(address, topic, values, PARTITIONS)
    until(lambda: first.poll() and len(first.seen) == 60, "all of them")
    first.consumer.commit(asynchronous=False)
    second = group.join()
    group.settle(3, 3)
    more = [str(number) for number in range(60, 120)]
    publish(address, topic, more, PARTITIONS)
    until(lambda: first.poll() and second.poll() and len(first.seen) + len(second.seen) >= 120, "the rest")
    assert sorted(first.seen + second.seen) == sorted(values + more)


def test_asyncio_members_share_and_go_on_where_they_committed(address, topic, group):
    create_topic(address, topic, 2)
    publish(address, topic, ["0", "1", "2", "3"], 2)

    def consumer() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6000,
            heartbeat_interval_ms=100,
            metadata_max_age_ms=500,
        )

    async def shares(*members: AIOKafkaConsumer) -> None:
        while sorted(len(one.assignment()) for one in members) != [1] * len(members):
            await asyncio.wait([asyncio.ensure_future(one.getmany(timeout_ms=50)) for one in members])

    async def run() -> list[bytes]:
        async with consumer() as first:
            seen = [(await first.getone()).value for _ in range(4)]
            await first.commit()
            async with consumer() as second:
                await asyncio.wait_for(shares(first, second), 30)
                publish(address, topic, ["4", "5"], 2)
                seen += [(await one.getone()).value for one in (first, second)]
                return seen

    assert sorted(asyncio.run(run())) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_members_of_another_library_share_a_topic(address, topic, group):
    create_topic(address, topic, 2)
    stop = threading.Event()
    held: dict[int, int] = {}
    seen: list[bytes] = []

    def run(number: int) -> None:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
            heartbeat_interval_ms=100,
            fetch_max_wait_ms=20,
            metadata_max_age_ms=300,  # it may lead before it knows the topic, and then looks again
        )
        while not stop.is_set():
            # Not shorter: a poll that ends just when the client is assigned its share loses the share.
            for records in consumer.poll(1000).values():
                seen.extend(record.value for record in records)
            held[number] = len(consumer.assignment())
        consumer.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: held == {0: 1, 1: 1}, "one partition each")
        publish(address, topic, ["a", "b"], 2)
        until(lambda: sorted(seen) == [b"a", b"b"], "both records")
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_members_go_on_after_the_broker_was_killed(own_broker: Broker, topic, group):
    create_topic(own_broker.kafka, topic, PARTITIONS)
    crowd = Crowd(own_broker.kafka, group, topic, {**CLASSIC, "reconnect.backoff.max.ms": 200})
    first, second = crowd.join(), crowd.join()
    crowd.settle(3, 3)
    publish(own_broker.kafka, topic, [str(number) for number in range(12)], PARTITIONS)
    until(lambda: first.poll() and second.poll() and len(first.seen) + len(second.seen) == 12, "the first")
    first.consumer.commit(asynchronous=False)
    second.consumer.commit(asynchronous=False)
    own_broker.kill()
    own_broker.restart()
    publish(own_broker.kafka, topic, [str(number) for number in range(12, 24)], PARTITIONS)

    def all_seen() -> bool:
        for member in crowd.members:
            member.poll()
        return len(set(first.seen) | set(second.seen)) == 24

    until(all_seen, "what came after the restart")
    crowd.settle(3, 3)
    # What was committed before is not read again; what was read just before the new start may be.
    assert sorted(first.seen + second.seen, key=int)[:12] == [str(number) for number in range(12)]
    crowd.close()
