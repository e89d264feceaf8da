"""Every method of three admin clients: it is answered with something true, or refused and told why."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace as World
from typing import Any

import aiokafka.admin as aio
import confluent_kafka.admin as con
import kafka.admin as py
import kafka.errors
import pytest
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    ElectionType,
    KafkaException,
    Producer,
    TopicCollection,
)
from confluent_kafka import TopicPartition as ConTopicPartition
from kafka import TopicPartition as PyTopicPartition
from kafka.structs import OffsetAndMetadata
from kafka_kit import PATIENCE_S, Wire, create_topic, new_name, publish

from mainstem.wire.kafka.apis import SPECS

Call = Callable[[World], Any]
Truth = Callable[[World, Any], object]


class Refused:
    """The method raises this and says so much."""

    def __init__(self, kind: type[Exception], words: str) -> None:
        self.kind, self.words = kind, words


# --- what the calls are about --------------------------------------------------------------------


@pytest.fixture
def world(address):
    """A topic of two partitions, three records in the first, and a group that has committed to be at 1."""
    w = World(address=address, topic=new_name("breadth"), group=new_name("breadth"), new=new_name("breadth"))
    w.looker = con.AdminClient({"bootstrap.servers": address})
    create_topic(address, w.topic, 2)
    publish(address, w.topic, "abc")
    w.committed = ConsumerGroupTopicPartitions(w.group, [ConTopicPartition(w.topic, 0, 1)])
    got(w.looker.alter_consumer_group_offsets([w.committed]))
    return w


def got(futures: Any) -> Any:
    """What came of a call's one future."""
    if isinstance(futures, dict):
        (futures,) = futures.values()
    return futures.result(PATIENCE_S) if isinstance(futures, Future) else futures


def partitions(w: World, topic: str) -> int:
    """As another client sees it; 0 if there is none."""
    found = w.looker.list_topics(timeout=PATIENCE_S).topics.get(topic)
    return len(found.partitions) if found else 0


def retention(w: World) -> str:
    resource = con.ConfigResource(con.ResourceType.TOPIC, w.topic)
    return got(w.looker.describe_configs([resource]))["retention.ms"].value


def offset(w: World) -> int:
    """Where the group is."""
    asked = ConsumerGroupTopicPartitions(w.group, [ConTopicPartition(w.topic, 0)])
    return got(w.looker.list_consumer_group_offsets([asked])).topic_partitions[0].offset


def groups(w: World) -> set[str]:
    return {group.group_id for group in got(w.looker.list_consumer_groups()).valid}


def first_offset(w: World) -> int:
    place = ConTopicPartition(w.topic, 0)
    return got(w.looker.list_offsets({place: con.OffsetSpec.earliest()})).offset


def mechanisms(w: World) -> list[str]:
    try:
        found = got(w.looker.describe_user_scram_credentials([w.new]))
    except KafkaException:
        return []
    return [info.mechanism.name for info in found.scram_credential_infos]


def transaction(w: World) -> Producer:
    """One that is open, with a record in the first partition."""
    w.producer = Producer({"bootstrap.servers": w.address, "transactional.id": w.new})
    w.producer.init_transactions(PATIENCE_S)
    w.producer.begin_transaction()
    w.producer.produce(w.topic, "d", partition=0)
    assert w.producer.flush(PATIENCE_S) == 0
    return w.producer


def with_transaction(call: Call) -> Call:
    def during(w: World) -> Any:
        producer = transaction(w)
        try:
            return call(w)
        finally:
            producer.abort_transaction(PATIENCE_S)

    return during


def scrammed(call: Call) -> Call:
    """With a user of that name."""

    def after(w: World) -> Any:
        info = con.ScramCredentialInfo(con.ScramMechanism.SCRAM_SHA_512, 4096)
        got(w.looker.alter_user_scram_credentials([con.UserScramCredentialUpsertion(w.new, info, b"pencil")]))
        return call(w)

    return after


# --- confluent-kafka -----------------------------------------------------------------------------


def con_resource(w: World, **more: Any) -> con.ConfigResource:
    return con.ConfigResource(con.ResourceType.TOPIC, w.topic, **more)


def con_acl(w: World, kind: type = con.AclBinding) -> Any:
    place = (con.ResourceType.TOPIC, w.topic, con.ResourcePatternType.LITERAL)
    return kind(*place, "User:ann", "*", con.AclOperation.READ, con.AclPermissionType.ALLOW)


def con_set(w: World) -> Any:
    entry = con.ConfigEntry("retention.ms", "77", incremental_operation=con.AlterConfigOpType.SET)
    return con_resource(w, incremental_configs=[entry])


CON_RULES_OFF = Refused(KafkaException, "SECURITY_DISABLED.*authentication is off")
CONFLUENT: dict[str, tuple[Call, Truth | Refused]] = {
    "alter_configs": (
        lambda w: got(w.admin.alter_configs([con_resource(w, set_config={"retention.ms": "77"})])),
        lambda w, _: retention(w) == "77",
    ),
    "alter_consumer_group_offsets": (
        lambda w: got(
            w.admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(w.group, [ConTopicPartition(w.topic, 0, 2)])]
            )
        ),
        lambda w, _: offset(w) == 2,
    ),
    "alter_user_scram_credentials": (
        lambda w: got(
            w.admin.alter_user_scram_credentials(
                [
                    con.UserScramCredentialUpsertion(
                        w.new, con.ScramCredentialInfo(con.ScramMechanism.SCRAM_SHA_256, 4096), b"pencil"
                    )
                ]
            )
        ),
        lambda w, _: mechanisms(w) == ["SCRAM_SHA_256"],
    ),
    "cluster_id": (
        lambda w: w.admin.cluster_id(timeout=PATIENCE_S),
        lambda w, told: told and told == got(w.looker.describe_cluster()).cluster_id,
    ),
    "create_acls": (lambda w: got(w.admin.create_acls([con_acl(w)])), CON_RULES_OFF),
    "delete_acls": (lambda w: got(w.admin.delete_acls([con_acl(w, con.AclBindingFilter)])), CON_RULES_OFF),
    # The broker says that rules are off here, too, as kafka-python shows; librdkafka drops the error.
    "describe_acls": (
        lambda w: got(w.admin.describe_acls(con_acl(w, con.AclBindingFilter))),
        lambda w, told: told == [],
    ),
    "create_partitions": (
        lambda w: got(w.admin.create_partitions([con.NewPartitions(w.topic, 3)])),
        lambda w, _: partitions(w, w.topic) == 3,
    ),
    "create_topics": (
        lambda w: got(w.admin.create_topics([con.NewTopic(w.new, 2, 1)])),
        lambda w, _: partitions(w, w.new) == 2,
    ),
    "delete_consumer_groups": (
        lambda w: got(w.admin.delete_consumer_groups([w.group])),
        lambda w, _: w.group not in groups(w),
    ),
    "delete_records": (
        lambda w: got(w.admin.delete_records([ConTopicPartition(w.topic, 0, 2)])),
        lambda w, told: told.low_watermark == first_offset(w) == 2,
    ),
    "delete_topics": (
        lambda w: got(w.admin.delete_topics([w.topic])),
        lambda w, _: partitions(w, w.topic) == 0,
    ),
    "describe_cluster": (
        lambda w: got(w.admin.describe_cluster()),
        lambda w, told: [f"{node.host}:{node.port}" for node in told.nodes] == [w.address],
    ),
    "describe_configs": (
        lambda w: got(w.admin.describe_configs([con_resource(w)])),
        lambda w, told: (
            told["cleanup.policy"].value == "delete" and told["retention.ms"].value == retention(w)
        ),
    ),
    "describe_consumer_groups": (
        lambda w: got(w.admin.describe_consumer_groups([w.group])),
        lambda w, told: (told.group_id, told.state.name, told.members) == (w.group, "EMPTY", []),
    ),
    "describe_topics": (
        lambda w: got(w.admin.describe_topics(TopicCollection([w.topic]))),
        lambda w, told: (told.name, [one.leader.id for one in told.partitions]) == (w.topic, [1, 1]),
    ),
    "describe_user_scram_credentials": (
        scrammed(lambda w: got(w.admin.describe_user_scram_credentials([w.new]))),
        lambda w, told: [info.iterations for info in told.scram_credential_infos] == [4096],
    ),
    "elect_leaders": (
        lambda w: got(w.admin.elect_leaders(ElectionType.PREFERRED, [ConTopicPartition(w.topic, 0)])),
        lambda w, told: [error.name() for error in told.values()] == ["ELECTION_NOT_NEEDED"],
    ),
    "incremental_alter_configs": (
        lambda w: got(w.admin.incremental_alter_configs([con_set(w)])),
        lambda w, _: retention(w) == "77",
    ),
    "list_consumer_group_offsets": (
        lambda w: got(w.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(w.group)])),
        lambda w, told: (
            [(one.topic, one.partition, one.offset) for one in told.topic_partitions] == [(w.topic, 0, 1)]
        ),
    ),
    "list_consumer_groups": (
        lambda w: got(w.admin.list_consumer_groups()),
        lambda w, told: w.group in {group.group_id for group in told.valid} and not told.errors,
    ),
    "list_groups": (
        lambda w: w.admin.list_groups(w.group, timeout=PATIENCE_S),
        lambda w, told: [(group.id, group.state) for group in told] == [(w.group, "Empty")],
    ),
    "list_offsets": (
        lambda w: got(w.admin.list_offsets({ConTopicPartition(w.topic, 0): con.OffsetSpec.latest()})),
        lambda w, told: told.offset == 3,
    ),
    "list_topics": (
        lambda w: w.admin.list_topics(w.topic, timeout=PATIENCE_S),
        lambda w, told: list(told.topics[w.topic].partitions) == [0, 1],
    ),
}


# --- kafka-python --------------------------------------------------------------------------------


def py_resource(w: World, configs: Any = None) -> py.ConfigResource:
    return py.ConfigResource(py.ConfigResourceType.TOPIC, w.topic, configs)


def py_place(w: World, partition: int = 0) -> PyTopicPartition:
    return PyTopicPartition(w.topic, partition)


def py_acl(w: World, kind: type = py.ACL) -> Any:
    pattern = py.ResourcePattern(py.ResourceType.TOPIC, w.topic, py.ACLResourcePatternType.LITERAL)
    return kind("User:ann", "*", py.ACLOperation.READ, py.ACLPermissionType.ALLOW, pattern)


def py_abort(w: World) -> None:
    """As an administrator does with what describe_producers shows."""
    transaction(w)
    (state,) = w.admin.describe_producers([py_place(w)]).values()
    (producer,) = state.active_producers
    w.admin.abort_transaction(
        py.AbortTransactionSpec(py_place(w), producer.producer_id, producer.producer_epoch)
    )


def py_remove(w: World) -> Any:
    """One member that is there, and one that is not."""
    with Wire(w.address) as wire:
        member_id = wire.join(w.new).member_id
        return w.admin.remove_group_members(
            w.new, [py.MemberToRemove(member_id=one) for one in (member_id, "nobody")]
        )


PY_NOT_OFFERED = "does not support"
NEWEST = {int(spec.key): spec.max_version for spec in SPECS.values()}
PYTHON: dict[str, tuple[Call, Truth | Refused]] = {
    "abort_transaction": (py_abort, Refused(kafka.errors.IncompatibleBrokerVersion, PY_NOT_OFFERED)),
    "alter_configs": (
        lambda w: w.admin.alter_configs([py_resource(w, {"retention.ms": "77"})]),
        lambda w, _: retention(w) == "77",
    ),
    "alter_group_offsets": (
        lambda w: w.admin.alter_group_offsets(w.group, {py_place(w): OffsetAndMetadata(2, "", -1)}),
        lambda w, told: told == {py_place(w): kafka.errors.NoError} and offset(w) == 2,
    ),
    "alter_partition_reassignments": (
        lambda w: w.admin.alter_partition_reassignments({py_place(w): [1], py_place(w, 1): [2]}),
        lambda w, told: (
            told == {py_place(w): None, py_place(w, 1): kafka.errors.InvalidReplicationAssignmentError}
        ),
    ),
    "alter_replica_log_dirs": (
        lambda w: w.admin.alter_replica_log_dirs({(w.topic, 0, 1): "/elsewhere"}),
        lambda w, told: told == {(w.topic, 0, 1): kafka.errors.LogDirNotFoundError},
    ),
    "alter_user_scram_credentials": (
        lambda w: w.admin.alter_user_scram_credentials(
            [
                py.UserScramCredentialUpsertion(
                    w.new, py.ScramMechanism.SCRAM_SHA_256, "pencil", iterations=4096
                )
            ]
        ),
        lambda w, told: told == {w.new: None} and mechanisms(w) == ["SCRAM_SHA_256"],
    ),
    "api_versions": (
        lambda w: w.admin.api_versions(),
        lambda w, told: all(last <= NEWEST[int(key)] for key, (_, last) in told.items()),
    ),
    "create_acls": (
        lambda w: w.admin.create_acls([py_acl(w)]),
        lambda w, told: told == {"succeeded": [], "failed": [kafka.errors.SecurityDisabledError]},
    ),
    "create_partitions": (
        lambda w: w.admin.create_partitions({w.topic: 3}),
        lambda w, _: partitions(w, w.topic) == 3,
    ),
    "create_topics": (
        lambda w: w.admin.create_topics([py.NewTopic(w.new, 2, 1)]),
        lambda w, _: partitions(w, w.new) == 2,
    ),
    "delete_acls": (
        lambda w: w.admin.delete_acls([py_acl(w, py.ACLFilter)]),
        lambda w, told: [one[1:] for one in told] == [([], kafka.errors.SecurityDisabledError)],
    ),
    "delete_group_offsets": (
        lambda w: w.admin.delete_group_offsets(w.group, [py_place(w)]),
        lambda w, told: told == {py_place(w): kafka.errors.NoError} and offset(w) == -1001,
    ),
    "delete_groups": (
        lambda w: w.admin.delete_groups([w.group]),
        lambda w, told: told == {w.group: "OK"} and w.group not in groups(w),
    ),
    "delete_records": (
        lambda w: w.admin.delete_records({py_place(w): 2}),
        lambda w, told: told[py_place(w)]["low_watermark"] == first_offset(w) == 2,
    ),
    "delete_topics": (
        lambda w: w.admin.delete_topics([w.topic]),
        lambda w, _: partitions(w, w.topic) == 0,
    ),
    "describe_acls": (
        lambda w: w.admin.describe_acls(py_acl(w, py.ACLFilter)),
        Refused(kafka.errors.SecurityDisabledError, "authentication is off"),
    ),
    "describe_cluster": (
        lambda w: w.admin.describe_cluster(),
        lambda w, told: [f"{node['host']}:{node['port']}" for node in told["brokers"]] == [w.address],
    ),
    "describe_configs": (
        lambda w: w.admin.describe_configs([py_resource(w)], config_filter="all"),
        lambda w, told: told["topic"][w.topic]["retention.ms"]["value"] == retention(w),
    ),
    "describe_features": (
        lambda w: w.admin.describe_features(),
        lambda w, told: told["group.version"]["finalized"] == (1, 1),
    ),
    "describe_groups": (
        lambda w: w.admin.describe_groups([w.group]),
        lambda w, told: (told[w.group]["group_state"], told[w.group]["members"]) == ("Empty", []),
    ),
    "describe_log_dirs": (
        lambda w: w.admin.describe_log_dirs({w.topic: [0]}),
        lambda w, told: [topic["name"] for topic in told[0]["log_dirs"][0]["topics"]] == [w.topic],
    ),
    "describe_metadata_quorum": (
        lambda w: w.admin.describe_metadata_quorum(),
        Refused(kafka.errors.IncompatibleBrokerVersion, PY_NOT_OFFERED),
    ),
    "describe_producers": (
        with_transaction(lambda w: w.admin.describe_producers([py_place(w)])),
        lambda w, told: (
            [one.current_transaction_start_offset for one in told[py_place(w)].active_producers] == [3]
        ),
    ),
    "describe_topic_partitions": (
        lambda w: w.admin.describe_topic_partitions([w.topic]),
        lambda w, told: [one["leader_id"] for one in told["topics"][0]["partitions"]] == [1, 1],
    ),
    "describe_topics": (
        lambda w: w.admin.describe_topics([w.topic]),
        lambda w, told: (told[0]["name"], len(told[0]["partitions"])) == (w.topic, 2),
    ),
    "describe_transactions": (
        with_transaction(lambda w: w.admin.describe_transactions([w.new])),
        lambda w, told: (told[w.new].state.value, told[w.new].topic_partitions) == ("Ongoing", {py_place(w)}),
    ),
    "describe_user_scram_credentials": (
        scrammed(lambda w: w.admin.describe_user_scram_credentials([w.new])),
        lambda w, told: [info["iterations"] for info in told[w.new]["credential_infos"]] == [4096],
    ),
    "elect_leaders": (
        lambda w: w.admin.elect_leaders(0, {w.topic: [0]}),
        lambda w, told: (
            [one.error_code for one in told.replica_election_results[0].partition_result]
            == [kafka.errors.ElectionNotNeededError.errno]
        ),
    ),
    "find_hanging_transactions": (
        # The client allows five minutes on top: none at all then.
        with_transaction(lambda w: w.admin.find_hanging_transactions(None, -300_001)),
        lambda w, told: w.new in {one["transactional_id"] for one in told},
    ),
    "get_broker_version_data": (
        lambda w: w.admin.get_broker_version_data(1),
        lambda w, told: told.broker_version >= (4, 0),
    ),
    "list_config_resources": (
        lambda w: w.admin.list_config_resources(),
        lambda w, told: w.topic in told["topic"] and told["broker"] == ["1"],
    ),
    "list_group_offsets": (
        lambda w: w.admin.list_group_offsets([w.group]),
        lambda w, told: {place: at.offset for place, at in told[w.group].items()} == {py_place(w): 1},
    ),
    "list_groups": (
        lambda w: w.admin.list_groups(),
        lambda w, told: w.group in {group["group_id"] for group in told},
    ),
    "list_partition_offsets": (
        lambda w: w.admin.list_partition_offsets({py_place(w): py.OffsetSpec.LATEST}),
        lambda w, told: told[py_place(w)].offset == 3,
    ),
    "list_partition_reassignments": (
        lambda w: w.admin.list_partition_reassignments({w.topic: [0]}),
        lambda w, told: told == {},
    ),
    "list_topics": (lambda w: w.admin.list_topics(), lambda w, told: w.topic in told),
    "list_transactions": (
        with_transaction(lambda w: w.admin.list_transactions()),
        lambda w, told: w.new in {one.transactional_id for one in told[1]},
    ),
    "remove_group_members": (
        py_remove,
        lambda w, told: [*told.values()] == [kafka.errors.NoError, kafka.errors.UnknownMemberIdError],
    ),
    "reset_configs": (
        lambda w: (
            w.admin.alter_configs([py_resource(w, {"retention.ms": "77"})]),
            w.admin.reset_configs([py_resource(w, {"retention.ms": None})]),
        ),
        lambda w, told: retention(w) != "77",
    ),
    "reset_group_offsets": (
        lambda w: w.admin.reset_group_offsets(w.group, {py_place(w): py.OffsetSpec.LATEST}),
        lambda w, told: told[py_place(w)]["offset"] == offset(w) == 3,
    ),
    "update_features": (
        lambda w: w.admin.update_features({"group.version": 1}),
        Refused(kafka.errors.IncompatibleBrokerVersion, PY_NOT_OFFERED),
    ),
    "wait_for_topics": (
        lambda w: w.admin.wait_for_topics([w.topic]),
        lambda w, told: told is None and partitions(w, w.topic) == 2,
    ),
}


# --- aiokafka ------------------------------------------------------------------------------------


def aio_resource(w: World, configs: dict[str, str] | None = None) -> AioConfigResource:
    return AioConfigResource(AioConfigResourceType.TOPIC, w.topic, configs)


AIOKAFKA: dict[str, tuple[Call, Truth | Refused]] = {
    "alter_configs": (
        lambda w: w.admin.alter_configs([aio_resource(w, {"retention.ms": "77"})]),
        lambda w, _: retention(w) == "77",
    ),
    "create_partitions": (
        lambda w: w.admin.create_partitions({w.topic: aio.NewPartitions(3)}),
        lambda w, _: partitions(w, w.topic) == 3,
    ),
    "create_topics": (
        lambda w: w.admin.create_topics([aio.NewTopic(w.new, 2, 1)]),
        lambda w, _: partitions(w, w.new) == 2,
    ),
    "delete_records": (
        lambda w: w.admin.delete_records({AioTopicPartition(w.topic, 0): aio.RecordsToDelete(2)}),
        lambda w, told: told[AioTopicPartition(w.topic, 0)] == first_offset(w) == 2,
    ),
    "delete_topics": (
        lambda w: w.admin.delete_topics([w.topic]),
        lambda w, _: partitions(w, w.topic) == 0,
    ),
    "describe_cluster": (
        lambda w: w.admin.describe_cluster(),
        lambda w, told: [f"{node['host']}:{node['port']}" for node in told["brokers"]] == [w.address],
    ),
    "describe_configs": (
        lambda w: w.admin.describe_configs([aio_resource(w)]),
        lambda w, told: f"config_names='retention.ms', config_value='{retention(w)}'" in str(told),
    ),
    "describe_consumer_groups": (
        lambda w: w.admin.describe_consumer_groups([w.group]),
        lambda w, told: [group[1:3] for group in told[0].groups] == [(w.group, "Empty")],
    ),
    "describe_topics": (
        lambda w: w.admin.describe_topics([w.topic]),
        lambda w, told: (told[0]["topic"], len(told[0]["partitions"])) == (w.topic, 2),
    ),
    "find_coordinator": (lambda w: w.admin.find_coordinator(w.group), lambda w, told: told == 1),
    "list_consumer_group_offsets": (
        lambda w: w.admin.list_consumer_group_offsets(w.group),
        lambda w, told: (
            {place: at.offset for place, at in told.items()} == {AioTopicPartition(w.topic, 0): 1}
        ),
    ),
    "list_consumer_groups": (
        lambda w: w.admin.list_consumer_groups(),
        lambda w, told: w.group in {group[0] for group in told},
    ),
    "list_topics": (lambda w: w.admin.list_topics(), lambda w, told: w.topic in told),
}


# --- all of them ---------------------------------------------------------------------------------


def with_confluent(w: World, call: Call) -> Any:
    w.admin = w.looker
    return call(w)


def with_kafka_python(w: World, call: Call) -> Any:
    w.admin = py.KafkaAdminClient(bootstrap_servers=w.address)
    try:
        return call(w)
    finally:
        w.admin.close()


def with_aiokafka(w: World, call: Call) -> Any:
    async def run() -> Any:
        w.admin = aio.AIOKafkaAdminClient(bootstrap_servers=w.address)
        await w.admin.start()
        try:
            return await call(w)
        finally:
            await w.admin.close()

    return asyncio.run(run())


# The client, who runs a call with it, its table, and what is no request.
CLIENTS = [
    (con.AdminClient, with_confluent, CONFLUENT, {"poll", "set_sasl_credentials"}),
    (py.KafkaAdminClient, with_kafka_python, PYTHON, {"close"}),
    (aio.AIOKafkaAdminClient, with_aiokafka, AIOKAFKA, {"start", "close"}),
]
METHODS = [
    pytest.param(run, table, name, id=f"{client.__module__.split('.')[0]}-{name}")
    for client, run, table, no_requests in CLIENTS
    # Those that a client no longer has, too: then the table is out of date.
    for name in sorted(
        {*table, *(one for one in dir(client) if callable(getattr(client, one)))} - no_requests
    )
    if not name.startswith("_")
]


@pytest.mark.parametrize(("run", "table", "name"), METHODS)
def test_every_method_is_answered_truly_or_refused_honestly(world, run, table, name):
    assert name in table, "say in the table above what this method is to be told"
    call, expected = table[name]
    if isinstance(expected, Refused):
        with pytest.raises(expected.kind) as refused:
            run(world, call)
        assert re.search(expected.words, str(refused.value))
    else:
        told = run(world, call)
        assert expected(world, told), told
