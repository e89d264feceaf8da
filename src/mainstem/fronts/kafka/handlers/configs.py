"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources.

Topics and share groups have configs that can be changed. The broker's are its settings: they can be read, and
to change them is refused. Loggers and client metrics have none here, and the answer says so.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from mainstem.broker import admin
from mainstem.broker.configs import Entry, Source, Synonym, broker_entries, topic_entries
from mainstem.broker.group_configs import changed_group_configs, group_entries
from mainstem.fronts.kafka.codes import code_of, text_of
from mainstem.fronts.kafka.encoding import Encoded, encoded_if_large
from mainstem.fronts.kafka.session import Request, Session
from mainstem.fronts.kafka.slices import Slices
from mainstem.model.errors import InvalidRequest, MainstemError, NotSupported
from mainstem.wire.kafka.configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
_NOT_KEPT = {BROKER_LOGGER: "loggers", CLIENT_METRICS: "client metrics"}
CLUSTER = "kafka-cluster"

SOURCES = {Source.TOPIC: 1, Source.SETTING: 4, Source.DEFAULT: 5, Source.GROUP: 8}
_KINDS = {"boolean": 1, "string": 2, "int": 3, "long": 5, "double": 6, "list": 7}


# --- look --------------------------------------------------------------------------------------


async def describe(request: Request, message: DescribeConfigsRequest) -> DescribeConfigsResponse | Encoded:
    response = DescribeConfigsResponse()
    slices = Slices()
    told: set[tuple[int, str, tuple[str, ...]]] = set()
    for resource in message.resources:
        key = (resource.resource_type, resource.resource_name, tuple(resource.configuration_keys or ()))
        if key in told:  # once is enough: its configs are many, and its name is short
            continue
        told.add(key)
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        response.results.append(result)
        try:
            entries = _entries(request, resource)
        except MainstemError as error:
            result.error_code, result.error_message = code_of(error), text_of(error)
            continue
        wanted = resource.configuration_keys
        result.configs = [
            _described(entry, message) for entry in entries if not wanted or entry.name in wanted
        ]
        if slices.used_up():
            await slices.rest()
    return await encoded_if_large(response, request.version, len(response.results))


def _entries(request: Request, resource: DescribeConfigsResource) -> list[Entry]:
    kind, name = resource.resource_type, resource.resource_name
    session, broker = request.session, request.broker
    if kind == TOPIC:
        session.require("describe_configs", "topic", name)
        return topic_entries(broker.topics.policies, broker.topics.get(name).configs)
    if kind == GROUP:
        session.require("describe_configs", "group", name)
        return group_entries(broker.options, broker.shares.configs(name))
    session.require("describe_configs", "cluster", CLUSTER)
    if kind == BROKER:
        if not name:  # what was changed for all brokers while they run: nothing can be
            return []
        _check_broker(request, name)
        entries = [*broker_entries(broker.options, broker.topics.policies), _advertised(request.session)]
        return sorted(entries, key=lambda entry: entry.name)
    raise _not_kept(kind)


def _advertised(session: Session) -> Entry:
    """Where clients of this connection's listener are told to come back to."""
    listener = session.listener
    transport = "SSL" if listener.name.endswith("+tls") else "PLAINTEXT"
    host, port = session.told_address
    host = f"[{host}]" if ":" in host else host
    value = f"{'SASL_' if listener.needs_authentication else ''}{transport}://{host}:{port}"
    name, doc = "advertised.listeners", "The address that clients who asked through this listener are given."
    return Entry(name, value, "string", doc, True, (Synonym(name, value, Source.SETTING),))


def _check_broker(request: Request, name: str) -> None:
    node_id = request.broker.options.node_id
    if name and name != str(node_id):
        raise InvalidRequest(f"Unexpected broker id, expected {node_id} or empty string, but received {name}")


def _not_kept(kind: int) -> MainstemError:
    if kind in _NOT_KEPT:
        return NotSupported(f"there are no configs of {_NOT_KEPT[kind]} here")
    return InvalidRequest(f"Unexpected resource type {kind}")


def _described(entry: Entry, message: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    result = DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=entry.source is Source.DEFAULT,
        config_source=SOURCES[entry.source],
        config_type=_KINDS[entry.kind],
    )
    if message.include_synonyms:
        result.synonyms = [
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=SOURCES[synonym.source])
            for synonym in entry.synonyms
        ]
    if message.include_documentation:
        result.documentation = entry.doc
    return result


async def list_resources(
    request: Request, message: ListConfigResourcesRequest
) -> ListConfigResourcesResponse | Encoded:
    """Version 0 asks for client metrics only, of which there are none; later an empty list is all kinds."""
    response = ListConfigResourcesResponse()
    try:
        request.session.require("describe_configs", "cluster", CLUSTER)
        kinds = set(message.resource_types) or {TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP}
        if request.version == 0:
            kinds = {CLIENT_METRICS}
        if not kinds <= {TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP}:
            raise NotSupported("an unknown kind of resource")
    except MainstemError as error:
        response.error_code = code_of(error)
        return response
    slices = Slices()
    if TOPIC in kinds:
        for name in list(request.broker.topics.by_name):
            response.config_resources.append(ConfigResource(resource_name=name, resource_type=TOPIC))
            if slices.used_up():
                await slices.rest()
    if GROUP in kinds:
        for name in request.broker.shares.configured():
            response.config_resources.append(ConfigResource(resource_name=name, resource_type=GROUP))
    if BROKER in kinds:
        node = str(request.broker.options.node_id)
        response.config_resources.append(ConfigResource(resource_name=node, resource_type=BROKER))
    return await encoded_if_large(response, request.version, len(response.config_resources))


# --- change ------------------------------------------------------------------------------------

Change = tuple[str, int, str | None]  # name, operation, value
Resource = tuple[int, str]  # kind, name


async def alter(request: Request, message: AlterConfigsRequest) -> AlterConfigsResponse:
    """All of a resource's configs: those not named go back to their defaults."""
    wanted: list[tuple[Resource, list[Change]]] = [
        (
            (resource.resource_type, resource.resource_name),
            [(c.name, admin.SET, c.value) for c in resource.configs],
        )
        for resource in message.resources
    ]
    return AlterConfigsResponse(
        responses=await _change(request, wanted, replace=True, validate_only=message.validate_only)
    )


async def alter_incrementally(
    request: Request, message: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    wanted: list[tuple[Resource, list[Change]]] = [
        (
            (resource.resource_type, resource.resource_name),
            [(c.name, c.config_operation, c.value) for c in resource.configs],
        )
        for resource in message.resources
    ]
    return IncrementalAlterConfigsResponse(
        responses=await _change(request, wanted, replace=False, validate_only=message.validate_only)
    )


async def _change(
    request: Request, wanted: list[tuple[Resource, list[Change]]], *, replace: bool, validate_only: bool
) -> list[AlterConfigsResourceResponse]:
    """Each resource changes or not by itself; all that do share a wait for the disk."""
    named = Counter(resource for resource, _ in wanted)
    results = []
    last: asyncio.Future[None] | None = None
    slices = Slices()
    for resource, changes in wanted:
        result = AlterConfigsResourceResponse(resource_type=resource[0], resource_name=resource[1])
        results.append(result)
        try:
            if named[resource] > 1:
                raise InvalidRequest("Each resource must appear at most once.")
            change = _changed_group if resource[0] == GROUP else _changed_topic
            last = change(request, resource, changes, replace, validate_only) or last
        except MainstemError as error:
            result.error_code, result.error_message = code_of(error), text_of(error)
        if slices.used_up():
            await slices.rest()
    if last is not None:
        await last
    return results


def _changed_topic(
    request: Request, resource: Resource, changes: list[Change], replace: bool, validate_only: bool
) -> asyncio.Future[None] | None:
    """The wait for the disk, if there is anything to wait for."""
    _check_changeable(request, resource, changes)
    topic = request.broker.topics.get(resource[1])
    own = {} if replace else topic.configs
    configs = admin.changed_configs(own, request.broker.topics.policies.defaults, changes)
    if validate_only or configs == topic.configs:
        return None
    return admin.configure_topic(request.broker, topic, configs)


def _changed_group(
    request: Request, resource: Resource, changes: list[Change], replace: bool, validate_only: bool
) -> asyncio.Future[None] | None:
    group, shares = resource[1], request.broker.shares
    request.session.require("alter_configs", "group", group)
    _check_once(changes)
    before = shares.configs(group)
    configs = changed_group_configs(group, {} if replace else before, changes)
    return None if validate_only or configs == before else shares.configure(group, configs)


def _check_once(changes: list[Change]) -> None:
    if len({config for config, _, _ in changes}) < len(changes):
        raise InvalidRequest("Error due to duplicate config keys")


def _check_changeable(request: Request, resource: Resource, changes: list[Change]) -> None:
    kind, name = resource
    if kind == TOPIC:
        request.session.require("alter_configs", "topic", name)
        request.broker.topics.get(name)
        _check_once(changes)
        return
    request.session.require("alter_configs", "cluster", CLUSTER)
    if kind == BROKER:
        _check_broker(request, name)
        names = ", ".join(config for config, _, _ in changes)
        raise InvalidRequest(
            f"Cannot update these configs dynamically: {names}; they are settings, read at the start"
        )
    raise _not_kept(kind)
