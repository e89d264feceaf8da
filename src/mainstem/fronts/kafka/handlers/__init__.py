"""One table: which function answers which API."""

from __future__ import annotations

from mainstem.fronts.kafka.dispatch import Handler, HotHandler
from mainstem.fronts.kafka.handlers import api_versions, list_offsets, metadata
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
}

# What a connection may ask before it has said who it is.
OPEN_BEFORE_LOGIN = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
