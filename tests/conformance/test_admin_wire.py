"""Kafka's admin APIs on topics, asked in every version, without a client in between."""

from __future__ import annotations

from dataclasses import replace

import pytest
from raw_kafka import Raw

from mainstem.broker.policy import CONFIGS
from mainstem.model.records import Record, encode_batch
from mainstem.testing import Broker
from mainstem.wire.kafka.apis import SPECS, ApiKey
from mainstem.wire.kafka.configs import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsResource,
)
from mainstem.wire.kafka.metadata import Cursor, DescribeTopicPartitionsRequestTopic, MetadataRequestTopic
from mainstem.wire.kafka.offsets import OffsetForLeaderPartition, OffsetForLeaderTopic
from mainstem.wire.kafka.produce import PartitionProduceData, TopicProduceData
from mainstem.wire.kafka.replicas import (
    AlterReplicaLogDir,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from mainstem.wire.kafka.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsTopic,
    DeleteRecordsPartition,
    DeleteRecordsTopic,
    DeleteTopicState,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS = 2, 4, 8, 16
SET, DELETE, APPEND, SUBTRACT = range(4)
NO_ID = bytes(16)


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


@pytest.fixture
def raw(broker):
    with Raw(broker.kafka) as connection:
        yield connection


def versions(key: ApiKey) -> range:
    return range(SPECS[key].min_version, SPECS[key].max_version + 1)


def create(raw, *topics, version=7, **fields):
    found = raw.ask(ApiKey.CREATE_TOPICS, version, topics=list(topics), **fields)
    return {topic.name: topic for topic in found.topics}


def topic(name, partitions=-1, factor=-1, **fields) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **fields)


def config(name, value) -> CreatableTopicConfig:
    return CreatableTopicConfig(name=name, value=value)


def metadata_of(raw, name):
    (found,) = raw.ask(
        ApiKey.METADATA, 12, topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    ).topics
    return found


# --- create and delete ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_TOPICS))
def test_a_topic_is_created_in_every_version(raw, version):
    name = f"created-v{version}"
    made = create(raw, topic(name, 3, 1, configs=[config("retention.ms", "1234")]), version=version)[name]
    assert made.error_code == 0
    assert len(metadata_of(raw, name).partitions) == 3
    if version >= 5:
        assert (made.num_partitions, made.replication_factor) == (3, 1)
        told = {entry.name: (entry.value, entry.config_source) for entry in made.configs}
        assert told["retention.ms"] == ("1234", 1)
        assert told["cleanup.policy"] == ("delete", 5)
    if version >= 7:
        assert made.topic_id == metadata_of(raw, name).topic_id != NO_ID


def test_partitions_and_replication_factor_of_minus_one_are_the_defaults(raw):
    made = create(raw, topic("defaults"))["defaults"]
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 1, 1)


def test_validate_only_creates_nothing_and_says_what_would_be(raw):
    made = create(raw, topic("only-checked", 4), validate_only=True)["only-checked"]
    assert (made.error_code, made.num_partitions) == (0, 4)
    assert metadata_of(raw, "only-checked").error_code == 3


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        (topic("with space", 1, 1), 17),
        (topic("", 1, 1), 17),
        (topic("x" * 250, 1, 1), 17),
        (topic("..", 1, 1), 17),
        (topic("none", 0, 1), 37),
        (topic("negative", -2, 1), 37),
        (topic("too-many", 100_001, 1), 37),
        (topic("three-copies", 1, 3), 38),
        (topic("no-copies", 1, 0), 38),
        (topic("bad-config", 1, 1, configs=[config("no.such.config", "1")]), 40),
        (topic("bad-value", 1, 1, configs=[config("retention.ms", "soon")]), 40),
        (topic("two-insync", 1, 1, configs=[config("min.insync.replicas", "2")]), 40),
        (topic("number-with-blanks", 1, 1, configs=[config("retention.ms", " 1_000 ")]), 40),
        (topic("null-value", 1, 1, configs=[config("retention.ms", None)]), 42),
        (topic("elsewhere", assignments=[CreatableReplicaAssignment(0, [5])]), 39),
        (topic("gap", assignments=[CreatableReplicaAssignment(1, [1])]), 39),
        (topic("two-copies", assignments=[CreatableReplicaAssignment(0, [1, 1])]), 39),
        (topic("both", 1, assignments=[CreatableReplicaAssignment(0, [1])]), 42),
    ],
    ids=lambda value: value.name[:20] if isinstance(value, CreatableTopic) else str(value),
)
def test_what_cannot_be_is_refused_with_its_code_and_a_message(raw, wish, code):
    answer = create(raw, wish)[wish.name]
    assert answer.error_code == code
    assert answer.error_message
    assert metadata_of(raw, wish.name).error_code != 0


def test_one_refused_topic_does_not_stop_the_others(raw):
    made = create(raw, topic("fine-1"), topic("not fine"), topic("fine-2"))
    assert {name: found.error_code for name, found in made.items()} == {
        "fine-1": 0,
        "not fine": 17,
        "fine-2": 0,
    }


def test_a_name_twice_in_one_request_creates_neither(raw):
    answer = raw.ask(ApiKey.CREATE_TOPICS, 7, topics=[topic("twin", 1), topic("twin", 2), topic("single")])
    assert sorted((found.name, found.error_code) for found in answer.topics) == [("single", 0), ("twin", 42)]
    assert metadata_of(raw, "twin").error_code == 3


def test_a_topic_that_exists_is_not_made_again(raw):
    create(raw, topic("once", 2))
    again = create(raw, topic("once", 5))["once"]
    assert again.error_code == 36
    assert len(metadata_of(raw, "once").partitions) == 2


def test_an_assignment_to_the_one_broker_is_taken(raw):
    assigned = [CreatableReplicaAssignment(index, [1]) for index in (2, 0, 1)]
    assert create(raw, topic("assigned", assignments=assigned))["assigned"].num_partitions == 3


def test_the_partitions_of_one_request_are_bounded_together(raw):
    made = create(raw, topic("large", 60_000), topic("larger", 60_000), validate_only=True)
    assert [found.error_code for found in made.values()] == [0, 44]


def test_an_error_message_fits_its_field_however_long_the_name(raw):
    long_name = "\N{GRINNING FACE}" * 8000
    assert create(raw, topic(long_name), version=1)[long_name].error_code == 17


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_TOPICS))
def test_topics_are_deleted_by_name_in_every_version(raw, version):
    name = f"deleted-v{version}"
    create(raw, topic(name))
    fields = {"topics": [DeleteTopicState(name=name)]} if version >= 6 else {"topic_names": [name]}
    (answer,) = raw.ask(ApiKey.DELETE_TOPICS, version, timeout_ms=5000, **fields).responses
    assert (answer.name, answer.error_code) == (name, 0)
    assert metadata_of(raw, name).error_code == 3


def test_topics_are_deleted_by_id(raw):
    made = create(raw, topic("by-id"))["by-id"]
    states = [
        DeleteTopicState(name=None, topic_id=made.topic_id),
        DeleteTopicState(name=None, topic_id=b"\7" * 16),
        DeleteTopicState(name=None),
        DeleteTopicState(name="by-id", topic_id=made.topic_id),
        DeleteTopicState(name="never-was"),
    ]
    answers = raw.ask(ApiKey.DELETE_TOPICS, 6, topics=states, timeout_ms=5000).responses
    assert [(answer.name, answer.error_code) for answer in answers] == [
        ("by-id", 0),
        (None, 100),
        (None, 42),
        ("by-id", 42),
        ("never-was", 3),
    ]


def test_a_topic_made_again_under_its_name_is_another_one(raw):
    first = create(raw, topic("phoenix"))["phoenix"].topic_id
    raw.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["phoenix"], timeout_ms=5000)
    assert create(raw, topic("phoenix"))["phoenix"].topic_id != first
    (gone,) = raw.ask(ApiKey.METADATA, 12, topics=[MetadataRequestTopic(name=None, topic_id=first)]).topics
    assert (gone.name, gone.error_code) == (None, 100)


# --- partitions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_PARTITIONS))
def test_partitions_are_added_in_every_version(raw, version):
    name = f"grown-v{version}"
    create(raw, topic(name, 1))
    wish = CreatePartitionsTopic(name=name, count=4, assignments=None)
    (answer,) = raw.ask(ApiKey.CREATE_PARTITIONS, version, topics=[wish], timeout_ms=5000).results
    assert answer.error_code == 0
    assert len(metadata_of(raw, name).partitions) == 4


def test_partitions_are_never_taken_away_nor_put_elsewhere(raw):
    create(raw, topic("fixed", 3))
    here, there = CreatePartitionsAssignment([1]), CreatePartitionsAssignment([2])
    wishes = [(3, None), (2, None), (100_001, None), (5, [here]), (4, [there]), (0, None)]
    codes = []
    for count, assignments in wishes:
        wish = CreatePartitionsTopic(name="fixed", count=count, assignments=assignments)
        (answer,) = raw.ask(ApiKey.CREATE_PARTITIONS, 3, topics=[wish], timeout_ms=5000).results
        codes.append(answer.error_code)
    assert codes == [37, 37, 37, 39, 39, 37]
    wish = CreatePartitionsTopic(name="fixed", count=4, assignments=[here])
    (answer,) = raw.ask(ApiKey.CREATE_PARTITIONS, 3, topics=[wish], validate_only=True).results
    assert answer.error_code == 0
    assert len(metadata_of(raw, "fixed").partitions) == 3


# --- configs -------------------------------------------------------------------------------------


def describe(raw, kind, name, version=4, keys=None, **fields):
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    (result,) = raw.ask(ApiKey.DESCRIBE_CONFIGS, version, resources=[resource], **fields).results
    return result


def values(raw, name) -> dict[str, str]:
    return {entry.name: entry.value for entry in describe(raw, TOPIC, name).configs}


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CONFIGS))
def test_configs_are_described_with_source_type_and_synonyms(raw, version):
    create(raw, topic(f"described-v{version}", configs=[config("retention.ms", "99")]))
    name = f"described-v{version}"
    result = describe(raw, TOPIC, name, version, include_synonyms=True, include_documentation=True)
    by_name = {entry.name: entry for entry in result.configs}
    own, usual = by_name["retention.ms"], by_name["max.message.bytes"]
    assert (own.value, usual.value) == ("99", "1048588")
    if version == 0:
        assert (own.is_default, usual.is_default) == (False, True)
    else:
        assert (own.config_source, usual.config_source) == (1, 5)
        assert [(s.name, s.value, s.source) for s in own.synonyms] == [
            ("retention.ms", "99", 1),
            ("log.retention.ms", "604800000", 5),
        ]
    if version >= 3:
        assert (own.config_type, usual.config_type) == (5, 3)
        assert own.documentation


def test_only_the_configs_that_were_named_are_described(raw):
    create(raw, topic("named"))
    result = describe(raw, TOPIC, "named", keys=["segment.ms", "no.such"])
    assert [entry.name for entry in result.configs] == ["segment.ms"]


def test_the_brokers_configs_are_read_only(raw, broker):
    entries = {entry.name: entry for entry in describe(raw, BROKER, "1").configs}
    assert entries["num.partitions"].value == "1"
    assert entries["log.dirs"].value == str(broker.data)
    assert all(entry.read_only for entry in entries.values())
    assert describe(raw, BROKER, "").configs == []
    assert describe(raw, BROKER, "2").error_code == 42
    (answer,) = raw.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[
            IncrementalAlterConfigsResource(
                resource_type=BROKER,
                resource_name="1",
                configs=[IncrementalAlterableConfig("num.partitions", SET, "9")],
            )
        ],
    ).responses
    assert answer.error_code == 42
    assert "num.partitions" in answer.error_message


@pytest.mark.parametrize("kind", [BROKER_LOGGER, CLIENT_METRICS, 77])
def test_configs_that_nothing_stands_behind_are_an_error(raw, kind):
    assert describe(raw, kind, "x").error_code in (35, 42)
    resource = AlterConfigsResource(kind, "x", [AlterableConfig("a", "b")])
    (answer,) = raw.ask(ApiKey.ALTER_CONFIGS, 2, resources=[resource]).responses
    assert answer.error_code in (35, 42)


def test_configs_of_an_unknown_topic_are_an_error(raw):
    assert describe(raw, TOPIC, "never-was").error_code == 3


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_CONFIGS))
def test_alter_replaces_all_configs_of_a_topic(raw, version):
    name = f"altered-v{version}"
    create(raw, topic(name, configs=[config("retention.ms", "5"), config("segment.ms", "6")]))
    resource = AlterConfigsResource(TOPIC, name, [AlterableConfig("retention.ms", "7")])
    (answer,) = raw.ask(ApiKey.ALTER_CONFIGS, version, resources=[resource]).responses
    assert answer.error_code == 0
    assert (values(raw, name)["retention.ms"], values(raw, name)["segment.ms"]) == ("7", "604800000")


def incrementally(raw, name, *changes, version=1, **fields) -> int:
    resource = IncrementalAlterConfigsResource(
        TOPIC, name, [IncrementalAlterableConfig(key, operation, value) for key, operation, value in changes]
    )
    (answer,) = raw.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[resource], **fields).responses
    return answer.error_code


@pytest.mark.parametrize("version", versions(ApiKey.INCREMENTAL_ALTER_CONFIGS))
def test_single_configs_are_set_deleted_appended_and_subtracted(raw, version):
    name = f"stepwise-v{version}"
    create(raw, topic(name, configs=[config("retention.ms", "5")]))
    assert incrementally(raw, name, ("segment.ms", SET, "6"), version=version) == 0
    assert (values(raw, name)["retention.ms"], values(raw, name)["segment.ms"]) == ("5", "6")
    assert incrementally(raw, name, ("retention.ms", DELETE, None), version=version) == 0
    assert values(raw, name)["retention.ms"] == "604800000"
    assert incrementally(raw, name, ("cleanup.policy", APPEND, "compact"), version=version) == 0
    assert values(raw, name)["cleanup.policy"] == "delete,compact"
    assert incrementally(raw, name, ("cleanup.policy", SUBTRACT, "delete"), version=version) == 0
    assert values(raw, name)["cleanup.policy"] == "compact"
    assert incrementally(raw, name, ("cleanup.policy", SUBTRACT, "compact"), version=version) == 0
    assert values(raw, name)["cleanup.policy"] == ""  # nothing goes


def test_a_bad_change_changes_nothing(raw):
    create(raw, topic("kept", configs=[config("retention.ms", "5")]))
    good = ("segment.ms", SET, "6")
    assert incrementally(raw, "kept", good, ("retention.ms", SET, "x")) == 40
    assert incrementally(raw, "kept", good, ("no.such", SET, "1")) == 40
    assert incrementally(raw, "kept", good, ("no.such", DELETE, None)) == 40
    assert incrementally(raw, "kept", good, ("retention.ms", APPEND, "1")) == 40
    assert incrementally(raw, "kept", good, ("retention.ms", SET, None)) == 40
    assert incrementally(raw, "kept", good, ("retention.ms", 9, "1")) == 42
    assert incrementally(raw, "kept", good, good) == 42
    assert incrementally(raw, "kept", good, ("cleanup.policy", APPEND, "shred")) == 40
    assert incrementally(raw, "kept", good, validate_only=True) == 0
    assert incrementally(raw, "never-was", good) == 3
    assert (values(raw, "kept")["retention.ms"], values(raw, "kept")["segment.ms"]) == ("5", "604800000")


def test_a_second_copy_is_not_promised(raw):
    create(raw, topic("one-copy"))
    wish = topic("insync", configs=[config("min.insync.replicas", "2")])
    assert "there is one copy, on disk before" in create(raw, wish)["insync"].error_message
    resource = AlterConfigsResource(TOPIC, "one-copy", [AlterableConfig("min.insync.replicas", "3")])
    (answer,) = raw.ask(ApiKey.ALTER_CONFIGS, 2, resources=[resource]).responses
    assert (answer.error_code, "there is one copy" in answer.error_message) == (40, True)
    assert incrementally(raw, "one-copy", ("min.insync.replicas", SET, "2")) == 40
    assert incrementally(raw, "one-copy", ("min.insync.replicas", SET, "1")) == 0
    assert values(raw, "one-copy")["min.insync.replicas"] == "1"


def test_a_topic_that_was_promised_a_second_copy_long_ago_still_opens(monkeypatch):
    name = "min.insync.replicas"
    with Broker() as own:
        with Raw(own.kafka) as raw, monkeypatch.context() as before:
            before.setitem(CONFIGS, name, replace(CONFIGS[name], check=str))
            assert create(raw, topic("long-ago", configs=[config(name, "2")]))["long-ago"].error_code == 0
        own.restart()
        with Raw(own.kafka) as raw:
            assert values(raw, "long-ago")[name] == "2"
            assert incrementally(raw, "long-ago", ("retention.ms", SET, "5")) == 0
            assert incrementally(raw, "long-ago", (name, DELETE, None)) == 0
            assert values(raw, "long-ago")[name] == "1"


@pytest.mark.parametrize("name", ["max.compaction.lag.ms", "min.cleanable.dirty.ratio"])
def test_a_config_that_nothing_follows_says_so(raw, name):
    create(raw, topic(f"has-{name}", configs=[config(name, "1")]))
    (entry,) = describe(raw, TOPIC, f"has-{name}", keys=[name], include_documentation=True).configs
    assert (entry.value, entry.documentation.startswith("Taken and told back only: ")) == ("1", True)


def test_a_resource_twice_in_one_request_is_refused(raw):
    create(raw, topic("twice"))
    resource = AlterConfigsResource(TOPIC, "twice", [AlterableConfig("retention.ms", "7")])
    answers = raw.ask(ApiKey.ALTER_CONFIGS, 2, resources=[resource, resource]).responses
    assert {answer.error_code for answer in answers} == {42}


def test_config_resources_are_listed(raw):
    create(raw, topic("listed"))
    found = raw.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[TOPIC, BROKER]).config_resources
    assert {(TOPIC, "listed"), (BROKER, "1")} <= {(f.resource_type, f.resource_name) for f in found}
    assert raw.ask(ApiKey.LIST_CONFIG_RESOURCES, 0).config_resources == []


# --- records, epochs, replicas -------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_RECORDS))
def test_deleting_records_answers_for_each_partition(raw, version):
    create(raw, topic("trimmed", 2), topic("compacted", configs=[config("cleanup.policy", "compact")]))
    wishes = [
        DeleteRecordsTopic("trimmed", [DeleteRecordsPartition(i, o) for i, o in [(0, -1), (1, 5), (7, 0)]]),
        DeleteRecordsTopic("compacted", [DeleteRecordsPartition(0, 0)]),
        DeleteRecordsTopic("never-was", [DeleteRecordsPartition(0, 0)]),
    ]
    answer = raw.ask(ApiKey.DELETE_RECORDS, version, topics=wishes, timeout_ms=5000)
    told = [(t.name, p.low_watermark, p.error_code) for t in answer.topics for p in t.partitions]
    assert told == [
        ("trimmed", 0, 0),
        ("trimmed", -1, 1),
        ("trimmed", -1, 3),
        ("compacted", -1, 44),
        ("never-was", -1, 3),
    ]


def test_deleting_records_waits_for_the_disk_though_the_client_waits_for_no_replicas(raw):
    create(raw, topic("hasty", configs=[config("cleanup.policy", "")]))
    batch = encode_batch([Record(0, 1_000_000, None, b"value") for _ in range(10)])
    data = TopicProduceData(
        name="hasty", partition_data=[PartitionProduceData(index=0, records=bytes(batch))]
    )
    raw.ask(ApiKey.PRODUCE, 9, acks=-1, timeout_ms=5000, topic_data=[data])
    wishes = [DeleteRecordsTopic("hasty", [DeleteRecordsPartition(0, 4)])]
    (answer,) = raw.ask(ApiKey.DELETE_RECORDS, 2, topics=wishes, timeout_ms=0).topics
    assert [(p.low_watermark, p.error_code) for p in answer.partitions] == [(4, 0)]


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FOR_LEADER_EPOCH))
def test_the_present_epoch_ends_at_the_high_watermark_and_no_other_is_known(raw, version):
    create(raw, topic("epochs"))
    wishes = [OffsetForLeaderPartition(partition=p, leader_epoch=e) for p, e in [(0, 0), (0, 3), (4, 0)]]
    answer = raw.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, topics=[OffsetForLeaderTopic("epochs", wishes)])
    told = [(end.error_code, end.end_offset) for end in answer.topics[0].partitions]
    assert told == [(0, 0), (0, -1), (3, -1)]


def test_a_wrong_current_epoch_is_fenced(raw):
    create(raw, topic("fenced-epoch"))
    wish = OffsetForLeaderPartition(partition=0, current_leader_epoch=8, leader_epoch=0)
    answer = raw.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, topics=[OffsetForLeaderTopic("fenced-epoch", [wish])])
    assert answer.topics[0].partitions[0].error_code == 75


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_LOG_DIRS))
def test_the_data_folder_is_described(raw, broker, version):
    create(raw, topic("sized", 2))
    wish = [DescribableLogDirTopic("sized", [0, 1, 9]), DescribableLogDirTopic("never-was", [0])]
    (folder,) = raw.ask(ApiKey.DESCRIBE_LOG_DIRS, version, topics=wish).results
    assert (folder.error_code, folder.log_dir) == (0, str(broker.data))
    (told,) = folder.topics
    assert [(p.partition_index, p.partition_size) for p in told.partitions] == [(0, 0), (1, 0)]
    if version >= 4:
        assert folder.usable_bytes > 0


def test_replicas_stay_where_they_are(raw, broker):
    create(raw, topic("stays"))

    def move(path: str) -> int:
        wish = AlterReplicaLogDir(path, [AlterReplicaLogDirTopic("stays", [0])])
        (told,) = raw.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=[wish]).results
        return told.partitions[0].error_code

    assert move("/elsewhere") == 57
    assert move(str(broker.data)) == 0

    def reassign(name, index, replicas) -> int:
        wish = ReassignableTopic(name, [ReassignablePartition(index, replicas)])
        answer = raw.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, topics=[wish])
        return answer.responses[0].partitions[0].error_code

    assert reassign("stays", 0, [1]) == 0
    assert reassign("stays", 0, [1, 2]) == 39
    assert reassign("stays", 0, None) == 85
    assert reassign("stays", 3, [1]) == 3
    assert raw.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None).topics == []


@pytest.mark.parametrize("version", versions(ApiKey.ELECT_LEADERS))
def test_an_election_is_never_needed(raw, version):
    create(raw, topic("led"))
    wish = [TopicPartitions("led", [0, 5]), TopicPartitions("never-was", [0])]
    answer = raw.ask(ApiKey.ELECT_LEADERS, version, topic_partitions=wish)
    told = [[p.error_code for p in t.partition_result] for t in answer.replica_election_results]
    assert told == [[84, 3], [3]]
    assert raw.ask(ApiKey.ELECT_LEADERS, version, topic_partitions=None).replica_election_results == []


# --- the cluster and its topics ------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CLUSTER))
def test_the_cluster_is_one_broker(raw, broker, version):
    answer = raw.ask(ApiKey.DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=True)
    host, port = broker.kafka.split(":")
    assert [(b.broker_id, b.host, b.port) for b in answer.brokers] == [(1, host, int(port))]
    assert (answer.error_code, answer.controller_id) == (0, 1)
    assert answer.cluster_id == raw.ask(ApiKey.METADATA, 12, topics=[]).cluster_id
    # alter, create, describe, cluster_action, describe_configs, alter_configs, idempotent_write
    assert answer.cluster_authorized_operations == sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
    if version >= 1:
        assert raw.ask(ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=2).error_code == 114


def test_authorized_operations_are_told_only_when_asked_for(raw):
    create(raw, topic("rights"))
    wish = [MetadataRequestTopic(name="rights")]
    (told,) = raw.ask(ApiKey.METADATA, 12, topics=wish, include_topic_authorized_operations=True).topics
    (silent,) = raw.ask(ApiKey.METADATA, 12, topics=wish).topics
    assert told.topic_authorized_operations == sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
    assert silent.topic_authorized_operations == -(2**31)
    answer = raw.ask(ApiKey.METADATA, 9, topics=[], include_cluster_authorized_operations=True)
    assert answer.cluster_authorized_operations == sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
def test_metadata_names_all_topics_or_those_asked_for_in_every_version(raw, version):
    name = f"seen-v{version}"
    create(raw, topic(name, 2))
    everything = raw.ask(ApiKey.METADATA, version, topics=None if version else [])
    assert name in {found.name for found in everything.topics}
    (found,) = raw.ask(ApiKey.METADATA, version, topics=[MetadataRequestTopic(name=name)]).topics
    assert [p.partition_index for p in found.partitions] == [0, 1]
    assert {(p.leader_id, tuple(p.replica_nodes), tuple(p.isr_nodes)) for p in found.partitions} == {
        (1, (1,), (1,))
    }


def test_naming_many_unknown_topics_creates_them_all(raw):
    names = [f"auto-{i}" for i in range(300)]
    wish = [MetadataRequestTopic(name=name) for name in [*names, "not a name"]]
    answer = raw.ask(ApiKey.METADATA, 12, topics=wish, allow_auto_topic_creation=True)
    assert [found.error_code for found in answer.topics] == [0] * 300 + [17]
    assert metadata_of(raw, "auto-299").error_code == 0


def test_topics_are_described_page_by_page():
    with Broker() as fresh, Raw(fresh.kafka) as raw:
        create(raw, topic("b", 3), topic("a", 2), topic("c", 1))

        def page(cursor, limit, *names):
            answer = raw.ask(
                ApiKey.DESCRIBE_TOPIC_PARTITIONS,
                0,
                topics=[DescribeTopicPartitionsRequestTopic(name) for name in names],
                response_partition_limit=limit,
                cursor=cursor,
            )
            told = [(t.name, t.error_code, [p.partition_index for p in t.partitions]) for t in answer.topics]
            return told, answer.next_cursor

        assert page(None, 2000) == ([("a", 0, [0, 1]), ("b", 0, [0, 1, 2]), ("c", 0, [0])], None)
        first, cursor = page(None, 3)
        assert first == [("a", 0, [0, 1]), ("b", 0, [0])]
        assert cursor == Cursor("b", 1)
        second, cursor = page(cursor, 2)
        assert second == [("b", 0, [1, 2])]
        assert cursor == Cursor("c", 0)
        assert page(cursor, 2) == ([("c", 0, [0])], None)
        assert page(None, 9, "c", "nope") == ([("c", 0, [0]), ("nope", 3, [])], None)
