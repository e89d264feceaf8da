"""The first question of every client: which APIs, versions and features does this broker have?

The request of an unknown version is answered with a version 0 body and error 35, so that the client can ask
again with a version both know.
"""

from __future__ import annotations

from mainstem.wire.kafka.schema import BOOL, INT16, INT32, INT64, STRING, Message, array, wire


class ApiVersionsRequest(Message, flexible_since=3):
    """Who is asking; from version 4 on a client also takes features whose lowest version is 0."""

    client_software_name: str = wire(STRING, since=3)
    client_software_version: str = wire(STRING, since=3)


class ApiVersion(Message):
    api_key: int = wire(INT16)
    min_version: int = wire(INT16)
    max_version: int = wire(INT16)


class SupportedFeatureKey(Message):
    name: str = wire(STRING)
    min_version: int = wire(INT16)
    max_version: int = wire(INT16)


class FinalizedFeatureKey(Message):
    name: str = wire(STRING)
    max_version_level: int = wire(INT16)
    min_version_level: int = wire(INT16)


class ApiVersionsResponse(Message, flexible_since=3):
    error_code: int = wire(INT16)
    api_keys: list[ApiVersion] = wire(array(ApiVersion))
    throttle_time_ms: int = wire(INT32, since=1)
    supported_features: list[SupportedFeatureKey] = wire(array(SupportedFeatureKey), since=3, tag=0)
    finalized_features_epoch: int = wire(INT64, since=3, tag=1, default=-1)  # -1: unknown
    finalized_features: list[FinalizedFeatureKey] = wire(array(FinalizedFeatureKey), since=3, tag=2)
    zk_migration_ready: bool = wire(BOOL, since=3, tag=3)
