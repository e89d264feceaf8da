"""Which topics get the records that a part of a pipeline cannot read. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from mainstem.pipeline.parts import Call, Part, PerMessage, Query, Source
from mainstem.pipeline.settings import elsewhere, listed, text
from mainstem.spark.planning import DEAD_SUFFIX


@dataclass(frozen=True, slots=True)
class DeadTopics:
    """`patterns` are of the topics that are read, where each has a topic of dead letters of its own, whose
    name has the suffix."""

    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    suffix: str = ""  # of a backfill; the names have it already

    def __or__(self, other: DeadTopics) -> DeadTopics:
        assert self.suffix == other.suffix
        return replace(self, names=self.names | other.names, patterns=self.patterns | other.patterns)

    def beside(self, suffix: str) -> DeadTopics:
        """Those of a backfill, whose topics are not the pipeline's own."""
        return DeadTopics(frozenset(beside(name, suffix) for name in self.names), self.patterns, suffix)

    def among(self, topics: Iterable[str]) -> frozenset[str]:
        """The names, and those for some topics that are read."""
        return self.names | {topic + self._end for topic in topics if self._fits(topic)}

    def left_by(self, topics: Iterable[str]) -> frozenset[str]:
        """The names, and which of some topics hold dead letters of topics that a pattern fits."""
        dead = (topic for topic in topics if topic.endswith(self._end))
        return self.names | {topic for topic in dead if self._fits(topic.removesuffix(self._end))}

    @property
    def _end(self) -> str:
        return self.suffix + DEAD_SUFFIX

    def _fits(self, topic: str) -> bool:
        return any(re.fullmatch(pattern, topic) for pattern in self.patterns)


NONE = DeadTopics()


def beside(name: str, suffix: str) -> str:
    """`orders.dead` becomes `orders-backfill.dead`: patterns of topics pass over what ends in `.dead`."""
    stem = name.removesuffix(DEAD_SUFFIX)
    return stem + suffix + name[len(stem) :]


def of_topics(topics: Iterable[str], pattern: str = "", given: str = "") -> DeadTopics:
    """For what reads these topics, or those of a pattern. `given` is one topic for all dead letters."""
    if given:
        return DeadTopics(frozenset({given}))
    patterns = frozenset({pattern}) if pattern and _is_pattern(pattern) else frozenset[str]()
    return DeadTopics(frozenset(topic + DEAD_SUFFIX for topic in topics), patterns)


def _is_pattern(text: str) -> bool:
    """One that is none is told by the source, when it starts."""
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def of_part(
    part: Part, named: Mapping[str, Part], inputs: Mapping[str, tuple[str, ...]], *, read_again: bool = True
) -> DeadTopics:
    """Of all that it reads, at whatever distance. `named` has every part by its name.

    `read_again`: what goes to a topic is read from there by others, and not in a backfill. What another
    broker holds is left out.
    """
    if isinstance(part, PerMessage):  # gets bytes, and reads all of them
        return NONE
    found = NONE
    for name in inputs.get(part.name, ()):
        read = named[name]
        if isinstance(read, Source):
            found |= _of_source(read)
        elif _has_topic(read) and read_again:
            assert isinstance(read, Query | Call)
            found |= _of_made(read)
        else:
            found |= of_part(read, named, inputs, read_again=read_again)
    return found


def _has_topic(part: Part) -> bool:
    return isinstance(part, Query | Call) and part.kind == "stream" and "topic" in part.options


def _of_source(part: Source) -> DeadTopics:
    is_raw = text(part.options, "format", "json").lower() == "raw"
    if part.kind != "stream" or is_raw or elsewhere(part.options):
        return NONE
    options = part.options
    return of_topics(listed(options, "topic"), text(options, "pattern"), text(options, "dead_letters"))


def _of_made(part: Query | Call) -> DeadTopics:
    is_raw = text(part.options, "format", "json").lower() == "raw"
    return NONE if is_raw or elsewhere(part.options) else of_topics([text(part.options, "topic")])
