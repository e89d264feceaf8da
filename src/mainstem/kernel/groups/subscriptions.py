"""Which topics the members of a group want, by name and by pattern, and how they look now.

Members of a group mostly want the same, so what is wanted is kept once for all who want it. All of it is
counted in bytes: a name takes memory whether or not there is such a topic, and a short pattern may match
every topic there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from mainstem.kernel.groups.consumer_messages import TopicInfo, Topics
from mainstem.kernel.groups.patterns import Pattern
from mainstem.kernel.groups.room import text_bytes
from mainstem.model.errors import InvalidRegularExpression

# What things take beside the characters in them: seen with CPython 3.11, rounded.
WISH_BYTES = 1000
NAME_BYTES = 120  # the string, and its place in a set
PLACE_BYTES = 50  # in a set, of what is kept elsewhere
TOPIC_BYTES = 120
PARTITION_BYTES = 140  # in a set of its own, as targets are


class Wish(NamedTuple):
    """What a member wants to read."""

    names: frozenset[str] = frozenset()
    regex: str = ""

    def size(self) -> int:
        names = NAME_BYTES * len(self.names) + sum(map(text_bytes, self.names))
        return WISH_BYTES + text_bytes(self.regex) + names


NO_WISH = Wish()


@dataclass(slots=True)
class TriedPattern:
    pattern: Pattern
    names: frozenset[str]  # that it matches
    wishes: int = 0  # that have it

    def size(self) -> int:
        return self.pattern.size + PLACE_BYTES * len(self.names)


@dataclass(slots=True)
class Kept:
    """A wish and what follows from it."""

    wish: Wish
    size: int  # of the wish alone
    members: int = 0
    topic_ids: frozenset[bytes] | None = None  # None: not looked up yet
    topics_size: int = 0


class Subscriptions:
    def __init__(
        self, pattern_refresh_ms: int = 0, *, target_bytes: int = 0, set_bytes: int = 0, owned_bytes: int = 0
    ) -> None:
        """Bytes that a wanted partition takes in the group: `target_bytes` once, `set_bytes` for each wish
        that has it, `owned_bytes` once it is with a member: room for these is asked for here, but the group
        counts them, as members may hold what nobody wants any more."""
        self.held = 0  # bytes, as of the last refresh
        self._pattern_refresh_ms = pattern_refresh_ms
        self._target_bytes, self._set_bytes, self._owned_bytes = target_bytes, set_bytes, owned_bytes
        self._wishes: dict[Wish, Kept] = {}
        self._patterns: dict[str, TriedPattern] = {}
        self._wishes_changed = False  # since the last refresh
        self._matches_version = self._seen_version = -1
        self._next_match_ms = 0
        self._topics: dict[str, TopicInfo] = {}  # those of the wanted topics that exist

    # --- wishes ----------------------------------------------------------------------------------

    def tried(self, regex: str | None, topics: Topics) -> TriedPattern | None:
        """Compile and match a new pattern: a bad one is refused before its heartbeat changes anything."""
        if not regex or regex in self._patterns:
            return None
        pattern = Pattern(regex)
        return TriedPattern(pattern, frozenset(name for name in topics.names() if pattern.matches(name)))

    def more_for(self, old: Wish | None, new: Wish, tried: TriedPattern | None, topics: Topics) -> int:
        """Bytes that it takes if a member wants `new` instead of `old`; None: it is not in yet.

        Topics that nobody will want any more are not taken off.
        """
        if new == old:
            return 0
        more = 0
        if new not in self._wishes:
            more += new.size() + (0 if tried is None else tried.size())
            for name in self._names_of(new, tried):
                info = topics.get(name)
                if info is None:
                    continue
                more += self._size_in_wish(info)
                if name not in self._topics:
                    more += self._size(info) + self._owned_bytes * info.partitions
        if old is not None and self._wishes[old].members == 1:
            more -= self._wishes[old].size + self._wishes[old].topics_size
        return more

    def keep(self, wish: Wish, tried: TriedPattern | None = None) -> Wish:
        """One more member wants this. What comes back is to be kept instead: it is the same for all."""
        kept = self._wishes.get(wish)
        if kept is None:
            kept = self._wishes[wish] = Kept(wish, wish.size())
            self._wishes_changed = True
            if tried is not None:
                self._patterns[wish.regex] = tried
            if wish.regex:
                self._patterns[wish.regex].wishes += 1
        kept.members += 1
        return kept.wish

    def drop(self, wish: Wish) -> None:
        """One member less wants this."""
        kept = self._wishes[wish]
        kept.members -= 1
        if kept.members:
            return
        del self._wishes[wish]
        self._wishes_changed = True
        self.held -= kept.size + kept.topics_size
        if wish.regex:
            pattern = self._patterns[wish.regex]
            pattern.wishes -= 1
            if not pattern.wishes:
                del self._patterns[wish.regex]
        if not self._wishes:  # there may never be a refresh again
            self._topics = {}
            self.held = 0

    def reads(self, topic_name: str) -> bool:
        by_pattern = any(topic_name in pattern.names for pattern in self._patterns.values())
        return by_pattern or any(topic_name in wish.names for wish in self._wishes)

    def _names_of(self, wish: Wish, tried: TriedPattern | None = None) -> frozenset[str]:
        if not wish.regex:
            return wish.names
        pattern = self._patterns.get(wish.regex, tried)
        assert pattern is not None
        return wish.names | pattern.names if wish.names else pattern.names

    # --- topics ----------------------------------------------------------------------------------

    def topic_ids_of(self, wish: Wish) -> frozenset[bytes]:
        """As of the last refresh."""
        return self._wishes[wish].topic_ids or frozenset()

    def partition_counts(self) -> dict[bytes, int]:
        return {info.topic_id: info.partitions for info in self._topics.values()}

    def refresh(self, topics: Topics, now_ms: int) -> bool:
        """Look the wanted topics up again where needed; True if they are not what they were."""
        looked_up_anew = self._match(topics, now_ms) or topics.version != self._seen_version
        if not looked_up_anew and not self._wishes_changed:
            return False
        self._wishes_changed, self._seen_version = False, topics.version
        wanted: set[str] = set().union(*map(self._names_of, self._wishes))
        found = {name: info for name in wanted if (info := topics.get(name)) is not None}
        changed = found != self._topics
        self._topics = found
        for kept in self._wishes.values():
            if looked_up_anew or kept.topic_ids is None:
                infos = list(self._found(kept.wish))
                kept.topic_ids = frozenset(info.topic_id for info in infos)
                kept.topics_size = sum(map(self._size_in_wish, infos))
        self.held = (
            sum(kept.size + kept.topics_size for kept in self._wishes.values())
            + sum(pattern.size() for pattern in self._patterns.values())
            + sum(map(self._size, found.values()))
        )
        return changed

    def _found(self, wish: Wish) -> Iterator[TopicInfo]:
        return (self._topics[name] for name in self._names_of(wish) if name in self._topics)

    def _size_in_wish(self, info: TopicInfo) -> int:
        return PLACE_BYTES + self._set_bytes * info.partitions

    def _size(self, info: TopicInfo) -> int:
        return TOPIC_BYTES + self._target_bytes * info.partitions

    def _match(self, topics: Topics, now_ms: int) -> bool:
        if topics.version == self._matches_version or now_ms < self._next_match_ms:
            return False
        self._matches_version, self._next_match_ms = topics.version, now_ms + self._pattern_refresh_ms
        for one in self._patterns.values():
            # A pattern that gives up on today's names keeps yesterday's.
            with suppress(InvalidRegularExpression):
                one.names = frozenset(name for name in topics.names() if one.pattern.matches(name))
        return bool(self._patterns)
