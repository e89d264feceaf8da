"""Committed offsets and what admins do with groups, with clients and by hand."""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from group_kit import CLASSIC, Member
from kafka_kit import PATIENCE_S, Wire, create_topic, publish, take, until

from mainstem.testing.broker import Broker
from mainstem.wire.kafka.group_admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from mainstem.wire.kafka.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from mainstem.wire.kafka.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from mainstem.wire.kafka.topics import DeleteTopicsRequest, DeleteTopicState

UNKNOWN_TOPIC, METADATA_TOO_LARGE, WRONG_GENERATION, INCONSISTENT, UNKNOWN_MEMBER = 3, 12, 22, 23, 25
BAD_SESSION, REBALANCING, NOT_EMPTY, NOT_FOUND, FENCED_INSTANCE, SUBSCRIBED, UNKNOWN_ID = (
    26,
    27,
    68,
    69,
    82,
    86,
    100,
)


def commit(wire: Wire, group: str, topic: str, offset: int, **more: Any) -> int:
    version = more.pop("version", 9)
    partition = OffsetCommitRequestPartition(
        partition_index=more.pop("partition", 0),
        committed_offset=offset,
        committed_metadata=more.pop("metadata", ""),
    )
    named = OffsetCommitRequestTopic(
        name=topic, topic_id=more.pop("topic_id", bytes(16)), partitions=[partition]
    )
    asked = OffsetCommitRequest(group_id=group, topics=[named], **more)
    return wire.ask(asked, version).topics[0].partitions[0].error_code


def fetch(wire: Wire, group: str, topic: str, version: int = 9) -> tuple[int, str | None, int]:
    if version < 8:
        named = OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
        found = wire.ask(OffsetFetchRequest(group_id=group, topics=[named]), version).topics[0].partitions[0]
    else:
        topic_id = wire.topic_id(topic) if version >= 10 else bytes(16)
        asked = OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[0])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[asked])])
        found = wire.ask(request, version).groups[0].topics[0].partitions[0]
    return found.committed_offset, found.metadata, found.error_code


# --- with clients --------------------------------------------------------------------------------


def test_a_reader_goes_on_where_its_group_committed_and_lag_is_what_is_left(address, topic, group):
    create_topic(address, topic)
    publish(address, topic, [str(number) for number in range(10)])
    settings = {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"}
    settings |= {"enable.auto.commit": False, "fetch.wait.max.ms": 20}
    with Consumer(settings) as consumer:
        consumer.subscribe([topic])
        messages = take([consumer], 4)
        consumer.commit(messages[-1], asynchronous=False)
    with Consumer(settings) as consumer:
        (at,) = consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE_S)
        assert end - at.offset == 6
        consumer.subscribe([topic])
        assert take([consumer], 1)[0].value() == b"4"


@pytest.mark.parametrize(("reset", "first"), [("earliest", b"old"), ("latest", b"new")])
def test_a_group_without_offsets_starts_where_it_is_told(address, topic, group, reset, first):
    create_topic(address, topic)
    publish(address, topic, ["old"])
    member = Member(address, group, topic, {**CLASSIC, "auto.offset.reset": reset})
    until(member.poll, "its assignment")

    def sees_a_record() -> list[str]:
        # It looks up the end some time after it was assigned, so one record may come too early.
        publish(address, topic, ["new"])
        member.poll()
        return member.seen

    until(sees_a_record)
    assert member.seen[0].encode() == first
    member.consumer.close()


def test_admins_move_list_describe_and_delete_groups_and_offsets(address, topic, group):
    create_topic(address, topic, 2)
    admin = AdminClient({"bootstrap.servers": address})
    wanted = [TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 7)]

    def ask(futures: dict[str, Any]) -> Any:
        return next(iter(futures.values())).result(PATIENCE_S)

    ask(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]))
    found = ask(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
    assert sorted((one.partition, one.offset) for one in found.topic_partitions) == [(0, 5), (1, 7)]
    described = ask(admin.describe_consumer_groups([group]))
    assert (described.state, described.members) == (ConsumerGroupState.EMPTY, [])
    assert group in [one.group_id for one in admin.list_consumer_groups().result(PATIENCE_S).valid]

    member = Member(address, group, topic, {**CLASSIC, "client.id": "me"})
    until(member.poll, "its assignment")
    described = ask(admin.describe_consumer_groups([group]))
    assert described.state is ConsumerGroupState.STABLE
    (seen,) = described.members
    assert (seen.client_id, len(seen.assignment.topic_partitions)) == ("me", 2)
    with pytest.raises(Exception, match="NON_EMPTY_GROUP"):
        ask(admin.delete_consumer_groups([group]))
    refused = ask(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]))
    assert {one.error.name() for one in refused.topic_partitions} == {"UNKNOWN_MEMBER_ID"}
    member.consumer.close()

    ask(admin.delete_consumer_groups([group]))
    assert group not in [one.group_id for one in admin.list_consumer_groups().result(PATIENCE_S).valid]
    with pytest.raises(Exception, match="GROUP_ID_NOT_FOUND"):
        ask(admin.delete_consumer_groups([group]))


def test_an_asyncio_client_commits_with_notes_and_reads_them_back(address, topic, group):
    create_topic(address, topic)

    async def run() -> tuple[int | None, str | None]:
        at = AioTopicPartition(topic, 0)
        consumer = AIOKafkaConsumer(bootstrap_servers=address, group_id=group, enable_auto_commit=False)
        async with consumer:
            consumer.assign([at])
            await consumer.commit({at: (3, "a note")})
            return await consumer.committed(at), None

    assert asyncio.run(run())[0] == 3
    with Wire(address) as wire:
        assert fetch(wire, group, topic) == (3, "a note", 0)


# --- by hand -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 5, 7, 8, 9, 10])
def test_offsets_come_back_as_committed_in_every_version(address, wire, topic, group, version):
    create_topic(address, topic)
    topic_id = wire.topic_id(topic)
    assert commit(wire, group, topic, 42, metadata="note", version=version, topic_id=topic_id) == 0
    for fetched_in in (1, 5, 7, 8, 9, 10):
        assert fetch(wire, group, topic, fetched_in) == (42, "note", 0)
    everything = wire.ask(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]), 9
    )
    (found,) = everything.groups[0].topics
    assert (found.name, [one.committed_offset for one in found.partitions]) == (topic, [42])


def test_what_cannot_be_committed_is_refused_partition_by_partition(address, wire, topic, group):
    create_topic(address, topic)
    assert commit(wire, group, topic, 1, partition=1) == UNKNOWN_TOPIC
    assert commit(wire, group, topic + "-missing", 1) == UNKNOWN_TOPIC
    assert commit(wire, group, topic, 1, version=10, topic_id=b"x" * 16) == UNKNOWN_ID
    assert commit(wire, group, topic, 1, metadata="x" * 5000) == METADATA_TOO_LARGE
    assert commit(wire, group, topic, 1, generation_id_or_member_epoch=3, member_id="ghost") == UNKNOWN_MEMBER
    assert fetch(wire, group, topic) == (-1, "", 0)


def test_a_deleted_topic_takes_its_offsets_along(address, wire, topic, group):
    create_topic(address, topic)
    assert commit(wire, group, topic, 5) == 0
    asked = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000)
    assert wire.ask(asked, 6).responses[0].error_code == 0
    create_topic(address, topic)
    assert fetch(wire, group, topic) == (-1, "", 0)
    assert wire.ask(DescribeGroupsRequest(groups=[group]), 6).groups[0].error_code == NOT_FOUND


def stable_member(wire: Wire, group: str, **more: Any) -> tuple[str, int]:
    joined = wire.join(group, **more)
    assert joined.error_code == 0
    asked = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")],
    )
    synced = wire.ask(asked, 3)
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    return joined.member_id, joined.generation_id


def test_a_live_group_refuses_strangers_old_generations_and_its_own_deletion(address, wire, topic, group):
    create_topic(address, topic)
    member, generation = stable_member(wire, group)
    asked = {"member_id": member, "generation_id_or_member_epoch": generation}
    assert commit(wire, group, topic, 1) == UNKNOWN_MEMBER
    assert (
        commit(wire, group, topic, 1, member_id=member, generation_id_or_member_epoch=9) == WRONG_GENERATION
    )
    assert commit(wire, group, topic, 1, **asked, group_instance_id="other") == UNKNOWN_MEMBER
    assert commit(wire, group, topic, 1, **asked) == 0
    assert (
        wire.ask(DeleteGroupsRequest(groups_names=[group, group + "-x"])).results[0].error_code == NOT_EMPTY
    )
    assert wire.ask(DeleteGroupsRequest(groups_names=[group + "-x"])).results[0].error_code == NOT_FOUND
    assert wire.join(group, protocols={"other": b""}).error_code == INCONSISTENT
    assert wire.join(group, session_timeout_ms=1).error_code == BAD_SESSION

    def heartbeat(generation: int) -> int:
        return wire.ask(
            HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
        ).error_code

    assert [heartbeat(generation), heartbeat(generation + 1)] == [0, WRONG_GENERATION]
    with Wire(address) as second:
        second.send(_join_of(second, group))
        assert until(lambda: heartbeat(generation) == REBALANCING)


def _join_of(wire: Wire, group: str) -> Any:
    from kafka_kit import join_request

    needs_id = wire.ask(join_request(group), 9)
    assert needs_id.error_code == 79
    return join_request(group, needs_id.member_id)


def test_a_group_that_reads_a_topic_keeps_its_offsets(address, wire, topic, group):
    create_topic(address, topic)
    other = create_topic(address, topic + "-other")
    member = Member(address, group, topic, CLASSIC)
    until(member.poll, "its assignment")
    member.consumer.commit(
        offsets=[TopicPartition(topic, 0, 1), TopicPartition(other, 0, 2)], asynchronous=False
    )

    def delete(name: str) -> int:
        named = OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
        )
        answer = wire.ask(OffsetDeleteRequest(group_id=group, topics=[named]))
        return answer.error_code or answer.topics[0].partitions[0].error_code

    assert [delete(topic), delete(other), delete(topic + "-missing")] == [SUBSCRIBED, 0, UNKNOWN_TOPIC]
    assert fetch(wire, group, topic) == (1, "", 0)
    assert fetch(wire, group, other) == (-1, "", 0)
    member.consumer.close()
    assert delete(topic) == 0
    named = OffsetDeleteRequest(group_id=group + "-x", topics=[])
    assert wire.ask(named).error_code == NOT_FOUND


def test_a_group_that_is_not_there_is_dead_or_not_found_by_version(wire, group):
    (old,) = wire.ask(DescribeGroupsRequest(groups=[group]), 5).groups
    (new,) = wire.ask(DescribeGroupsRequest(groups=[group]), 6).groups
    assert (old.error_code, old.group_state) == (0, "Dead")
    assert new.error_code == NOT_FOUND


def test_groups_are_listed_by_state_and_type(address, wire, topic, group):
    create_topic(address, topic)
    assert commit(wire, group, topic, 1) == 0
    stable_member(wire, group + "-live")

    def listed(**filters: Any) -> set[str]:
        found = {one.group_id for one in wire.ask(ListGroupsRequest(**filters)).groups}
        return found & {group, group + "-live"}

    assert listed() == {group, group + "-live"}
    assert listed(states_filter=["empty"]) == {group}
    assert listed(states_filter=["Stable"], types_filter=["classic"]) == {group + "-live"}
    assert listed(types_filter=["consumer"]) == set()
    (seen,) = wire.ask(
        DescribeGroupsRequest(groups=[group + "-live"], include_authorized_operations=True), 6
    ).groups
    assert seen.authorized_operations & 1 << 3


def test_one_broker_coordinates_groups_and_transactions(address, wire):
    host, _, port = address.rpartition(":")
    for kind in (0, 1):
        many = wire.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["a", "b"]), 6).coordinators
        assert [(one.key, one.host, one.port, one.error_code) for one in many] == [
            (key, host, int(port), 0) for key in ("a", "b")
        ]
        one = wire.ask(FindCoordinatorRequest(key="a", key_type=kind), 2)
        assert (one.host, one.port, one.error_code) == (host, int(port), 0)
    assert (
        wire.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=["a"]), 6).coordinators[0].error_code
        == 42
    )


# --- the broker's end ----------------------------------------------------------------------------


def test_offsets_survive_the_broker_and_waiting_members_are_told_when_it_stops(
    own_broker: Broker, topic, group
):
    create_topic(own_broker.kafka, topic)
    with Wire(own_broker.kafka) as wire, Wire(own_broker.kafka) as second:
        member, generation = stable_member(wire, group)
        asked = {"member_id": member, "generation_id_or_member_epoch": generation}
        assert commit(wire, group, topic, 11, **asked) == 0
        second.send(_join_of(second, group))
        until(
            lambda: (
                wire.ask(
                    HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
                ).error_code
                == REBALANCING
            )
        )
        own_broker.stop()
        assert second.receive().error_code == 15
    own_broker.kill()
    own_broker.restart()
    with Wire(own_broker.kafka) as wire:
        assert fetch(wire, group, topic) == (11, "", 0)
        assert commit(wire, group, topic, 12, **asked) == UNKNOWN_MEMBER
        assert commit(wire, group, topic, 12) == 0


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, INCONSISTENT),
        ({"protocol_type": "consumer"}, INCONSISTENT),
        ({"protocol_name": "range"}, INCONSISTENT),
        ({"protocol_type": "consumer", "protocol_name": "range"}, 0),
    ],
    ids=str,
)
def test_a_sync_must_name_the_groups_protocol_from_version_5_on(wire, group, given, code):
    joined = wire.join(group)
    asked = SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, **given
    )
    assert wire.ask(asked, 5).error_code == code
