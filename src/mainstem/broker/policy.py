"""Topic configs: Kafka's names and texts, checked, and the plain values that the hot path reads.

Every config that clients may set is in `CONFIGS`. What a config cannot change here (files are shared by all
topics, and compacted together) is still taken and told back, because deployment tools set it everywhere; its
text says so. What would promise more than is kept, such as a second copy, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from weakref import WeakValueDictionary

from mainstem.model.batch import GZIP, LZ4, NO_CODEC, SNAPPY, ZSTD
from mainstem.model.errors import InvalidConfig

INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1
# Python's int() takes more: underscores, blanks, other scripts, thousands of digits.
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,30}")


@dataclass(frozen=True, slots=True)
class ConfigSpec:
    """One topic config. `kind` is the type that DescribeConfigs reports."""

    name: str
    kind: str  # boolean, string, int, long, double, list
    default: str
    doc: str
    check: Callable[[str], object]


def _number(low: int, high: int) -> Callable[[str], int]:
    def check(text: str) -> int:
        if _WHOLE_NUMBER.fullmatch(text) is None:
            raise InvalidConfig(f"{text!r} is not a whole number")
        value = int(text)
        if not low <= value <= high:
            raise InvalidConfig(f"{value} is not between {low} and {high}")
        return value

    return check


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InvalidConfig(f"{text!r} is not a number") from None
    if not 0 <= value <= 1:
        raise InvalidConfig(f"{value} is not between 0 and 1")
    return value


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidConfig(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _one_of(*allowed: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in allowed:
            raise InvalidConfig(f"{text!r} is not one of {', '.join(allowed)}")
        return text

    return check


def _some_of(*allowed: str) -> Callable[[str], frozenset[str]]:
    def check(text: str) -> frozenset[str]:
        parts = frozenset(part.strip() for part in text.split(",") if part.strip())
        if not parts <= set(allowed):
            raise InvalidConfig(f"{text!r} is not a list of {', '.join(allowed)}")
        return parts

    return check


def _one_copy(text: str) -> int:
    copies = _number(1, INT32_MAX)(text)
    if copies > 1:
        raise InvalidConfig("there is one copy, on disk before it is acknowledged; only 1 can be kept")
    return copies


def _anything(text: str) -> str:
    return text


# By the names that Kafka's configs use.
_CODECS = {"uncompressed": NO_CODEC, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}

_LONG, _INT = _number(0, INT64_MAX), _number(0, INT32_MAX)
_LONG_OR_NONE = _number(-1, INT64_MAX)

_SPECS = (
    ConfigSpec(
        "cleanup.policy",
        "list",
        "delete",
        "What may go: by age and size, by key; empty: nothing.",
        _some_of("delete", "compact"),
    ),
    ConfigSpec(
        "compression.type",
        "string",
        "producer",
        "How batches are compressed; producer: as they were sent.",
        _one_of("producer", *_CODECS),
    ),
    ConfigSpec("delete.retention.ms", "long", "86400000", "How long a tombstone stays.", _LONG),
    ConfigSpec(
        "durability",
        "string",
        "fsync",
        "Acknowledged means on disk (fsync), or in the operating system's hands (os): "
        "a power cut may then take acknowledged messages.",
        _one_of("fsync", "os"),
    ),
    ConfigSpec("file.delete.delay.ms", "long", "60000", "Taken and told back only.", _LONG),
    ConfigSpec(
        "flush.messages",
        "long",
        "1",
        "Every message is on disk before it is acknowledged.",
        _number(1, INT64_MAX),
    ),
    ConfigSpec("flush.ms", "long", "0", "Every message is on disk before it is acknowledged.", _LONG),
    ConfigSpec("follower.replication.throttled.replicas", "list", "", "Taken and told back only.", _anything),
    ConfigSpec("index.interval.bytes", "int", "4096", "Taken and told back only.", _INT),
    ConfigSpec("leader.replication.throttled.replicas", "list", "", "Taken and told back only.", _anything),
    ConfigSpec("local.retention.bytes", "long", "-2", "Taken and told back only.", _number(-2, INT64_MAX)),
    ConfigSpec("local.retention.ms", "long", "-2", "Taken and told back only.", _number(-2, INT64_MAX)),
    ConfigSpec(
        "max.compaction.lag.ms",
        "long",
        str(INT64_MAX),
        "Taken and told back only: all compacted topics are compacted together, once enough is new.",
        _number(1, INT64_MAX),
    ),
    ConfigSpec("max.message.bytes", "int", "1048588", "Largest batch, as sent.", _INT),
    ConfigSpec(
        "message.timestamp.after.max.ms", "long", "3600000", "How far ahead a timestamp may be.", _LONG
    ),
    ConfigSpec(
        "message.timestamp.before.max.ms", "long", str(INT64_MAX), "How old a timestamp may be.", _LONG
    ),
    ConfigSpec(
        "message.timestamp.type",
        "string",
        "CreateTime",
        "Whose clock counts.",
        _one_of("CreateTime", "LogAppendTime"),
    ),
    ConfigSpec(
        "min.cleanable.dirty.ratio",
        "double",
        "0.5",
        "Taken and told back only: all compacted topics are compacted together, by the broker's "
        "merge.min_dirty_ratio_percent.",
        _fraction,
    ),
    ConfigSpec("min.compaction.lag.ms", "long", "0", "How long a message is safe from compaction.", _LONG),
    ConfigSpec(
        "min.insync.replicas",
        "int",
        "1",
        "There is one copy, on disk before it is acknowledged: 1 only.",
        _one_copy,
    ),
    ConfigSpec("preallocate", "boolean", "true", "Journal files always are.", _boolean),
    ConfigSpec("remote.storage.enable", "boolean", "false", "Not here.", _one_of("false")),
    ConfigSpec("retention.bytes", "long", "-1", "How many bytes a partition keeps.", _LONG_OR_NONE),
    ConfigSpec("retention.ms", "long", "604800000", "How long messages stay.", _LONG_OR_NONE),
    ConfigSpec(
        "segment.bytes",
        "int",
        "1073741824",
        "Taken and told back only: files are shared.",
        _number(14, INT32_MAX),
    ),
    ConfigSpec("segment.index.bytes", "int", "10485760", "Taken and told back only.", _INT),
    ConfigSpec("segment.jitter.ms", "long", "0", "Taken and told back only.", _LONG),
    ConfigSpec(
        "segment.ms",
        "long",
        "604800000",
        "Of a compacted topic: how soon the file that its records lie in is finished, so that they can be "
        "compacted; 10 s at least, and never later than journal.file_age_ms.",
        _number(1, INT64_MAX),
    ),
    ConfigSpec("unclean.leader.election.enable", "boolean", "false", "There is one copy.", _boolean),
)

CONFIGS: Mapping[str, ConfigSpec] = {spec.name: spec for spec in _SPECS}
# Configs of older versions of Kafka that clients may still send with their only useful value.
RETIRED = {"message.format.version", "message.downconversion.enable"}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TopicPolicy:
    """What a topic's configs mean, as plain values; topics with equal configs share one."""

    max_message_bytes: int
    retention_ms: int
    retention_bytes: int
    delete: bool
    compact: bool
    append_time: bool
    before_max_ms: int
    after_max_ms: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    segment_ms: int
    early: bool  # acknowledged once the operating system has it
    codec: int | None  # batches that come with another one are compressed anew; None: they stay as sent

    # Batches are taken as they come: of all that is above, only size and timestamp limits are asked for.
    plain: bool = field(init=False)

    def __post_init__(self) -> None:
        plain = not (self.append_time or self.compact or self.early) and self.codec is None
        object.__setattr__(self, "plain", plain and self.before_max_ms == INT64_MAX)


def check_config(name: str, value: str | None) -> None:
    """Raises InvalidConfig that names the config, the value and what is allowed."""
    spec = CONFIGS.get(name)
    if spec is None:
        if name in RETIRED:
            return
        near = get_close_matches(name, CONFIGS, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InvalidConfig(f"Unknown topic config name: {name}{hint}")
    if value is None:
        raise InvalidConfig(f"Null value not supported for topic configs: {name}")
    try:
        spec.check(value)
    except InvalidConfig as error:
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: {error}") from None


class Policies:
    """Makes and shares policies. `defaults` are the broker's own settings, by Kafka's names."""

    def __init__(self, defaults: Mapping[str, str]) -> None:
        self.defaults: dict[str, str] = {name: spec.default for name, spec in CONFIGS.items()}
        for name, value in defaults.items():
            check_config(name, value)
            self.defaults[name] = value
        # One that no topic has any more goes.
        self._made: WeakValueDictionary[tuple[tuple[str, str], ...], TopicPolicy] = WeakValueDictionary()

    def value(self, overrides: Mapping[str, str], name: str) -> str:
        return overrides.get(name, self.defaults[name])

    def of(self, overrides: Mapping[str, str]) -> TopicPolicy:
        key = tuple(sorted(overrides.items()))
        policy = self._made.get(key)
        if policy is None:
            policy = self._made[key] = self._make(overrides)
        return policy

    def _make(self, overrides: Mapping[str, str]) -> TopicPolicy:
        def text(name: str) -> str:
            return self.value(overrides, name)

        cleanup = {part.strip() for part in text("cleanup.policy").split(",")}
        return TopicPolicy(
            max_message_bytes=int(text("max.message.bytes")),
            retention_ms=int(text("retention.ms")),
            retention_bytes=int(text("retention.bytes")),
            delete="delete" in cleanup,
            compact="compact" in cleanup,
            append_time=text("message.timestamp.type") == "LogAppendTime",
            before_max_ms=int(text("message.timestamp.before.max.ms")),
            after_max_ms=int(text("message.timestamp.after.max.ms")),
            delete_retention_ms=int(text("delete.retention.ms")),
            min_compaction_lag_ms=int(text("min.compaction.lag.ms")),
            segment_ms=int(text("segment.ms")),
            early=text("durability") == "os",
            codec=_CODECS.get(text("compression.type")),
        )
