"""What configs hold for a topic and for the broker, and where each value comes from.

A topic's config is its own, or the broker's setting, or the default; the broker knows each topic config under
a name of its own (`log.retention.ms` for `retention.ms`). The broker's configs are settings that were read
when it started: they can be looked at here and not changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from mainstem.broker.options import BrokerOptions
from mainstem.broker.policy import CONFIGS, ConfigSpec, Policies


class Source(Enum):
    TOPIC = "the topic's own"
    GROUP = "the group's own"
    SETTING = "set where the broker was started"
    DEFAULT = "the default"


@dataclass(frozen=True, slots=True)
class Synonym:
    """A place where a value was looked for: under this name, with this result."""

    name: str
    value: str
    source: Source


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    value: str
    kind: str  # as ConfigSpec.kind
    doc: str
    read_only: bool
    synonyms: tuple[Synonym, ...]  # the first one holds

    @property
    def source(self) -> Source:
        return self.synonyms[0].source


# Names of topic configs among the broker's; most others just begin with "log.".
_BROKER_NAMES = {
    "compression.type": "compression.type",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
# Topic configs that no broker setting stands behind.
_TOPIC_ONLY = {
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "remote.storage.enable",
}


def _broker_name(name: str) -> str:
    return _BROKER_NAMES.get(name, f"log.{name}")


def topic_entries(policies: Policies, own: Mapping[str, str]) -> list[Entry]:
    """Every config of a topic that has these of its own."""
    return [_topic_entry(policies, own, spec) for spec in CONFIGS.values()]


def _topic_entry(policies: Policies, own: Mapping[str, str], spec: ConfigSpec) -> Entry:
    synonyms = _inherited(policies, spec)
    if spec.name in own:
        synonyms = (Synonym(spec.name, own[spec.name], Source.TOPIC), *synonyms)
    return Entry(spec.name, synonyms[0].value, spec.kind, spec.doc, False, synonyms)


def _inherited(policies: Policies, spec: ConfigSpec) -> tuple[Synonym, ...]:
    name = spec.name if spec.name in _TOPIC_ONLY else _broker_name(spec.name)
    fallback = Synonym(name, spec.default, Source.DEFAULT)
    setting = policies.defaults[spec.name]
    if setting == spec.default:
        return (fallback,)
    return (Synonym(name, setting, Source.SETTING), fallback)


def broker_entries(options: BrokerOptions, policies: Policies) -> list[Entry]:
    """The broker's own configs: all read-only, because they are settings of the process."""
    entries = list(_option_entries(options))
    for spec in CONFIGS.values():
        if spec.name not in _TOPIC_ONLY:
            synonyms = _inherited(policies, spec)
            name = _broker_name(spec.name)
            entries.append(Entry(name, synonyms[0].value, spec.kind, spec.doc, True, synonyms))
    return sorted(entries, key=lambda entry: entry.name)


def _option_entries(options: BrokerOptions) -> Iterator[Entry]:
    for name, kind, value, default, doc in _option_rows(options, BrokerOptions(options.folder)):
        text = _text(value)
        source = Source.DEFAULT if value == default else Source.SETTING
        synonyms = [Synonym(name, text, source)]
        if source is Source.SETTING and default is not None:
            synonyms.append(Synonym(name, _text(default), Source.DEFAULT))
        yield Entry(name, text, kind, doc, True, tuple(synonyms))


# Name, kind, value, what it usually is (None: there is no usual value), what it means.
_Row = tuple[str, str, object, object, str]


def _option_rows(options: BrokerOptions, usual: BrokerOptions) -> tuple[_Row, ...]:
    return (
        ("node.id", "int", options.node_id, usual.node_id, "This broker's id."),
        ("broker.id", "int", options.node_id, usual.node_id, "This broker's id."),
        ("log.dirs", "list", options.folder, None, "The data folder."),
        ("num.partitions", "int", options.default_partitions, 1, "Of a topic made without a number."),
        ("default.replication.factor", "int", 1, 1, "There is one copy, on disk before it is acknowledged."),
        (
            "auto.create.topics.enable",
            "boolean",
            options.auto_create,
            True,
            "Make a topic when it is first named.",
        ),
        ("delete.topic.enable", "boolean", True, True, "Topics can be deleted."),
        (
            "group.initial.rebalance.delay.ms",
            "int",
            options.group_initial_delay_ms,
            usual.group_initial_delay_ms,
            "How long an empty group waits for more members.",
        ),
        (
            "group.min.session.timeout.ms",
            "int",
            options.group_min_session_ms,
            usual.group_min_session_ms,
            "Shortest session that a member may ask for.",
        ),
        (
            "group.max.session.timeout.ms",
            "int",
            options.group_max_session_ms,
            usual.group_max_session_ms,
            "Longest session that a member may ask for.",
        ),
        ("group.max.size", "int", options.group_max_size, usual.group_max_size, "Most members of a group."),
        (
            "offsets.retention.minutes",
            "int",
            options.offsets_retention_ms // 60_000,
            usual.offsets_retention_ms // 60_000,
            "How long the offsets of an empty group stay.",
        ),
        (
            "offset.metadata.max.bytes",
            "int",
            options.offset_metadata_max_bytes,
            usual.offset_metadata_max_bytes,
            "Longest note that may go with an offset.",
        ),
        (
            "transaction.max.timeout.ms",
            "int",
            options.max_transaction_timeout_ms,
            usual.max_transaction_timeout_ms,
            "Longest transaction timeout that a producer may ask for.",
        ),
        (
            "transactional.id.expiration.ms",
            "int",
            options.transactional_id_expiry_ms,
            usual.transactional_id_expiry_ms,
            "A transactional id unused for so long is forgotten.",
        ),
        (
            "producer.id.expiration.ms",
            "int",
            options.producer_expiry_ms,
            usual.producer_expiry_ms,
            "A producer's sequence numbers unused for so long are forgotten.",
        ),
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
