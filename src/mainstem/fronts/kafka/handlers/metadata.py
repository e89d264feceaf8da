"""ApiVersions and Metadata: what the broker speaks, and which topics there are."""

from __future__ import annotations

from mainstem.broker.partition import Topic
from mainstem.fronts.kafka.codes import code_of
from mainstem.fronts.kafka.session import Request, Session
from mainstem.model.errors import MainstemError, NotAuthorized, TopicExists, UnknownTopic
from mainstem.wire.kafka.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NO_ID = bytes(16)


async def metadata(request: Request, message: MetadataRequest) -> MetadataResponse:
    session, broker = request.session, request.broker
    host, port = session.told_address
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=broker.options.node_id, host=host, port=port)],
        cluster_id=broker.cluster_id,
        controller_id=broker.options.node_id,
    )
    # Version 0 asks for all topics with an empty list, later ones with null.
    if message.topics is None or (request.version == 0 and not message.topics):
        response.topics = [
            _described(request, topic)
            for topic in broker.topics.by_name.values()
            if session.allows("describe", "topic", topic.name)
        ]
    else:
        may_create = message.allow_auto_topic_creation and broker.options.auto_create
        response.topics = [await _wanted(request, wanted, may_create) for wanted in message.topics]
    return response


async def _wanted(request: Request, wanted: MetadataRequestTopic, may_create: bool) -> MetadataResponseTopic:
    try:
        return _described(request, await _find(request, wanted, may_create))
    except MainstemError as error:
        return MetadataResponseTopic(error_code=code_of(error), name=wanted.name, topic_id=wanted.topic_id)


async def _find(request: Request, wanted: MetadataRequestTopic, may_create: bool) -> Topic:
    session, broker = request.session, request.broker
    if wanted.name is None:
        topic = broker.topics.get_by_id(wanted.topic_id)
        session.require("describe", "topic", topic.name)
        return topic
    session.require("describe", "topic", wanted.name)
    found = broker.topics.by_name.get(wanted.name)
    if found is not None:
        return found
    if not may_create:
        raise UnknownTopic(f"there is no topic {wanted.name!r}")
    _require_create(session, wanted.name)
    try:
        return await broker.create_topic(wanted.name)
    except TopicExists:  # someone else was quicker
        return broker.topics.get(wanted.name)


def _require_create(session: Session, name: str) -> None:
    if not session.allows("create", "cluster", "kafka-cluster") and not session.allows(
        "create", "topic", name
    ):
        raise NotAuthorized(session.principal, "create", "topic", name)


def _described(request: Request, topic: Topic) -> MetadataResponseTopic:
    node = [request.broker.options.node_id]
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[
            MetadataResponsePartition(
                partition_index=partition.index,
                leader_id=node[0],
                leader_epoch=partition.leader_epoch,
                replica_nodes=node,
                isr_nodes=node,
            )
            for partition in topic.partitions
        ],
    )
