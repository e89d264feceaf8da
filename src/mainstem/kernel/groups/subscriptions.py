"""Which topics the members of a consumer group want, by name and by pattern, and how they look now."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import TypeAlias

from mainstem.kernel.groups.consumer_members import ConsumerMember
from mainstem.kernel.groups.consumer_messages import TopicInfo, Topics
from mainstem.kernel.groups.patterns import Pattern
from mainstem.model.errors import InvalidRegularExpression

TriedPattern: TypeAlias = tuple[Pattern, frozenset[str]]  # with the names it matches


class Subscriptions:
    def __init__(self, pattern_refresh_ms: int) -> None:
        self._pattern_refresh_ms = pattern_refresh_ms
        self._patterns: dict[str, Pattern] = {}
        self._matches: dict[str, frozenset[str]] = {}  # pattern -> names of topics
        self._matches_version = self._seen_version = -1
        self._next_match_ms = 0
        self._topics: dict[str, TopicInfo] = {}  # those of the wanted topics that exist

    def tried(self, regex: str | None, topics: Topics) -> TriedPattern | None:
        """Compile and match a new pattern: a bad one is refused before its heartbeat changes anything."""
        if not regex or regex in self._patterns:
            return None
        pattern = Pattern(regex)
        return pattern, frozenset(name for name in topics.names() if pattern.matches(name))

    def add(self, tried: TriedPattern | None) -> None:
        if tried is not None:
            pattern, names = tried
            self._patterns[pattern.text], self._matches[pattern.text] = pattern, names

    def names_of(self, member: ConsumerMember) -> frozenset[str]:
        return member.topic_names | self._matches.get(member.topic_regex, frozenset())

    def topic_ids_of(self, member: ConsumerMember) -> frozenset[bytes]:
        return frozenset(
            self._topics[name].topic_id for name in self.names_of(member) if name in self._topics
        )

    def partition_counts(self) -> dict[bytes, int]:
        return {info.topic_id: info.partitions for info in self._topics.values()}

    def refresh(
        self, members: Collection[ConsumerMember], members_changed: bool, topics: Topics, now_ms: int
    ) -> bool:
        """Look the wanted topics up again where needed; True if they are not what they were."""
        matches_changed = self._match(members, members_changed, topics, now_ms)
        if not (members_changed or matches_changed or topics.version != self._seen_version):
            return False
        self._seen_version = topics.version
        wanted = {name for member in members for name in self.names_of(member)}
        found = {name: info for name in wanted if (info := topics.get(name)) is not None}
        changed = found != self._topics
        self._topics = found
        return changed

    def _match(
        self, members: Collection[ConsumerMember], members_changed: bool, topics: Topics, now_ms: int
    ) -> bool:
        if members_changed:
            used = {member.topic_regex for member in members if member.topic_regex}
            self._patterns = {regex: pattern for regex, pattern in self._patterns.items() if regex in used}
            self._matches = {regex: names for regex, names in self._matches.items() if regex in used}
        if topics.version == self._matches_version or now_ms < self._next_match_ms:
            return False
        self._matches_version, self._next_match_ms = topics.version, now_ms + self._pattern_refresh_ms
        for regex, pattern in self._patterns.items():
            # A pattern that gives up on today's names keeps yesterday's.
            with suppress(InvalidRegularExpression):
                self._matches[regex] = frozenset(name for name in topics.names() if pattern.matches(name))
        return bool(self._patterns)
