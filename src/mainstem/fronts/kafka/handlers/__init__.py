"""One table: which function answers which API."""

from __future__ import annotations

from mainstem.fronts.kafka.dispatch import Handler, HotHandler
from mainstem.fronts.kafka.handlers import api_versions, configs, list_offsets, metadata, topics
from mainstem.fronts.kafka.handlers.fetch import fetch
from mainstem.fronts.kafka.handlers.produce import produce
from mainstem.wire.kafka.apis import ApiKey

HOT_HANDLERS: dict[ApiKey, HotHandler] = {
    ApiKey.PRODUCE: produce,
    ApiKey.FETCH: fetch,
}

HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.API_VERSIONS: api_versions.handle,
    ApiKey.METADATA: metadata.metadata,
    ApiKey.LIST_OFFSETS: list_offsets.handle,
    ApiKey.CREATE_TOPICS: topics.create,
    ApiKey.DELETE_TOPICS: topics.delete,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.DESCRIBE_CONFIGS: configs.describe,
    ApiKey.ALTER_CONFIGS: configs.alter,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.alter_incrementally,
    ApiKey.LIST_CONFIG_RESOURCES: configs.list_resources,
}

# What a connection may ask before it has said who it is.
OPEN_BEFORE_LOGIN = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
