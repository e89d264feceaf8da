"""Which topics the members of a consumer group want, by name and by pattern, and how they look now."""

from __future__ import annotations

from collections.abc import Collection

from mainstem.kernel.groups.consumer_members import ConsumerMember
from mainstem.kernel.groups.consumer_messages import TopicInfo, Topics
from mainstem.kernel.groups.patterns import Pattern


class Subscriptions:
    def __init__(self, pattern_refresh_ms: int) -> None:
        self._pattern_refresh_ms = pattern_refresh_ms
        self._patterns: dict[str, Pattern] = {}
        self._matches: dict[str, frozenset[str]] = {}  # pattern -> names of topics
        self._matches_version = self._seen_version = -1
        self._matches_ms = 0
        self._topics: dict[str, TopicInfo] = {}  # those of the wanted topics that exist

    def pattern(self, regex: str | None) -> Pattern | None:
        """Compile, and so refuse a bad pattern before anything of its heartbeat is taken over."""
        return (self._patterns.get(regex) or Pattern(regex)) if regex else None

    def add(self, pattern: Pattern | None) -> None:
        if pattern is not None:
            self._patterns[pattern.text] = pattern

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
        stale = topics.version != self._matches_version and (
            self._matches_version < 0 or now_ms >= self._matches_ms + self._pattern_refresh_ms
        )
        todo = [regex for regex in self._patterns if stale or regex not in self._matches]
        if todo:
            names = list(topics.names())
            for regex in todo:
                pattern = self._patterns[regex]
                self._matches[regex] = frozenset(name for name in names if pattern.matches(name))
        if stale:
            self._matches_version, self._matches_ms = topics.version, now_ms
        return bool(todo)
