"""Which APIs and versions this broker offers: exactly those that work."""

from __future__ import annotations

from mainstem.wire.kafka.api_versions import ApiVersion, FinalizedFeatureKey, SupportedFeatureKey
from mainstem.wire.kafka.apis import SPECS, ApiKey

# librdkafka takes a broker that does not offer Produce 0 to 2 for one that cannot compress. They are
# offered and refused: no client that also knows version 3 sends them.
PRODUCE_OFFERED_FROM = 0

# KIP-110: the first Fetch whose clients read zstd, and its number among the codecs. As in Kafka the topic's
# setting decides: where a topic keeps batches as they were sent nobody looks into them on their way out.
ZSTD_SINCE, ZSTD = 10, 4

# Where less than what the codec knows is offered.
LIMITS: dict[ApiKey, tuple[int, int]] = {
    ApiKey.INIT_PRODUCER_ID: (0, 5),  # 6 is two-phase commit with an outside coordinator
}


def offered(keys: set[ApiKey]) -> dict[ApiKey, tuple[int, int]]:
    """Versions by API, for APIs that have a handler."""
    return {key: LIMITS.get(key, (SPECS[key].min_version, SPECS[key].max_version)) for key in sorted(keys)}


# Our own APIs, which only our own client is told of: others have met no such numbers.
OWN = frozenset({ApiKey.PUBLISH_STAGED})
OWN_CLIENT = "mainstem-client"


def api_versions(versions: dict[ApiKey, tuple[int, int]], software: str = "") -> list[ApiVersion]:
    return [
        ApiVersion(
            api_key=key,
            min_version=PRODUCE_OFFERED_FROM if key is ApiKey.PRODUCE else low,
            max_version=high,
        )
        for key, (low, high) in versions.items()
        if key not in OWN or software == OWN_CLIENT
    ]


# Features that clients look at: the highest level that works here, finalized from the start.
FEATURES: dict[str, int] = {
    "group.version": 1,  # the broker assigns
    "share.version": 1,  # share groups
    "transaction.version": 2,  # a new epoch per transaction
}


def supported_features() -> list[SupportedFeatureKey]:
    return [
        SupportedFeatureKey(name=name, min_version=0, max_version=level) for name, level in FEATURES.items()
    ]


def finalized_features() -> list[FinalizedFeatureKey]:
    return [
        FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
        for name, level in FEATURES.items()
    ]
