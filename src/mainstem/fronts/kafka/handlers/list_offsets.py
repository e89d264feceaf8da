"""ListOffsets: places in a partition by time or by name. OffsetForLeaderEpoch: where a reign ended."""

from __future__ import annotations

from functools import partial

from mainstem.broker.partition import Partition
from mainstem.fronts.kafka.codes import code_of
from mainstem.fronts.kafka.encoding import Encoded, encoded_if_large
from mainstem.fronts.kafka.session import Request
from mainstem.fronts.kafka.slices import Slices
from mainstem.model.errors import (
    FencedLeaderEpoch,
    InvalidRequest,
    MainstemError,
    UnknownLeaderEpoch,
    UnsupportedVersion,
)
from mainstem.wire.kafka.offsets import (
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = (
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
)
# The version in which clients were told of each. Others below 0 mean nothing.
KNOWN_SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
READ_COMMITTED = 1
NOT_FOUND = (-1, -1)


async def handle(request: Request, message: ListOffsetsRequest) -> ListOffsetsResponse | Encoded:
    committed = message.isolation_level == READ_COMMITTED
    response = ListOffsetsResponse()
    slices = Slices()
    twice = await _named_twice(message, slices)
    count = 0
    for topic in message.topics:
        answers = []
        for wanted in topic.partitions:
            refused = twice.get((topic.name, wanted.partition_index))
            if refused is None:
                answers.append(await _one(request, topic.name, wanted, committed))
            elif refused:  # one answer is enough
                twice[topic.name, wanted.partition_index] = False
                answers.append(
                    ListOffsetsPartitionResponse(
                        partition_index=wanted.partition_index, error_code=code_of(InvalidRequest())
                    )
                )
            if slices.used_up():
                await slices.rest()
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        count += len(answers) + 1
    return await encoded_if_large(response, request.version, count)


async def _named_twice(message: ListOffsetsRequest, slices: Slices) -> dict[tuple[str, int], bool]:
    """Partitions that are asked for more than once, which is no question: each with True."""
    seen: set[tuple[str, int]] = set()
    twice: dict[tuple[str, int], bool] = {}
    for topic in message.topics:
        for wanted in topic.partitions:
            key = (topic.name, wanted.partition_index)
            if key in seen:
                twice[key] = True
            seen.add(key)
            if slices.used_up():
                await slices.rest()
    return twice


async def _one(
    request: Request, topic_name: str, wanted: ListOffsetsPartition, committed: bool
) -> ListOffsetsPartitionResponse:
    index = wanted.partition_index
    try:
        request.session.require("describe", "topic", topic_name)
        _check_known(wanted.timestamp, request.version)
        topics = request.broker.topics
        partition = topics.partition(topics.get(topic_name), index)
        check_epoch(partition, wanted.current_leader_epoch)
        offset, timestamp = await _find(request, partition, wanted.timestamp, committed)
    except MainstemError as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=code_of(error))
    epoch = _epoch_of(partition, offset, wanted.timestamp)
    return ListOffsetsPartitionResponse(
        partition_index=index, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _epoch_of(partition: Partition, offset: int, timestamp_ms: int) -> int:
    """That of the batch. The end is told with the present one, whatever lies before it: so does Kafka."""
    if offset < 0:
        return -1
    if timestamp_ms == LATEST:
        return partition.leader_epoch
    return next(epoch for epoch, start in reversed(partition.epochs) if start <= offset)


def _check_known(timestamp_ms: int, version: int) -> None:
    if timestamp_ms < 0 and version < KNOWN_SINCE.get(timestamp_ms, version + 1):
        raise UnsupportedVersion(f"timestamp {timestamp_ms} means nothing in version {version}")


def check_epoch(partition: Partition, epoch: int) -> None:
    """A client that names a leader's epoch must name the present one."""
    if epoch < 0 or epoch == partition.leader_epoch:
        return
    if epoch < partition.leader_epoch:
        raise FencedLeaderEpoch(f"leader epoch {epoch} is over")
    raise UnknownLeaderEpoch(f"leader epoch {epoch} has not begun")


async def _find(
    request: Request, partition: Partition, timestamp_ms: int, committed: bool
) -> tuple[int, int]:
    """(offset, timestamp); (-1, -1) when there is nothing to find."""
    broker = request.broker
    upto = partition.last_stable_offset() if committed else partition.high_watermark
    if timestamp_ms == LATEST:
        return upto, -1
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return partition.log_start, -1
    if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND
    if timestamp_ms == MAX_TIMESTAMP:
        found = await broker.store.in_reader(broker.reading.max_timestamp, partition, upto)
        return found or NOT_FOUND
    found = await broker.store.in_reader(broker.reading.offset_for_time, partition, timestamp_ms, upto)
    return found or NOT_FOUND


# --- OffsetForLeaderEpoch ------------------------------------------------------------------------


async def epoch_ends(
    request: Request, message: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse | Encoded:
    slices, response, count = Slices(), OffsetForLeaderEpochResponse(), 0
    for topic in message.topics:
        ends = await slices.each(partial(_epoch_end, request, topic.topic), topic.partitions)
        response.topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends))
        count += len(ends) + 1
    return await encoded_if_large(response, request.version, count)


def _epoch_end(request: Request, topic_name: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    """The present epoch ends where the partition does; of an epoch that has not been, nothing is known."""
    end = EpochEndOffset(partition=wanted.partition)
    try:
        request.session.require("describe", "topic", topic_name)
        topics = request.broker.topics
        partition = topics.partition(topics.get(topic_name), wanted.partition)
        check_epoch(partition, wanted.current_leader_epoch)
    except MainstemError as error:
        end.error_code = code_of(error)
        return end
    found = partition.epoch_end(wanted.leader_epoch)
    if found is not None:
        end.leader_epoch, end.end_offset = found
    return end
