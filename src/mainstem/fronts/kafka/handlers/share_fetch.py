"""ShareFetch and ShareAcknowledge: a member says what became of records, and gets others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TypeAlias, TypeVar

from mainstem.broker.partition import Partition
from mainstem.broker.shares import (
    CLOSE_EPOCH,
    MOST_LOCKS,
    OPEN_EPOCH,
    Acknowledgement,
    Delivered,
    Key,
    ShareSession,
    Verdict,
    Wanted,
)
from mainstem.fronts.kafka.codes import code_of, code_of_read, text_of
from mainstem.fronts.kafka.handlers.groups import MAX_NAME_LENGTH
from mainstem.fronts.kafka.session import Request
from mainstem.fronts.kafka.slices import Slices
from mainstem.model.errors import InvalidRequest, InvalidShareSessionEpoch, MainstemError
from mainstem.wire.kafka.share_fetch import (
    AcknowledgementBatch,
    AcknowledgeTopic,
    AcquiredRecords,
    LeaderIdAndEpoch,
    ShareAcknowledgePartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
    ShareFetchableTopicResponse,
    ShareFetchPartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
)

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
VERDICTS = {
    GAP: Verdict.DONE,
    ACCEPT: Verdict.DONE,
    RELEASE: Verdict.AGAIN,
    REJECT: Verdict.DONE,
    RENEW: Verdict.KEEP,
}
RECORD_LIMIT = 1  # the acquire mode in which the number of records is a limit, not a wish
MAX_WAIT_MS = 300_000

Data = TypeVar("Data", ShareFetchPartitionData, ShareAcknowledgePartitionData)
Errors: TypeAlias = dict[Key, MainstemError | None]  # None: it went well


# --- fetch ---------------------------------------------------------------------------------------


async def fetch(request: Request, message: ShareFetchRequest) -> ShareFetchResponse:
    shares = request.broker.shares
    epoch = message.share_session_epoch
    try:
        group, member = _who(request, message.group_id, message.member_id)
        acks = _acks(message.topics)
        if acks and epoch == OPEN_EPOCH:
            raise InvalidRequest("there is nothing to acknowledge in a new session")
        session = shares.sessions.use(group, member, epoch, request.broker.clock.monotonic_ms())
        _note_owner(request, session, group, member)
        session.change(
            (
                (topic.topic_id, one.partition_index)
                for topic in message.topics
                for one in topic.partitions
                if epoch != CLOSE_EPOCH
            ),
            (
                (topic.topic_id, index)
                for topic in message.forgotten_topics_data
                for index in topic.partitions
            ),
        )
    except MainstemError as error:
        return ShareFetchResponse(error_code=code_of(error), error_message=text_of(error))
    acked = await _acknowledge(request, group, member, acks, message.is_renew_ack)
    delivered: dict[Key, Delivered] = {}
    errors: Errors = {}
    if epoch == CLOSE_EPOCH:
        _close(request, group, member)
    elif message.max_records > 0 and message.max_bytes > 0 and not message.is_renew_ack:
        partitions = _partitions(request, session, errors)
        # Who is to hear of something is not kept waiting for records.
        wait_ms = 0 if acked or errors else max(0, min(message.max_wait_ms, MAX_WAIT_MS))
        wanted = Wanted(
            message.max_records,
            _max_bytes(request, message.max_bytes),
            wait_ms,
            message.share_acquire_mode == RECORD_LIMIT,
        )
        for one in await shares.fetch(group, member, partitions, wanted):
            delivered[(one.partition.topic.id, one.partition.index)] = one
    answer = [
        (key, _partition_data(request, key, acked.get(key), errors.get(key), delivered.get(key)))
        for key in dict.fromkeys((*acked, *errors, *delivered))
    ]
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=shares.settings(group).lock_ms,
        responses=[
            ShareFetchableTopicResponse(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in _by_topic(answer).items()
        ],
    )


def _note_owner(request: Request, session: ShareSession, group: str, member: str) -> None:
    """The last connection that fetched: with it goes what the member holds."""
    if session.owner is not request.session:
        session.owner = request.session
        request.session.share_members = {*(request.session.share_members or ()), (group, member)}


def _close(request: Request, group: str, member: str) -> None:
    request.broker.shares.release(group, member)
    if request.session.share_members is not None:
        request.session.share_members.discard((group, member))


def _max_bytes(request: Request, asked: int) -> int:
    listener = request.session.listener
    return listener.answers.allowed(min(asked, listener.max_response_bytes))


def _partitions(request: Request, session: ShareSession, errors: Errors) -> list[Partition]:
    """Those of the session that may be read; of the others, why not."""
    found: list[Partition] = []
    for key in session.in_turn():
        try:
            found.append(_partition(request, key))
        except MainstemError as error:
            errors[key] = error
    return found


def _partition_data(
    request: Request,
    key: Key,
    acknowledged: MainstemError | None,
    error: MainstemError | None,
    delivered: Delivered | None,
) -> ShareFetchPartitionData:
    data = ShareFetchPartitionData(partition_index=key[1], records=b"", current_leader=_leader(request))
    if acknowledged is not None:
        data.acknowledge_error_code = code_of(acknowledged)
        data.acknowledge_error_message = text_of(acknowledged)
    if delivered is not None:
        error = error or delivered.error
        data.records = delivered.data
        data.acquired_records = [
            AcquiredRecords(first_offset=first, last_offset=stop - 1, delivery_count=delivery)
            for first, stop, delivery in delivered.lent
        ]
        data.current_leader.leader_epoch = delivered.partition.leader_epoch
    if error is not None:
        data.error_code, data.error_message = code_of_read(error), text_of(error)
    return data


# --- acknowledge ---------------------------------------------------------------------------------


async def acknowledge(request: Request, message: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
    shares = request.broker.shares
    epoch = message.share_session_epoch
    try:
        group, member = _who(request, message.group_id, message.member_id)
        if epoch == OPEN_EPOCH:
            raise InvalidShareSessionEpoch("a session is opened by a fetch")
        acks = _acks(message.topics)
        shares.sessions.use(group, member, epoch, request.broker.clock.monotonic_ms())
    except MainstemError as error:
        return ShareAcknowledgeResponse(error_code=code_of(error), error_message=text_of(error))
    acked = await _acknowledge(request, group, member, acks, message.is_renew_ack)
    if epoch == CLOSE_EPOCH:
        _close(request, group, member)
    answer = [
        (
            key,
            ShareAcknowledgePartitionData(
                partition_index=key[1],
                error_code=0 if error is None else code_of(error),
                error_message=None if error is None else text_of(error),
                current_leader=_leader(request),
            ),
        )
        for key, error in acked.items()
    ]
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=shares.settings(group).lock_ms,
        responses=[
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in _by_topic(answer).items()
        ],
    )


# --- both ----------------------------------------------------------------------------------------


def _who(request: Request, group: str | None, member: str | None) -> tuple[str, str]:
    request.session.require("read", "group", group or "")
    if not group or not member or len(member) > MAX_NAME_LENGTH:
        raise InvalidRequest("a group and a member are named, the member by a short id")
    request.broker.shares.check(group)
    return group, member


def _acks(
    topics: Sequence[ShareFetchTopic] | Sequence[AcknowledgeTopic],
) -> dict[Key, list[AcknowledgementBatch]]:
    acks: dict[Key, list[AcknowledgementBatch]] = {}
    for topic in topics:
        for one in topic.partitions:
            if one.acknowledgement_batches:
                if (topic.topic_id, one.partition_index) in acks:
                    raise InvalidRequest(f"partition {one.partition_index} is named twice")
                acks[(topic.topic_id, one.partition_index)] = one.acknowledgement_batches
    return acks


async def _acknowledge(
    request: Request,
    group: str,
    member: str,
    acks: dict[Key, list[AcknowledgementBatch]],
    may_renew: bool,
) -> Errors:
    """Each partition for itself; one wait for the disk."""
    results: Errors = {}
    waits: list[asyncio.Future[None]] = []
    slices = Slices()
    for key, batches in acks.items():
        results[key] = None
        try:
            partition = _partition(request, key)
            if len(batches) > MOST_LOCKS:
                raise InvalidRequest(f"{len(batches)} acknowledgements; nobody holds so many records")
            judged = [_judged(batch, may_renew) for batch in batches]
            done = request.broker.shares.acknowledge(group, member, partition, judged)
            if done is not None:
                waits.append(done)
        except MainstemError as error:
            results[key] = error
        if slices.used_up():
            await slices.rest()
    for wait in waits:
        await wait
    return results


def _judged(batch: AcknowledgementBatch, may_renew: bool) -> Acknowledgement:
    if len(batch.acknowledge_types) > MOST_LOCKS:
        raise InvalidRequest(f"{len(batch.acknowledge_types)} types; nobody holds so many records")
    kinds = set(batch.acknowledge_types)
    if not kinds <= VERDICTS.keys() or (RENEW in kinds and not may_renew):
        raise InvalidRequest(f"acknowledge types {sorted(kinds)} at offset {batch.first_offset}")
    return Acknowledgement(
        batch.first_offset, batch.last_offset + 1, [VERDICTS[one] for one in batch.acknowledge_types]
    )


def _partition(request: Request, key: Key) -> Partition:
    topics = request.broker.topics
    topic = topics.get_by_id(key[0])
    request.session.require("read", "topic", topic.name)
    return topics.partition(topic, key[1])


def _leader(request: Request) -> LeaderIdAndEpoch:
    return LeaderIdAndEpoch(leader_id=request.broker.options.node_id, leader_epoch=0)


def _by_topic(answer: Iterable[tuple[Key, Data]]) -> dict[bytes, list[Data]]:
    grouped: dict[bytes, list[Data]] = {}
    for (topic_id, _), data in answer:
        grouped.setdefault(topic_id, []).append(data)
    return grouped
