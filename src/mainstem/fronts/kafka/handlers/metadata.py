"""Metadata and DescribeTopicPartitions: which topics there are, and where.

With a hundred thousand topics an answer about all of them takes megabytes and a good part of a second to
make. It is made in slices of the loop's time, once for everyone who may see every topic, and kept until
topics change.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from itertools import islice
from weakref import WeakKeyDictionary

from mainstem.broker import admin
from mainstem.broker.broker import Broker
from mainstem.broker.partition import Partition, Topic
from mainstem.broker.topics import TopicCreated
from mainstem.fronts.kafka.codes import code_of
from mainstem.fronts.kafka.encoding import LARGE_ANSWER, Encoded, encoded_if_large
from mainstem.fronts.kafka.handlers.cluster import cluster_operations
from mainstem.fronts.kafka.handlers.topics import require_create, too_many
from mainstem.fronts.kafka.operations import authorized_operations
from mainstem.fronts.kafka.session import Request
from mainstem.fronts.kafka.slices import Slices
from mainstem.model.errors import InvalidRequest, MainstemError, UnknownTopic, UnknownTopicId
from mainstem.wire.kafka.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from mainstem.wire.kafka.schema import NULL_UUID

# From this version on a topic can be asked for by its id alone.
_BY_ID_SINCE = 12
# Answers about all topics that are kept: clients of one kind ask in one version and by one address.
_KEPT_ANSWERS = 4
# Partitions in one answer of DescribeTopicPartitions, whatever was asked for.
_LARGEST_PAGE = 2000


class _Known:
    """What was made of one broker's topics; good while their version is the same."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self._version = -1
        self.answers: dict[tuple[int, tuple[str, int]], Encoded] = {}
        self.names: list[str] = []

    def at(self, version: int) -> _Known:
        if version != self._version:
            self._version = version
            self.answers, self.names = {}, []
        return self


_known: WeakKeyDictionary[Broker, _Known] = WeakKeyDictionary()


def _known_of(broker: Broker) -> _Known:
    return _known.setdefault(broker, _Known()).at(broker.topics.version)


# --- Metadata ----------------------------------------------------------------------------------


async def metadata(request: Request, message: MetadataRequest) -> MetadataResponse | Encoded:
    # Version 0 asks for all topics with an empty list, later ones with null.
    if message.topics is None or (request.version == 0 and not message.topics):
        return await _everything(request, message)
    response = _about_cluster(request, message)
    last: asyncio.Future[None] | None = None
    may_create = message.allow_auto_topic_creation and request.broker.options.auto_create
    # As in CreateTopics. Whoever asks again for what did not fit may have it then.
    partitions_left = request.broker.options.max_partitions
    slices = Slices()
    told: set[tuple[str | None, bytes]] = set()
    for wanted in message.topics:
        if wanted.name is None and request.version < _BY_ID_SINCE:
            raise InvalidRequest(f"topics have no names; version {request.version} needs them")
        key = (wanted.name, wanted.topic_id)
        if key in told:  # as in Kafka; a topic may have many partitions, and its name is short
            continue
        told.add(key)
        try:
            topic = _find(request, wanted)
            if topic is None:
                planned = _planned(request, str(wanted.name), may_create, partitions_left)
                partitions_left -= len(planned.partition_ids)
                if partitions_left < 0:
                    raise too_many()
                last = admin.create_topic(request.broker, planned)
                topic = request.broker.topics.by_id[planned.topic_id]
            response.topics.append(_described(request, topic, message))
        except MainstemError as error:
            response.topics.append(
                MetadataResponseTopic(error_code=code_of(error), name=wanted.name, topic_id=wanted.topic_id)
            )
        if slices.used_up():
            await slices.rest()
    if last is not None:
        await last
    return await encoded_if_large(response, request.version, len(response.topics))


async def _everything(request: Request, message: MetadataRequest) -> MetadataResponse | Encoded:
    topics = request.broker.topics
    visible = await _visible(request)
    asks_rights = message.include_topic_authorized_operations or message.include_cluster_authorized_operations
    if len(visible) < LARGE_ANSWER or len(visible) < len(topics.by_name) or asks_rights:
        return await _made(request, message, visible)
    key = (request.version, request.session.told_address)
    async with _known_of(request.broker).lock:  # so that of many who ask at once one does the work
        found = _known_of(request.broker).answers.get(key)
        if found is not None:
            return found
        version = topics.version
        made = await _made(request, message, list(topics.by_name.values()))
        if isinstance(made, Encoded) and topics.version == version:
            kept = _known_of(request.broker).answers
            kept[key] = made
            while len(kept) > _KEPT_ANSWERS:
                del kept[next(iter(kept))]
        return made


async def _visible(request: Request) -> list[Topic]:
    session, slices = request.session, Slices()
    visible = []
    for topic in list(request.broker.topics.by_name.values()):
        if session.allows("describe", "topic", topic.name):
            visible.append(topic)
        if slices.used_up():
            await slices.rest()
    return visible


async def _made(
    request: Request, message: MetadataRequest, topics: list[Topic]
) -> MetadataResponse | Encoded:
    response = _about_cluster(request, message)
    slices = Slices()
    for topic in topics:
        response.topics.append(_described(request, topic, message))
        if slices.used_up():
            await slices.rest()
    return await encoded_if_large(response, request.version, len(response.topics))


def _about_cluster(request: Request, message: MetadataRequest) -> MetadataResponse:
    broker = request.broker
    host, port = request.session.told_address
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=broker.options.node_id, host=host, port=port)],
        cluster_id=broker.cluster_id,
        controller_id=broker.options.node_id,
        cluster_authorized_operations=cluster_operations(
            request, asked=message.include_cluster_authorized_operations
        ),
    )


def _find(request: Request, wanted: MetadataRequestTopic) -> Topic | None:
    """None: there is no topic of that name, and the client may know."""
    session, topics = request.session, request.broker.topics
    if wanted.name is None or wanted.topic_id != NULL_UUID:  # with an id Java sends an empty name, not null
        topic = topics.get_by_id(wanted.topic_id)
        if not session.allows("describe", "topic", topic.name):
            # Who may not see it must not learn that it exists.
            raise UnknownTopicId(f"there is no topic with id {wanted.topic_id.hex()}")
        return topic
    session.require("describe", "topic", wanted.name)
    return topics.by_name.get(wanted.name)


def _planned(request: Request, name: str, may_create: bool, partitions_left: int) -> TopicCreated:
    """For what a client only named."""
    if not may_create:
        raise UnknownTopic(f"there is no topic {name!r}")
    if partitions_left < 0:
        raise too_many()
    require_create(request.session, name)
    return request.broker.plan_topic(name)


def _described(request: Request, topic: Topic, message: MetadataRequest) -> MetadataResponseTopic:
    node = [request.broker.options.node_id]
    described = MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[
            MetadataResponsePartition(0, partition.index, node[0], partition.leader_epoch, node, node)
            for partition in topic.partitions
        ],
    )
    if message.include_topic_authorized_operations:
        described.topic_authorized_operations = authorized_operations(request.session, "topic", topic.name)
    return described


# --- DescribeTopicPartitions -------------------------------------------------------------------


async def describe_partitions(
    request: Request, message: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Topics in the order of their names, from the cursor on, until the page is full."""
    cursor = message.cursor
    asked = sorted({topic.name for topic in message.topics})
    names = asked or _sorted_names(request.broker)
    start = bisect_left(names, cursor.topic_name) if cursor is not None else 0
    response = DescribeTopicPartitionsResponse()
    left = max(1, min(message.response_partition_limit, _LARGEST_PAGE))
    slices = Slices()
    for name in islice(names, start, None):
        first = max(cursor.partition_index, 0) if cursor is not None and cursor.topic_name == name else 0
        if not left:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        if slices.used_up():
            await slices.rest()
        described = _described_page(request, name, first, left, listed=bool(asked))
        if described is None:
            continue
        topic, more = described
        response.topics.append(topic)
        left -= len(topic.partitions)
        if more:
            response.next_cursor = Cursor(topic_name=name, partition_index=first + len(topic.partitions))
            break
    return response


def _described_page(
    request: Request, name: str, first: int, limit: int, *, listed: bool
) -> tuple[DescribeTopicPartitionsResponseTopic, bool] | None:
    """As many of a topic's partitions as fit, and whether there are more. None: not for this client."""
    session, topics = request.session, request.broker.topics
    described = DescribeTopicPartitionsResponseTopic(name=name)
    try:
        session.require("describe", "topic", name)
        topic = topics.get(name)
    except MainstemError as error:
        if not listed:
            return None
        described.error_code = code_of(error)
        return described, False
    described.topic_id, described.is_internal = topic.id, topic.internal
    described.topic_authorized_operations = authorized_operations(session, "topic", name)
    partitions = topic.partitions[first : first + limit]
    described.partitions = [_partition(request, partition) for partition in partitions]
    return described, first + limit < len(topic.partitions)


def _partition(request: Request, partition: Partition) -> DescribeTopicPartitionsResponsePartition:
    node = [request.broker.options.node_id]
    return DescribeTopicPartitionsResponsePartition(
        partition_index=partition.index,
        leader_id=node[0],
        leader_epoch=partition.leader_epoch,
        replica_nodes=node,
        isr_nodes=node,
        eligible_leader_replicas=[],
        last_known_elr=[],
    )


def _sorted_names(broker: Broker) -> list[str]:
    known = _known_of(broker)
    if not known.names:
        known.names = sorted(broker.topics.by_name)
    return known.names
