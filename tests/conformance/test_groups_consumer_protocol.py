"""Groups whose assignment the broker makes: with a real client, and heartbeat by heartbeat."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from group_kit import CLASSIC, PARTITIONS, Crowd, Member, Stranger
from kafka_kit import PATIENCE_S, Wire, create_topic, new_name, publish, until
from raw_kafka import Raw

from mainstem.testing.broker import Broker
from mainstem.wire.kafka.apis import ApiKey
from mainstem.wire.kafka.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from mainstem.wire.kafka.group_admin import DescribeGroupsRequest
from mainstem.wire.kafka.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

UNKNOWN_MEMBER, INVALID, NOT_FOUND, GROUP_MAX_SIZE_REACHED, FENCED_INSTANCE = 25, 42, 69, 81, 82
FENCED_EPOCH, UNRELEASED, UNSUPPORTED_ASSIGNOR, STALE_EPOCH, INVALID_PATTERN = 110, 111, 112, 113, 128
NEWER = {"group.protocol": "consumer"}


@pytest.fixture
def crowd(address: str, group: str, topic: str) -> Iterator[Callable[..., Crowd]]:
    made: list[Crowd] = []

    def make(**settings: Any) -> Crowd:
        create_topic(address, topic, PARTITIONS)
        named = {key.replace("_", "."): value for key, value in settings.items()}
        made.append(Crowd(address, group, topic, {**NEWER, **named}))
        return made[-1]

    yield make
    for one in made:
        one.close()


# --- with a client -------------------------------------------------------------------------------


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_partitions_move_one_by_one_when_members_come_and_go(crowd, assignor):
    group = crowd(group_remote_assignor=assignor)
    first = group.join()
    group.settle(6)
    group.join()
    group.settle(3, 3)
    assert len(first.gave_up) == 3
    group.join()
    group.settle(2, 2, 2)
    group.leave(first)
    group.settle(3, 3)


def test_the_share_of_a_member_that_crashed_is_taken_over(crowd, address, group, topic):
    local = crowd()
    local.join()
    local.settle(6)
    with Stranger(address, group, topic, NEWER) as stranger:
        until(lambda: len(local.members[0].poll()) == 3, "the stranger to take its share")
        stranger.wait_for_a_share(local)
        stranger.kill()
        local.settle(6)


def test_a_static_member_that_comes_back_gets_what_it_had_and_disturbs_nobody(crowd):
    group = crowd()
    stays, returns = group.join(group_instance_id="stays"), group.join(group_instance_id="returns")
    group.settle(3, 3)
    before, had = stays.assigned_times, returns.poll()
    group.leave(returns)
    again = group.join(group_instance_id="returns")
    until(lambda: [member.poll() for member in group.members] and again.poll() == had, "its old share")
    assert stays.assigned_times == before


def test_members_learn_of_topics_and_partitions_that_come_later(address, group):
    prefix = new_name("later")
    member = Member(address, group, f"^{prefix}.*", NEWER)
    create_topic(address, prefix + "-a", 1)
    until(lambda: member.poll() == {0}, "the first topic")
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_partitions([NewPartitions(prefix + "-a", 3)])[prefix + "-a"].result(PATIENCE_S)
    until(lambda: member.poll() == {0, 1, 2}, "more partitions")
    admin.delete_topics([prefix + "-a"])[prefix + "-a"].result(PATIENCE_S)
    until(lambda: not member.poll(), "the topic to go")
    member.consumer.close()


def test_offsets_are_taken_over_and_the_group_can_be_described(crowd, address, group, topic):
    local = crowd(client_id="me")
    first = local.join()
    local.settle(6)
    publish(address, topic, [str(number) for number in range(12)], PARTITIONS)
    until(lambda: first.poll() and len(first.seen) == 12, "all of them")
    first.consumer.commit(asynchronous=False)
    second = local.join()
    local.settle(3, 3)
    admin = AdminClient({"bootstrap.servers": address})
    described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
    assert (described.state, described.type) == (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER)
    assert sorted(len(one.assignment.topic_partitions) for one in described.members) == [3, 3]
    publish(address, topic, [str(number) for number in range(12, 24)], PARTITIONS)
    until(lambda: first.poll() and second.poll() and len(first.seen) + len(second.seen) >= 24, "the rest")
    assert sorted(first.seen + second.seen, key=int) == [str(number) for number in range(24)]


def test_a_group_of_one_protocol_can_be_used_by_the_other_once_it_is_empty(address, group, topic):
    create_topic(address, topic)
    publish(address, topic, ["0", "1", "2"])
    for number, settings in enumerate((CLASSIC, NEWER, CLASSIC)):
        member = Member(address, group, topic, dict(settings))
        until(lambda member=member: member.poll() and member.seen, "a record")
        assert member.seen == [str(number)]
        member.consumer.commit(asynchronous=False)
        member.consumer.close()
        if number < 2:
            publish(address, topic, [str(number + 3)])
            _seek(address, group, topic, number + 1)


def _seek(address: str, group: str, topic: str, offset: int) -> None:
    with Wire(address) as wire:
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        named = OffsetCommitRequestTopic(name=topic, partitions=[partition])
        asked = OffsetCommitRequest(group_id=group, topics=[named])
        until(lambda: wire.ask(asked, 9).topics[0].partitions[0].error_code == 0, "the group to be empty")


def test_members_go_on_after_the_broker_was_killed(own_broker: Broker, topic, group):
    create_topic(own_broker.kafka, topic, PARTITIONS)
    crowd = Crowd(own_broker.kafka, group, topic, {**NEWER, "reconnect.backoff.max.ms": 200})
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
    assert sorted(first.seen + second.seen, key=int)[:12] == [str(number) for number in range(12)]
    crowd.close()


@pytest.mark.parametrize("transactional", [False, True])
def test_an_empty_group_keeps_its_protocol_over_a_restart(own_broker, transactional):
    topic, group = new_name("topic"), new_name("group")
    create_topic(own_broker.kafka, topic, 1)
    consumer = Consumer({"bootstrap.servers": own_broker.kafka, "group.id": group, **NEWER})
    consumer.subscribe([topic])
    until(lambda: consumer.poll(0.1) is None and consumer.assignment(), "its partition")
    offsets = [TopicPartition(topic, 0, 0)]
    if transactional:
        producer = Producer({"bootstrap.servers": own_broker.kafka, "transactional.id": group})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        producer.commit_transaction(30)
    else:
        consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    own_broker.kill()
    own_broker.restart()
    admin = AdminClient({"bootstrap.servers": own_broker.kafka})
    described = admin.describe_consumer_groups([group])[group].result(30)
    assert (described.type, described.state) == (ConsumerGroupType.CONSUMER, ConsumerGroupState.EMPTY)
    listed = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result(30)
    assert [(one.group_id, one.state) for one in listed.valid] == [(group, ConsumerGroupState.EMPTY)]


# --- by hand -------------------------------------------------------------------------------------


def beat(wire: Wire, group: str, member: str, epoch: int, **more: Any) -> Any:
    if epoch == 0:
        more = {"rebalance_timeout_ms": 5000, "topic_partitions": [], **more}
        if "subscribed_topic_regex" not in more:
            more.setdefault("subscribed_topic_names", [])
    version = more.pop("version", 1)
    asked = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **more)
    return wire.ask(asked, version)


def test_a_member_is_walked_to_its_share_heartbeat_by_heartbeat(address, wire, group, topic):
    create_topic(address, topic, 2)
    topic_id = wire.topic_id(topic)
    joined = beat(wire, group, "a", 0, subscribed_topic_names=[topic])
    assert (joined.error_code, joined.member_id, joined.member_epoch) == (0, "a", 1)
    both = [TopicPartitions(topic_id=topic_id, partitions=[0, 1])]
    assert joined.assignment.topic_partitions == both
    assert beat(wire, group, "a", 1, topic_partitions=both).assignment is None
    waits = beat(wire, group, "b", 0, subscribed_topic_names=[topic])
    assert waits.assignment.topic_partitions == []
    (kept,) = beat(wire, group, "a", 1).assignment.topic_partitions
    assert len(kept.partitions) == 1
    caught_up = beat(wire, group, "a", 1, topic_partitions=[kept])
    assert (caught_up.error_code, caught_up.member_epoch) == (0, 2)
    (got,) = beat(wire, group, "b", 2).assignment.topic_partitions
    assert sorted(got.partitions + kept.partitions) == [0, 1]
    (seen,) = wire.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups
    assert {one.member_id for one in seen.members} == {"a", "b"}
    assert {one.assignment.topic_partitions[0].topic_name for one in seen.members} == {topic}
    assert [beat(wire, group, name, -1).member_epoch for name in ("a", "b")] == [-1, -1]


def test_what_a_heartbeat_must_not_say_is_refused_by_name(address, wire, group, topic):
    create_topic(address, topic)
    assert beat(wire, group, "a", 5).error_code == UNKNOWN_MEMBER
    assert beat(wire, group, "", 0).error_code == INVALID
    assert beat(wire, group, "", 0, version=0).member_id, "version 0 is given an id"
    assert beat(wire, "", "a", 0).error_code == 24
    assert beat(wire, group, "a", 0, server_assignor="none such").error_code == UNSUPPORTED_ASSIGNOR
    assert beat(wire, group, "a", 0, subscribed_topic_regex="(").error_code == INVALID_PATTERN
    joined = beat(wire, group, "a", 0, subscribed_topic_names=[topic], instance_id="i")
    assert joined.error_code == 0
    assert beat(wire, group, "a", joined.member_epoch + 5).error_code == FENCED_EPOCH
    assert beat(wire, group, "b", 0, instance_id="i").error_code == UNRELEASED
    assert beat(wire, group, "b", 1, instance_id="i").error_code == FENCED_INSTANCE


def test_each_protocol_says_so_when_a_group_is_of_the_other(address, wire, group, topic):
    create_topic(address, topic)
    epoch = beat(wire, group, "a", 0, subscribed_topic_names=[topic]).member_epoch
    assert wire.join(group).error_code == 23
    assert wire.ask(DescribeGroupsRequest(groups=[group]), 6).groups[0].error_code == NOT_FOUND
    missing = wire.ask(ConsumerGroupDescribeRequest(group_ids=[group + "-x"])).groups[0]
    assert missing.error_code == NOT_FOUND

    def commit(epoch: int) -> int:
        at = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        named = OffsetCommitRequestTopic(topic_id=wire.topic_id(topic), partitions=[at])
        asked = OffsetCommitRequest(
            group_id=group, member_id="a", generation_id_or_member_epoch=epoch, topics=[named]
        )
        return wire.ask(asked, 10).topics[0].partitions[0].error_code

    assert [commit(epoch + 1), commit(epoch)] == [STALE_EPOCH, 0]
    classic = new_name("group")
    assert wire.join(classic).error_code == 0
    assert beat(wire, classic, "a", 0).error_code == NOT_FOUND


@pytest.mark.parametrize(("key", "kind"), [("CONSUMER", "consumer"), ("SHARE", "share")])
def test_a_refusal_for_want_of_room_is_in_the_brokers_log_with_the_setting(caplog, key, kind):
    """Clients give up with a number: nobody else would learn which limit it was."""
    with Broker({"groups.max_subscription_bytes": "1 MiB"}) as broker:
        create_topic(broker.kafka, "wide", 8000)
        with Raw(broker.kafka) as raw:
            who = {"group_id": "g", "member_id": "m", "member_epoch": 0, "subscribed_topic_names": ["wide"]}
            if kind == "consumer":
                who |= {"rebalance_timeout_ms": 5000, "topic_partitions": []}
            answer = raw.ask(ApiKey[f"{key}_GROUP_HEARTBEAT"], 1, **who)
            assert answer.error_code == GROUP_MAX_SIZE_REACHED

            def told():
                return [one.facts for one in caplog.records if "takes nobody in" in one.getMessage()]

            until(told, "a line in the log")
            assert told()[0]["group"] == "g"
            assert "groups.max_subscription_bytes is 1048576" in told()[0]["why"]
