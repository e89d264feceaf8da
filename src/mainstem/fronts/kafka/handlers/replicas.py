"""Where copies lie and who leads: one broker, one folder, one copy. What would move one is refused.

DescribeLogDirs, AlterReplicaLogDirs, ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from os.path import normpath

from mainstem.broker import admin
from mainstem.broker.partition import Partition, Topic
from mainstem.fronts.kafka.codes import code_of, text_of
from mainstem.fronts.kafka.encoding import Encoded, encoded_if_large
from mainstem.fronts.kafka.handlers.topics import check_replicas
from mainstem.fronts.kafka.session import Request
from mainstem.fronts.kafka.slices import Slices
from mainstem.model.errors import MainstemError
from mainstem.wire.kafka.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    PartitionResult,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)

CLUSTER = "kafka-cluster"
_LOG_DIR_NOT_FOUND = 57
_ELECTION_NOT_NEEDED = 84
_NO_REASSIGNMENT_IN_PROGRESS = 85
# Partitions whose size is looked up in one call of a reader thread.
_AT_ONCE = 500


# --- folders -----------------------------------------------------------------------------------


async def describe_log_dirs(
    request: Request, message: DescribeLogDirsRequest
) -> DescribeLogDirsResponse | Encoded:
    broker = request.broker
    try:
        request.session.require("describe", "cluster", CLUSTER)
    except MainstemError as error:
        return DescribeLogDirsResponse(error_code=code_of(error))
    result = DescribeLogDirsResult(
        log_dir=broker.options.folder, usable_bytes=admin.free_bytes(broker), total_bytes=-1
    )
    slices = Slices()
    waiting: list[tuple[Partition, DescribeLogDirsPartition]] = []
    for topic, partitions in _asked(request, message.topics):
        told = [DescribeLogDirsPartition(partition_index=partition.index) for partition in partitions]
        result.topics.append(DescribeLogDirsTopic(name=topic.name, partitions=told))
        waiting += zip(partitions, told, strict=True)
        if len(waiting) >= _AT_ONCE:
            await _fill_sizes(request, waiting)
            waiting = []
        if slices.used_up():
            await slices.rest()
    await _fill_sizes(request, waiting)
    response = DescribeLogDirsResponse(results=[result])
    return await encoded_if_large(response, request.version, len(result.topics))


def _asked(
    request: Request, wanted: list[DescribableLogDirTopic] | None
) -> list[tuple[Topic, Sequence[Partition]]]:
    """What is not there is left out, as Kafka does."""
    topics = request.broker.topics
    if wanted is None:
        return [(topic, topic.partitions) for topic in topics.by_name.values()]
    found: list[tuple[Topic, Sequence[Partition]]] = []
    for asked in wanted:
        topic = topics.by_name.get(asked.topic)
        if topic is not None:
            indexes = sorted({index for index in asked.partitions if 0 <= index < len(topic.partitions)})
            found.append((topic, [topic.partitions[index] for index in indexes]))
    return found


async def _fill_sizes(request: Request, waiting: list[tuple[Partition, DescribeLogDirsPartition]]) -> None:
    if waiting:
        sizes = await admin.size_bytes(request.broker, [partition for partition, _ in waiting])
        for (_, told), size in zip(waiting, sizes, strict=True):
            told.partition_size = size


async def alter_log_dirs(
    request: Request, message: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """There is one folder: to it nothing needs to move, to any other nothing can."""
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    here, slices = normpath(request.broker.options.folder), Slices()
    for wanted in message.dirs:
        for topic in wanted.topics:
            told = results.setdefault(topic.name, [])
            for index in topic.partitions:
                code = _move_code(request, normpath(wanted.path) == here, topic.name, index)
                told.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
                if slices.used_up():
                    await slices.rest()
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=told) for name, told in results.items()
        ]
    )


def _move_code(request: Request, is_here: bool, name: str, index: int) -> int:
    try:
        request.session.require("alter", "cluster", CLUSTER)
        topics = request.broker.topics
        topics.partition(topics.get(name), index)
    except MainstemError as error:
        return code_of(error)
    return 0 if is_here else _LOG_DIR_NOT_FOUND


# --- leaders -----------------------------------------------------------------------------------


async def elect_leaders(request: Request, message: ElectLeadersRequest) -> ElectLeadersResponse:
    """Every partition is led by the one broker. Asked for all, only those that needed it would be named."""
    response = ElectLeadersResponse()
    try:
        request.session.require("alter", "cluster", CLUSTER)
    except MainstemError as error:
        response.error_code = code_of(error)
    slices = Slices()
    for topic in message.topic_partitions or ():
        look = partial(_election, request, response.error_code, topic.topic)
        told = await slices.each(look, topic.partitions)
        response.replica_election_results.append(
            ReplicaElectionResult(topic=topic.topic, partition_result=told)
        )
    return response


def _election(request: Request, refused: int, name: str, index: int) -> PartitionResult:
    if refused:
        return PartitionResult(partition_id=index, error_code=refused)
    try:
        topics = request.broker.topics
        topics.partition(topics.get(name), index)
    except MainstemError as error:
        return PartitionResult(partition_id=index, error_code=code_of(error), error_message=text_of(error))
    return PartitionResult(
        partition_id=index,
        error_code=_ELECTION_NOT_NEEDED,
        error_message="Leader election not needed for topic partition.",
    )


# --- reassignments -----------------------------------------------------------------------------


async def alter_reassignments(
    request: Request, message: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=message.allow_replication_factor_change
    )
    try:
        request.session.require("alter", "cluster", CLUSTER)
    except MainstemError as error:
        response.error_code, response.error_message = code_of(error), text_of(error)
        return response
    slices = Slices()
    for topic in message.topics:
        told = await slices.each(partial(_reassignment, request, topic.name), topic.partitions)
        response.responses.append(ReassignableTopicResponse(name=topic.name, partitions=told))
    return response


def _reassignment(
    request: Request, name: str, wanted: ReassignablePartition
) -> ReassignablePartitionResponse:
    """To the broker where it is: done. To any other: not possible. To cancel: there is nothing under way."""
    result = ReassignablePartitionResponse(partition_index=wanted.partition_index)
    try:
        topics = request.broker.topics
        topics.partition(topics.get(name), wanted.partition_index)
        if wanted.replicas is None:
            result.error_code = _NO_REASSIGNMENT_IN_PROGRESS
            result.error_message = "No partition reassignment is in progress."
        else:
            check_replicas(request, wanted.replicas)
    except MainstemError as error:
        result.error_code, result.error_message = code_of(error), text_of(error)
    return result


async def list_reassignments(
    request: Request, message: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    response = ListPartitionReassignmentsResponse()
    try:
        request.session.require("describe", "cluster", CLUSTER)
    except MainstemError as error:
        response.error_code, response.error_message = code_of(error), text_of(error)
    return response
