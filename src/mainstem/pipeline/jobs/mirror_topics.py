"""Which topics a mirror copies, what they are called here, and making them like those of the source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mainstem.client import admin, codes
from mainstem.client.client import Client
from mainstem.client.patience import patiently
from mainstem.client.settings import ClientSettings
from mainstem.model.errors import BrokerRefused, InvalidRequest, UnknownTopic
from mainstem.spark.planning import DEAD_SUFFIX

# Settings that a topic takes along if they were set for it. Not who gives records their time: copies keep it.
CONFIGS = (
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "min.compaction.lag.ms",
    "retention.bytes",
    "retention.ms",
)


@dataclass(frozen=True, slots=True)
class Selection:
    """Topics of the source by name, or by a pattern that the whole name fits; and their names here."""

    names: tuple[str, ...] = ()
    pattern: str = ""
    prefix: str = ""
    renames: Mapping[str, str] = field(default_factory=dict)

    def selects(self, topic: str) -> bool:
        if self.pattern:
            return re.fullmatch(self.pattern, topic) is not None and not topic.endswith(DEAD_SUFFIX)
        return topic in self.names

    def target(self, topic: str) -> str:
        return self.renames.get(topic, self.prefix + topic)

    def check(self, topics: list[str], *, same_broker: bool) -> None:
        """Whether each has a name of its own, and none is a copy of itself."""
        targets: dict[str, str] = {}
        for topic in topics:
            target = self.target(topic)
            if target in targets:
                raise InvalidRequest(f"topics {targets[target]!r} and {topic!r} would both become {target!r}")
            targets[target] = topic
            if same_broker and self.selects(target):
                raise InvalidRequest(
                    f"from is this broker itself, and {target!r}, the mirror of {topic!r}, would be mirrored "
                    "too; give a prefix or rename, and topics by name"
                )

    def check_mapping(self, topics: list[str], mapping: str) -> None:
        """What was published last into that topic tells which batch was the last: no copies may lie there."""
        for topic in topics:
            if self.target(topic) == mapping:
                raise InvalidRequest(
                    f"mapping is {mapping!r}, the mirror of {topic!r}: it needs a topic of its own"
                )


def parse_renames(text: str) -> dict[str, str]:
    """`old=new, other=its-new-name`."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        old, equals, new = (word.strip() for word in part.partition("="))
        if not (old and equals and new):
            raise InvalidRequest(f"rename is written 'old=new, other=new-too', not {part!r}")
        if old in found:
            raise InvalidRequest(f"rename names {old!r} twice")
        found[old] = new
    return found


class Copier:
    """Sees that topics are here and have as many partitions as at the source."""

    def __init__(
        self,
        selection: Selection,
        source: ClientSettings,
        here: Client,
        *,
        with_configs: bool,
        patience_s: float = 0.0,
    ) -> None:
        self._selection = selection
        self._source = source
        self._here = here
        self._with_configs = with_configs
        self._patience_s = patience_s  # with either broker
        self._counts: dict[str, int] = {}

    def ensure(self, topic: str, partitions: int) -> str:
        """The name here of a topic of the source; it has at least so many partitions when this returns."""
        target = self._selection.target(topic)
        if self._counts.get(topic, 0) < partitions:
            self._counts[topic] = patiently(lambda: self._count(topic, target, partitions), self._patience_s)
        return target

    def _count(self, topic: str, target: str, partitions: int) -> int:
        try:
            count = len(self._here.topic(target).partitions)
        except UnknownTopic:
            count = self._make(topic, target)
        return count if count >= partitions else self._widen(topic, target)

    def _make(self, topic: str, target: str) -> int:
        with Client(self._source) as source:
            count = len(source.topic(topic).partitions)
            configs = copied_configs(source, topic) if self._with_configs else {}
        try:
            admin.create_topic(self._here, target, count, configs)
        except BrokerRefused as refused:
            if refused.code != codes.TOPIC_EXISTS:  # another task was first
                raise
        return len(self._here.topic(target).partitions)

    def _widen(self, topic: str, target: str) -> int:
        with Client(self._source) as source:
            wanted = len(source.topic(topic).partitions)
        try:
            admin.add_partitions(self._here, target, wanted)
        except BrokerRefused:
            if len(self._here.topic(target).partitions) < wanted:  # otherwise another task was first
                raise
        return len(self._here.topic(target).partitions)


def copied_configs(source: Client, topic: str) -> dict[str, str]:
    return {
        config.name: config.value
        for config in admin.configs_of(source, admin.TOPIC, topic)
        if config.name in CONFIGS and config.source == "topic" and config.value is not None
    }
