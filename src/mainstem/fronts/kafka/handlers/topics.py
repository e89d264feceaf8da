"""CreateTopics, DeleteTopics, CreatePartitions: each topic of a request succeeds or fails by itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from mainstem.broker import admin
from mainstem.broker.configs import topic_entries
from mainstem.broker.partition import Topic
from mainstem.broker.topics import TopicCreated
from mainstem.fronts.kafka.codes import code_of, text_of
from mainstem.fronts.kafka.encoding import Encoded, encoded_if_large
from mainstem.fronts.kafka.handlers.configs import SOURCES
from mainstem.fronts.kafka.session import Request, Session
from mainstem.fronts.kafka.slices import Slices
from mainstem.model.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    MainstemError,
    NotAuthorized,
    PolicyViolation,
    RequestTimedOut,
    UnknownTopic,
)
from mainstem.wire.kafka.schema import NULL_UUID
from mainstem.wire.kafka.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

CLUSTER = "kafka-cluster"


def too_many() -> PolicyViolation:
    """A new one each time: an exception that is raised again keeps everybody's frames."""
    return PolicyViolation("Excessively large number of partitions per request.")


async def on_disk(done: asyncio.Future[None] | None, timeout_ms: int) -> RequestTimedOut | None:
    """Wait for a change, no longer than the client does; the error to answer with if it took longer."""
    if done is None or done.done():
        return None
    finished, _ = await asyncio.wait({done}, timeout=max(timeout_ms, 0) / 1000)
    return None if finished else RequestTimedOut(f"not on disk within {timeout_ms} ms; it may still happen")


def require_create(session: Session, name: str) -> None:
    """Either right will do: to create any topic, or this one."""
    if not session.allows("create", "cluster", CLUSTER) and not session.allows("create", "topic", name):
        raise NotAuthorized(session.principal, "create", "topic", name)


# --- create ------------------------------------------------------------------------------------


async def create(request: Request, message: CreateTopicsRequest) -> CreateTopicsResponse | Encoded:
    response = CreateTopicsResponse()
    named = Counter(topic.name for topic in message.topics)
    told: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}
    last: asyncio.Future[None] | None = None
    partitions_left = request.broker.options.max_partitions
    slices = Slices()
    for name, count in named.items():
        if count > 1:
            again = InvalidRequest(f"Duplicate topic name: {name}")
            response.topics.append(_refused_topic(name, again))
    for wanted in message.topics:
        if named[wanted.name] > 1:
            continue
        try:
            if partitions_left < 0:
                raise too_many()
            made = _plan(request, wanted)
            partitions_left -= len(made.partition_ids)
            if partitions_left < 0:
                raise too_many()
            if not message.validate_only:
                last = admin.create_topic(request.broker, made)
        except MainstemError as error:
            response.topics.append(_refused_topic(wanted.name, error))
        else:
            topic_id = NULL_UUID if message.validate_only else made.topic_id
            response.topics.append(_created(request, made, topic_id, told))
        if slices.used_up():
            await slices.rest()
    late = await on_disk(last, message.timeout_ms)
    if late is not None:
        response.topics = [
            result if result.error_code else _refused_topic(result.name, late) for result in response.topics
        ]
    return await encoded_if_large(response, request.version, len(response.topics))


def _plan(request: Request, wanted: CreatableTopic) -> TopicCreated:
    require_create(request.session, wanted.name)
    partitions, factor = wanted.num_partitions, wanted.replication_factor
    if wanted.assignments:
        if partitions != -1 or factor != -1:
            raise InvalidRequest(
                "A manual partition assignment was specified: leave partitions and replication factor at -1."
            )
        partitions = _assigned(request, wanted.assignments)
    elif partitions != -1 and partitions <= 0:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    if factor not in (-1, 1):
        if factor <= 0:
            raise InvalidReplicationFactor(
                "Replication factor must be larger than 0, or -1 to use the default value."
            )
        raise InvalidReplicationFactor(
            f"The target replication factor of {factor} cannot be reached: there is 1 broker."
        )
    configs: dict[str, str] = {}
    for config in wanted.configs:
        if config.value is None:
            raise InvalidRequest(f"Null value not supported for topic configs: {config.name}")
        configs[config.name] = config.value
    return request.broker.plan_topic(wanted.name, partitions, configs)


def _assigned(request: Request, assignments: list[CreatableReplicaAssignment]) -> int:
    """How many partitions an assignment by the client makes; every one of them must lie here."""
    if sorted(a.partition_index for a in assignments) != list(range(len(assignments))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    for assignment in assignments:
        check_replicas(request, assignment.broker_ids)
    return len(assignments)


def check_replicas(request: Request, broker_ids: list[int]) -> None:
    node_id = request.broker.options.node_id
    if broker_ids != [node_id]:
        raise InvalidReplicaAssignment(
            f"replicas {broker_ids} are not possible: the only broker is {node_id}, and holds the only copy"
        )


def _created(
    request: Request,
    made: TopicCreated,
    topic_id: bytes,
    told: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]],
) -> CreatableTopicResult:
    result = CreatableTopicResult(name=made.name, topic_id=topic_id)
    if request.version < 5:
        return result
    if not request.session.allows("describe_configs", "topic", made.name):
        refusal = NotAuthorized(request.session.principal, "describe_configs", "topic", made.name)
        result.topic_config_error_code = code_of(refusal)
        return result
    result.num_partitions = len(made.partition_ids)
    result.replication_factor = 1
    # Topics of one request mostly have the same configs: they share the list.
    key = tuple(made.configs.items())
    if key not in told:
        told[key] = _configs(request, made.configs)
    result.configs = told[key]
    return result


def _configs(request: Request, own: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(name=entry.name, value=entry.value, config_source=SOURCES[entry.source])
        for entry in topic_entries(request.broker.topics.policies, own)
    ]


def _refused_topic(name: str, error: MainstemError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code_of(error), error_message=text_of(error))


# --- delete ------------------------------------------------------------------------------------


async def delete(request: Request, message: DeleteTopicsRequest) -> DeleteTopicsResponse | Encoded:
    states = message.topics
    if request.version < 6:
        states = [DeleteTopicState(name=name) for name in message.topic_names]
    named = Counter((state.name, state.topic_id) for state in states)
    response = DeleteTopicsResponse()
    last: asyncio.Future[None] | None = None
    slices = Slices()
    for (name, topic_id), count in named.items():
        result = DeletableTopicResult(name=name, topic_id=topic_id)
        response.responses.append(result)
        try:
            if count > 1:
                raise InvalidRequest("Duplicate topic in one request.")
            topic = _deletable(request, name, topic_id)
            result.name, result.topic_id = topic.name, topic.id
            last = admin.delete_topic(request.broker, topic)
        except MainstemError as error:
            result.error_code, result.error_message = code_of(error), text_of(error)
        if slices.used_up():
            await slices.rest()
    late = await on_disk(last, message.timeout_ms)
    if late is not None:
        for result in response.responses:
            if not result.error_code:
                result.error_code, result.error_message = code_of(late), text_of(late)
    return await encoded_if_large(response, request.version, len(response.responses))


def _deletable(request: Request, name: str | None, topic_id: bytes) -> Topic:
    session, topics = request.session, request.broker.topics
    if name is None:
        if topic_id == NULL_UUID:
            raise InvalidRequest("Neither topic name nor id were specified.")
        topic = topics.get_by_id(topic_id)
        if not session.allows("describe", "topic", topic.name):
            # The name must not leak to who knows only the id.
            raise NotAuthorized(session.principal, "delete", "topic", topic_id.hex())
        session.require("delete", "topic", topic.name)
        return topic
    if topic_id != NULL_UUID:
        raise InvalidRequest("You may not specify both topic name and topic id.")
    session.require("delete", "topic", name)
    return topics.get(name)


# --- grow --------------------------------------------------------------------------------------


async def create_partitions(request: Request, message: CreatePartitionsRequest) -> CreatePartitionsResponse:
    named = Counter(topic.name for topic in message.topics)
    response = CreatePartitionsResponse()
    last: asyncio.Future[None] | None = None
    left = request.broker.options.max_partitions
    slices = Slices()
    for wanted in {topic.name: topic for topic in message.topics}.values():
        result = CreatePartitionsTopicResult(name=wanted.name)
        response.results.append(result)
        try:
            if named[wanted.name] > 1:
                raise InvalidRequest("Duplicate topic in one request.")
            topic = _growable(request, wanted)
            added = admin.plan_partitions(request.broker, topic, wanted.count)
            _check_assignments(request, wanted, len(added.partition_ids))
            left -= len(added.partition_ids)
            if left < 0:
                raise too_many()
            if not message.validate_only:
                last = admin.add_partitions(request.broker, added)
        except MainstemError as error:
            result.error_code, result.error_message = code_of(error), text_of(error)
        if slices.used_up():
            await slices.rest()
    late = await on_disk(last, message.timeout_ms)
    if late is not None:
        for result in response.results:
            if not result.error_code:
                result.error_code, result.error_message = code_of(late), text_of(late)
    return response


def _growable(request: Request, wanted: CreatePartitionsTopic) -> Topic:
    request.session.require("alter", "topic", wanted.name)
    topic = request.broker.topics.by_name.get(wanted.name)
    if topic is None:
        raise UnknownTopic(f"The topic '{wanted.name}' does not exist.")
    return topic


def _check_assignments(request: Request, wanted: CreatePartitionsTopic, added: int) -> None:
    if wanted.assignments is None:
        return
    if len(wanted.assignments) != added:
        raise InvalidReplicaAssignment(f"{added} partitions are added, {len(wanted.assignments)} assigned")
    for assignment in wanted.assignments:
        check_replicas(request, assignment.broker_ids)
