"""Share groups, request by request."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka_kit import Wire, batch, create_topic, until
from share_kit import ACCEPT, GAP, REJECT, RELEASE, RENEW, Sharer, configure

from mainstem.testing.broker import Broker
from mainstem.wire.kafka.api_versions import ApiVersionsRequest
from mainstem.wire.kafka.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ListConfigResourcesRequest,
)
from mainstem.wire.kafka.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from mainstem.wire.kafka.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from mainstem.wire.kafka.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mainstem.wire.kafka.groups import FindCoordinatorRequest
from mainstem.wire.kafka.share_groups import ShareGroupDescribeRequest
from mainstem.wire.kafka.share_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from mainstem.wire.kafka.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
)

OUT_OF_RANGE, UNKNOWN_TOPIC, INCONSISTENT, UNKNOWN_MEMBER, INVALID_CONFIG, INVALID = 1, 3, 23, 25, 40, 42
NOT_EMPTY, NOT_FOUND, UNKNOWN_TOPIC_ID = 68, 69, 100
INVALID_RECORD_STATE, SESSION_NOT_FOUND, INVALID_SESSION_EPOCH = 121, 122, 123
LONG_WAIT_MS = 60_000


@pytest.fixture
def sharers(address: str, wire: Wire, group: str, topic: str) -> Iterator[Callable[..., Sharer]]:
    """Members of one group that reads one topic from its start."""
    create_topic(address, topic)
    configure(wire, group, share_auto_offset_reset="earliest")
    made: list[Sharer] = []

    def make() -> Sharer:
        made.append(Sharer(address, group, topic))
        made[-1].join()
        return made[-1]

    yield make
    for one in made:
        one.__exit__()


@pytest.fixture
def sharer(sharers: Callable[..., Sharer]) -> Sharer:
    return sharers()


# --- members -------------------------------------------------------------------------------------


def test_share_groups_are_offered_as_a_feature(wire):
    answer = wire.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
    assert ("share.version", 1) in [(one.name, one.max_version_level) for one in answer.finalized_features]


def test_a_member_is_told_its_partitions(sharer):
    answer = sharer.join()
    assert answer.member_id == sharer.member
    assert [(one.topic_id, one.partitions) for one in answer.assignment.topic_partitions] == [
        (sharer.topic_id, [0])
    ]
    assert sharer.beat(answer.member_epoch).assignment is None


def test_a_stranger_is_unknown_and_a_leaver_is_gone(sharer):
    assert sharer.beat(-1).member_epoch == -1
    assert sharer.beat(1).error_code == UNKNOWN_MEMBER


def test_a_group_of_another_kind_is_not_found(wire, address, topic, group):
    create_topic(address, topic)
    wire.join(group)
    with Sharer(address, group, topic) as sharer:
        assert sharer.beat(0, [topic]).error_code == NOT_FOUND
        assert sharer.ask_fetch().error_code == NOT_FOUND


def test_other_protocols_keep_away_from_a_share_group(wire, sharer):
    group = sharer.group
    assert wire.join(group).error_code == INCONSISTENT
    newer = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=[sharer.topic],
        topic_partitions=[],
    )
    assert wire.ask(newer).error_code == NOT_FOUND
    assert wire.ask(ConsumerGroupDescribeRequest(group_ids=[group])).groups[0].error_code == NOT_FOUND
    assert wire.ask(DescribeGroupsRequest(groups=[group])).groups[0].error_code == NOT_FOUND
    at = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    commit = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=sharer.topic, partitions=[at])]
    )
    assert wire.ask(commit, 9).topics[0].partitions[0].error_code == NOT_FOUND


def test_it_is_listed_described_and_deleted(wire, sharer):
    group = sharer.group

    def listed() -> list[tuple[str, str, str]]:
        groups = wire.ask(ListGroupsRequest(types_filter=["share"])).groups
        return [
            (one.group_state, one.group_type, one.protocol_type) for one in groups if one.group_id == group
        ]

    assert listed() == [("Stable", "share", "share")]
    (described,) = wire.ask(ShareGroupDescribeRequest(group_ids=[group])).groups
    (member,) = described.members
    assert (described.group_state, described.assignor_name) == ("Stable", "simple")
    assert (member.member_id, member.subscribed_topic_names) == (sharer.member, [sharer.topic])
    assert member.assignment.topic_partitions[0].topic_name == sharer.topic
    assert wire.ask(DeleteGroupsRequest(groups_names=[group])).results[0].error_code == NOT_EMPTY
    sharer.beat(-1)
    assert listed() == [("Empty", "share", "share")]
    assert wire.ask(DeleteGroupsRequest(groups_names=[group])).results[0].error_code == 0
    assert listed() == []
    assert wire.ask(ShareGroupDescribeRequest(group_ids=[group])).groups[0].error_code == NOT_FOUND


def test_the_coordinator_of_share_state_is_found_by_who_asks_as_brokers_do(wire, group):
    key = f"{group}:AAAAAAAAAAAAAAAAAAAAAA:0"
    found = wire.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key, "nonsense"]), 6)
    assert [one.error_code for one in found.coordinators] == [0, INVALID]


# --- sessions ------------------------------------------------------------------------------------


def test_a_session_is_opened_gone_on_with_and_closed(wire, sharer):
    wire.produce(sharer.topic, batch(["a", "b"]))
    assert sharer.acknowledge((0, 0, [ACCEPT]), epoch=3) == SESSION_NOT_FOUND
    assert sharer.acknowledge((0, 0, [ACCEPT]), epoch=0) == INVALID_SESSION_EPOCH
    assert sharer.ask_fetch(epoch=3).error_code == SESSION_NOT_FOUND
    assert sharer.fetch(max_records=1, share_acquire_mode=1) == [(0, "a", 1)]
    assert sharer.ask_fetch(epoch=7).error_code == INVALID_SESSION_EPOCH
    assert sharer.fetch() == [(1, "b", 1)]
    assert sharer.fetch() == []
    assert sharer.acknowledge((0, 1, [ACCEPT]), epoch=-1) == 0
    assert sharer.ask_fetch(epoch=1).error_code == SESSION_NOT_FOUND


def test_what_is_forgotten_is_not_read(wire, sharer):
    assert sharer.fetch() == []
    wire.produce(sharer.topic, batch(["a"]))
    assert sharer.fetch(forget=True) == []
    sharer.epoch = 0
    assert sharer.fetch() == [(0, "a", 1)]


def test_a_new_session_has_nothing_to_acknowledge(sharer):
    assert sharer.ask_fetch([(0, 0, [ACCEPT])], epoch=0).error_code == INVALID


def test_closing_a_session_gives_back_what_was_held(wire, sharers):
    first, second = sharers(), sharers()
    wire.produce(first.topic, batch(["a", "b"]))
    assert len(first.fetch()) == 2
    assert second.fetch() == []
    assert first.ask_fetch([(0, 0, [ACCEPT])], epoch=-1).error_code == 0
    assert second.fetch() == [(1, "b", 2)]


def test_a_member_whose_connection_goes_gives_back_what_it_held(wire, sharers):
    first, second = sharers(), sharers()
    wire.produce(first.topic, batch(["a"]))
    first.fetch()
    first.wire.__exit__()
    assert second.fetch(max_wait_ms=20_000) == [(0, "a", 2)]


def test_a_member_that_went_on_over_another_connection_keeps_what_it_holds(wire, address, sharers):
    first, second = sharers(), sharers()
    wire.produce(first.topic, batch(["a"]))
    first.fetch()
    older, first.wire = first.wire, Wire(address)
    first.fetch()
    older.__exit__()
    assert second.fetch(max_wait_ms=200) == []
    assert first.acknowledge((0, 0, [ACCEPT])) == 0


@pytest.mark.parametrize("by_ack", [True, False])
def test_a_member_that_left_may_still_close_its_session_with_what_it_has_to_say(wire, sharers, by_ack):
    first, second = sharers(), sharers()
    wire.produce(first.topic, batch(["a", "b"]))
    assert len(first.fetch()) == 2
    assert first.beat(-1).error_code == 0
    assert second.fetch() == []
    ack = (0, 0, [ACCEPT])
    code = first.acknowledge(ack, epoch=-1) if by_ack else first.ask_fetch([ack], epoch=-1).error_code
    assert code == 0
    assert second.fetch() == [(1, "b", 2)]
    assert first.acknowledge(epoch=-1) == SESSION_NOT_FOUND


def test_a_member_that_left_gives_back_what_it_held_when_its_connection_goes(wire, address, sharers):
    first, second = sharers(), sharers()
    wire.produce(first.topic, batch(["a"]))
    first.fetch()
    with Wire(address) as coordinator:  # clients have a connection of its own for this
        reading, first.wire = first.wire, coordinator
        first.beat(-1)
    assert second.fetch() == []
    reading.__exit__()
    assert second.fetch(max_wait_ms=20_000) == [(0, "a", 2)]


# --- records -------------------------------------------------------------------------------------


def test_each_record_goes_to_one_member(wire, sharers):
    first, second = sharers(), sharers()
    wire.produce(first.topic, batch([str(number) for number in range(10)]))
    some = first.fetch(max_records=4, share_acquire_mode=1)
    others = second.fetch()
    assert [one[0] for one in some + others] == list(range(10))


def test_records_of_one_batch_go_together_unless_the_number_is_a_limit(wire, sharer):
    wire.produce(sharer.topic, batch(["a", "b", "c"]))
    assert len(sharer.fetch(max_records=1, version=1)) == 3
    wire.produce(sharer.topic, batch(["d", "e"]))
    assert sharer.fetch(max_records=1, share_acquire_mode=1) == [(3, "d", 1)]


def test_accepted_and_rejected_records_never_come_again(wire, sharers):
    first, second = sharers(), sharers()
    wire.produce(first.topic, batch(["a", "b", "c", "d"]))
    first.fetch()
    assert first.acknowledge((0, 2, [ACCEPT, REJECT, RELEASE])) == 0
    assert second.fetch() == [(2, "c", 2)]
    assert first.acknowledge((3, 3, [GAP])) == 0
    assert second.acknowledge((2, 2, [ACCEPT])) == 0
    assert second.fetch() == []


def test_acknowledging_and_fetching_are_one_request(wire, sharer):
    wire.produce(sharer.topic, batch(["a", "b"]))
    sharer.fetch()
    answer = sharer.ask_fetch([(0, 0, [ACCEPT]), (1, 1, [RELEASE])], max_wait_ms=LONG_WAIT_MS)
    (partition,) = answer.responses[0].partitions
    assert (partition.acknowledge_error_code, partition.error_code) == (0, 0)
    assert [(one.first_offset, one.delivery_count) for one in partition.acquired_records] == [(1, 2)]
    assert answer.acquisition_lock_timeout_ms == 30_000


def test_a_record_delivered_five_times_in_vain_is_given_up(wire, sharer):
    wire.produce(sharer.topic, batch(["a"]))
    for delivery in range(1, 6):
        assert sharer.fetch() == [(0, "a", delivery)]
        assert sharer.acknowledge((0, 0, [RELEASE])) == 0
    assert sharer.fetch() == []


def test_what_a_member_does_not_hold_it_cannot_acknowledge(wire, sharers):
    first, second = sharers(), sharers()
    wire.produce(first.topic, batch(["a", "b"]))
    first.fetch()
    second.fetch()
    assert second.acknowledge((0, 0, [ACCEPT])) == INVALID_RECORD_STATE
    assert first.acknowledge((0, 5, [ACCEPT])) == INVALID_RECORD_STATE
    assert first.acknowledge((1, 1, [ACCEPT])) == 0
    assert first.acknowledge((1, 1, [ACCEPT])) == INVALID_RECORD_STATE
    assert first.acknowledge((0, 0, [ACCEPT])) == 0
    assert first.acknowledge((0, 1, [ACCEPT])) == 0  # long done with


@pytest.mark.parametrize(
    "acks",
    [
        [(1, 0, [ACCEPT])],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(0, 1, [])],
        [(0, 0, [9])],
        [(0, 0, [-1])],
        [(0, 0, [RENEW])],
        [(0, 1, [ACCEPT]), (1, 2, [ACCEPT])],
        [(2, 2, [ACCEPT]), (0, 0, [ACCEPT])],
        [(0, 2**63 - 1, [ACCEPT, ACCEPT])],
        [(0, 99_999, [ACCEPT] * 100_000)],
        [(number, number, [ACCEPT]) for number in range(20_000)],
    ],
)
def test_acknowledgements_without_sense_change_nothing(wire, sharer, acks):
    wire.produce(sharer.topic, batch(["a", "b", "c"]))
    sharer.fetch()
    assert sharer.acknowledge(*acks) == INVALID
    assert sharer.acknowledge((0, 2, [ACCEPT])) == 0


def test_a_record_comes_back_when_its_time_is_up(wire, sharers, group):
    configure(wire, group, share_record_lock_duration_ms=1000)
    first, second = sharers(), sharers()
    wire.produce(first.topic, batch(["a"]))
    assert first.fetch() == [(0, "a", 1)]
    assert second.fetch(max_wait_ms=LONG_WAIT_MS) == [(0, "a", 2)]
    assert first.acknowledge((0, 0, [ACCEPT])) == INVALID_RECORD_STATE


def test_more_time_can_be_had(wire, sharers, group):
    configure(wire, group, share_record_lock_duration_ms=1000)
    first, second = sharers(), sharers()
    wire.produce(first.topic, batch(["a", "b"]))
    first.fetch()
    configure(wire, group, share_record_lock_duration_ms=LONG_WAIT_MS)
    assert first.acknowledge((0, 0, [RENEW]), is_renew_ack=True) == 0
    assert second.fetch(max_wait_ms=LONG_WAIT_MS) == [(1, "b", 2)]
    assert first.acknowledge((0, 0, [ACCEPT])) == 0


def test_only_so_many_records_are_lent_at_a_time(wire, sharer, group):
    configure(wire, group, share_partition_max_record_locks=100)
    wire.produce(sharer.topic, batch([str(number) for number in range(150)]))
    assert len(sharer.fetch()) == 100
    assert sharer.fetch() == []
    assert len(sharer.fetch([(0, 59, [ACCEPT])])) == 50


# --- waiting -------------------------------------------------------------------------------------


def test_a_fetch_waits_for_what_is_published(wire, sharer):
    assert sharer.fetch() == []
    sharer.send_fetch(max_wait_ms=LONG_WAIT_MS)
    wire.produce(sharer.topic, batch(["a"]))
    assert [
        one.first_offset for one in sharer.receive_fetch().responses[0].partitions[0].acquired_records
    ] == [0]


def test_a_fetch_waits_for_what_others_release(wire, sharers):
    first, second = sharers(), sharers()
    wire.produce(first.topic, batch(["a"]))
    first.fetch()
    second.fetch()
    second.send_fetch(max_wait_ms=LONG_WAIT_MS)
    first.acknowledge((0, 0, [RELEASE]))
    (acquired,) = second.receive_fetch().responses[0].partitions[0].acquired_records
    assert (acquired.first_offset, acquired.delivery_count) == (0, 2)


def test_a_wait_ends_without_anything(sharer):
    assert sharer.fetch(max_wait_ms=50) == []


# --- where it begins -----------------------------------------------------------------------------


def test_a_group_reads_what_comes_after_it_unless_told_otherwise(wire, address, topic, group):
    create_topic(address, topic)
    wire.produce(topic, batch(["old"]))
    with Sharer(address, group, topic) as sharer:
        sharer.join()
        assert sharer.fetch() == []
        wire.produce(topic, batch(["new"]))
        assert sharer.fetch() == [(1, "new", 1)]


def test_a_group_can_begin_with_what_is_not_too_old(wire, address, topic, group):
    create_topic(address, topic)
    wire.produce(topic, batch(["a"]))
    configure(wire, group, share_auto_offset_reset="by_duration:P1DT1H")
    with Sharer(address, group, topic) as sharer:
        sharer.join()
        assert sharer.fetch() == [(0, "a", 1)]


def test_what_was_deleted_is_passed_over(wire, sharer):
    wire.produce(sharer.topic, batch(["a", "b", "c"]))
    sharer.fetch(max_records=1, share_acquire_mode=1)
    cut = DeleteRecordsTopic(
        name=sharer.topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=2)]
    )
    wire.ask(DeleteRecordsRequest(topics=[cut], timeout_ms=1000))
    assert sharer.fetch() == [(2, "c", 1)]
    assert sharer.acknowledge((0, 0, [ACCEPT])) == 0


def test_a_deleted_topic_is_unknown_and_its_successor_is_read_anew(wire, address, sharer):
    wire.produce(sharer.topic, batch(["a"]))
    sharer.fetch([])
    wire.ask(DeleteTopicsRequest(topic_names=[sharer.topic], timeout_ms=1000), 5)
    assert sharer.ask_fetch().responses[0].partitions[0].error_code == UNKNOWN_TOPIC_ID
    assert sharer.acknowledge((0, 0, [ACCEPT])) == UNKNOWN_TOPIC_ID
    create_topic(address, sharer.topic)
    wire.produce(sharer.topic, batch(["b"]))
    sharer.topic_id = wire.topic_id(sharer.topic)
    sharer.epoch = 0
    assert sharer.fetch() == [(0, "b", 1)]


# --- transactions --------------------------------------------------------------------------------


def transaction(address: str, topic: str, *values: str, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": address, "transactional.id": f"txn-{topic}"})
    producer.init_transactions()
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.flush()
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()


def test_markers_and_aborted_records_are_passed_over_where_only_committed_ones_are_wanted(
    wire, address, sharer, group
):
    configure(wire, group, share_isolation_level="read_committed")
    for values, commit in ((["a", "b"], True), (["c"], False), (["d"], True)):
        transaction(address, sharer.topic, *values, commit=commit)
    assert [one[1] for one in sharer.fetch()] == ["a", "b", "d"]


def test_an_open_transaction_is_waited_for(wire, address, sharer, group):
    configure(wire, group, share_isolation_level="read_committed")
    producer = Producer({"bootstrap.servers": address, "transactional.id": f"open-{sharer.topic}"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(sharer.topic, "a")
    producer.flush()
    assert sharer.fetch() == []
    configure(wire, group, share_isolation_level="read_uncommitted")
    assert [one[1] for one in sharer.fetch()] == ["a"]
    sharer.acknowledge((0, 0, [RELEASE]))
    configure(wire, group, share_isolation_level="read_committed")
    assert sharer.fetch() == []
    sharer.send_fetch(max_wait_ms=LONG_WAIT_MS)
    producer.commit_transaction()
    (acquired,) = sharer.receive_fetch().responses[0].partitions[0].acquired_records
    assert (acquired.first_offset, acquired.last_offset, acquired.delivery_count) == (0, 0, 2)


def test_without_isolation_all_records_come_and_no_marker(address, sharer):
    transaction(address, sharer.topic, "a", commit=False)
    transaction(address, sharer.topic, "b", commit=True)
    assert [one[:2] for one in sharer.fetch()] == [(0, "a"), (2, "b")]


# --- offsets -------------------------------------------------------------------------------------


def offsets(wire: Wire, group: str, topic: str | None = None) -> Any:
    named = (
        None
        if topic is None
        else [DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[0, 9])]
    )
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=named)
    return wire.ask(DescribeShareGroupOffsetsRequest(groups=[asked])).groups[0]


def altered(wire: Wire, group: str, topic: str, offset: int) -> Any:
    part = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)
    named = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[part])
    return wire.ask(AlterShareGroupOffsetsRequest(group_id=group, topics=[named]))


def test_how_far_a_group_is_can_be_seen_changed_and_forgotten(wire, sharer):
    group, topic = sharer.group, sharer.topic
    named = offsets(wire, group, topic).topics[0].partitions
    assert [(one.start_offset, one.error_code) for one in named] == [(-1, 0), (-1, 0)]
    assert offsets(wire, group).topics == []
    wire.produce(topic, batch(["a", "b", "c", "d"]))
    sharer.fetch()
    sharer.acknowledge((0, 0, [ACCEPT]), (2, 2, [ACCEPT]))
    (found,) = offsets(wire, group).topics[0].partitions
    assert (found.start_offset, found.lag) == (1, 2)

    assert altered(wire, group, topic, 0).error_code == NOT_EMPTY
    forget = DeleteShareGroupOffsetsRequest(
        group_id=group, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic)]
    )
    assert wire.ask(forget).error_code == NOT_EMPTY
    sharer.beat(-1)
    assert altered(wire, group, topic, 99).responses[0].partitions[0].error_code == OUT_OF_RANGE
    assert altered(wire, group, "nowhere", 0).responses[0].partitions[0].error_code == UNKNOWN_TOPIC
    assert altered(wire, group, topic, 3).responses[0].partitions[0].error_code == 0
    sharer.join()
    sharer.epoch = 0
    assert sharer.fetch() == [(3, "d", 1)]
    sharer.beat(-1)
    assert wire.ask(forget).responses[0].error_code == 0
    assert offsets(wire, group).topics == []


def test_a_group_that_is_not_there_is_nowhere_and_goes_nowhere(wire, group, topic):
    assert (offsets(wire, group).error_code, offsets(wire, group).topics) == (0, [])
    assert offsets(wire, group, topic).topics[0].partitions[0].error_code == UNKNOWN_TOPIC
    assert altered(wire, group, topic, 0).error_code == NOT_FOUND


# --- configs -------------------------------------------------------------------------------------


def test_the_configs_of_a_group_are_told_with_where_they_come_from(wire, group):
    configure(wire, group, share_delivery_count_limit=3)
    asked = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=32, resource_name=group, configuration_keys=None)],
        include_synonyms=True,
    )
    told = {one.name: one for one in wire.ask(asked).results[0].configs}
    assert (told["share.delivery.count.limit"].value, told["share.delivery.count.limit"].config_source) == (
        "3",
        8,
    )
    assert told["share.record.lock.duration.ms"].value == "30000"
    synonyms = [(one.name, one.value) for one in told["share.delivery.count.limit"].synonyms]
    assert synonyms == [("share.delivery.count.limit", "3"), ("group.share.delivery.count.limit", "5")]
    listed = wire.ask(ListConfigResourcesRequest(resource_types=[32])).config_resources
    assert group in [one.resource_name for one in listed]


@pytest.mark.parametrize(
    "wrong",
    [
        {"share_auto_offset_reset": "sometimes"},
        {"share_auto_offset_reset": "by_duration:P"},
        {"share_isolation_level": "none"},
        {"share_delivery_count_limit": 1},
        {"share_record_lock_duration_ms": "1e9"},
        {"consumer_session_timeout_ms": 50_000},
    ],
)
def test_a_config_without_sense_is_refused(wire, group, wrong):
    assert configure(wire, group, **wrong).error_code == INVALID_CONFIG


# --- restarts ------------------------------------------------------------------------------------


def test_acknowledged_records_do_not_come_again_after_a_crash(tmp_path, group, topic):
    with Broker(data=tmp_path, process=True) as broker:
        create_topic(broker.kafka, topic)
        with Wire(broker.kafka) as wire, Sharer(broker.kafka, group, topic) as sharer:
            configure(wire, group, share_auto_offset_reset="earliest", share_delivery_count_limit=3)
            wire.produce(topic, batch(["a", "b", "c", "d", "e"]))
            sharer.join()
            assert len(sharer.fetch()) == 5
            assert sharer.acknowledge((0, 3, [ACCEPT, RELEASE, ACCEPT, REJECT])) == 0
            broker.kill()
    with Broker(data=tmp_path, process=True) as broker, Wire(broker.kafka) as wire:
        listed = wire.ask(ListGroupsRequest()).groups
        assert [(one.group_id, one.group_type, one.group_state) for one in listed] == [
            (group, "share", "Empty")
        ]
        with Sharer(broker.kafka, group, topic) as sharer:
            assert sharer.beat(3).error_code == UNKNOWN_MEMBER
            sharer.join()
            assert sharer.fetch() == [(1, "b", 2), (4, "e", 1)]
            assert sharer.acknowledge((1, 1, [RELEASE])) == 0
            assert sharer.fetch() == [(1, "b", 3)]
            sharer.acknowledge((1, 1, [RELEASE]))
            assert sharer.fetch() == []


def test_a_fetch_whose_connection_goes_while_it_waits_takes_nothing(wire, address, topic):
    create_topic(address, topic)
    group = f"gone-{topic}"
    first, second = Sharer(address, group, topic), Sharer(address, group, topic)
    first.join()
    first.fetch()
    first.send_fetch(max_wait_ms=LONG_WAIT_MS)
    first.__exit__()
    with second:
        second.join()
        second.fetch()
        wire.produce(topic, batch(["a"]))
        assert until(second.fetch, "the record") == [(0, "a", 1)]
