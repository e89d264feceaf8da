"""All of an ad-hoc query that happens before Spark starts, with what the broker knows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mainstem.model.errors import InvalidRequest
from mainstem.pipeline import adhoc
from mainstem.pipeline.adhoc_sample import look_at

if TYPE_CHECKING:
    from mainstem.client import Client, TopicPartition

Offsets = Mapping["TopicPartition", int]
# The offsets from which and before which topics are read.
RangeOf = Callable[[Sequence[str]], tuple[Offsets, Offsets]]


@dataclass(frozen=True, slots=True)
class Asked:
    """`schemas` are columns by topic, `raw` topics whose values are text; `unchecked` leaves it to Spark."""

    query: str
    schemas: Mapping[str, str] = field(default_factory=dict)
    raw: Collection[str] = ()
    unchecked: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    query: str
    plans: tuple[adhoc.TopicPlan, ...]
    starts: Offsets
    ends: Offsets
    remarks: tuple[str, ...]  # what people should know about the topics


def prepare(client: Client, asked: Asked, range_of: RangeOf) -> Prepared:
    from mainstem.client.admin import topic_names

    there = topic_names(client, internal=True)
    _check_flags(asked, there)
    parsed = _parsed(asked, there)
    topics = parsed.topics if parsed is not None else adhoc.named_topics(asked.query, there)
    if asked.unchecked:
        topics = tuple(name for name in topics if name in there)
    starts, ends = range_of(topics)
    known = {topic: _columns(client, asked, topic, starts, ends) for topic in topics}
    empty = tuple(topic for topic in topics if _tells_nothing(asked, topic, starts, ends))
    if parsed is not None and not asked.unchecked:
        _check_columns(parsed, known, empty)
    plans = adhoc.plan_all(known.values()) if parsed is None else adhoc.plan(parsed, known)
    query = parsed.query if parsed is not None else asked.query
    return Prepared(query, plans, starts, ends, tuple(_remarks(known, plans, empty)))


def _remarks(
    known: Mapping[str, adhoc.TopicColumns], plans: Sequence[adhoc.TopicPlan], empty: Sequence[str]
) -> Iterator[str]:
    for topic in empty:
        yield f"{topic} holds no messages there: its columns are key and value; --schema names others"
    for one in (known[plan.topic] for plan in plans if plan.format == "json" and plan.fields):
        if one.misfits:
            yield (
                f"{one.topic}: {one.misfits} of {one.seen:,} values looked at are no JSON objects; "
                "such messages are rows of nulls"
            )


def _parsed(asked: Asked, there: Collection[str]) -> adhoc.Parsed | None:
    try:
        parsed = adhoc.parse(asked.query)
        if not asked.unchecked:
            adhoc.check_topics(parsed, there)
            adhoc.check_functions(parsed)
        return parsed
    except adhoc.QueryError as error:
        if asked.unchecked:
            return None
        odd = adhoc.needs_backticks(asked.query, there)
        if odd is None:
            raise
        raise InvalidRequest(f"{error}\n  a topic with such a name stands in backticks: `{odd}`") from None


def _check_columns(
    parsed: adhoc.Parsed, known: Mapping[str, adhoc.TopicColumns], empty: Sequence[str]
) -> None:
    try:
        adhoc.check_columns(parsed, known)
    except adhoc.QueryError as error:
        if not empty:
            raise
        hint = f"{empty[0]} holds no messages there that tell its columns: name them with --schema"
        raise InvalidRequest(f"{error}\n  {hint}") from None


def _tells_nothing(asked: Asked, topic: str, starts: Offsets, ends: Offsets) -> bool:
    places = [place for place in starts if place.topic == topic]
    return topic not in asked.schemas and all(starts[place] >= ends[place] for place in places)


def _columns(client: Client, asked: Asked, topic: str, starts: Offsets, ends: Offsets) -> adhoc.TopicColumns:
    if topic in asked.schemas:
        return adhoc.parse_ddl(topic, asked.schemas[topic])
    if topic in asked.raw:
        return adhoc.text_columns(topic)
    return look_at(client, starts, ends, topic)


def _check_flags(asked: Asked, there: Collection[str]) -> None:
    """A topic that is not there would be passed over in silence."""
    for topic in (*asked.schemas, *asked.raw):
        if topic not in there:
            raise InvalidRequest(f"there is no topic {topic!r}{adhoc.did_you_mean(topic, there)}")
        if topic in asked.schemas and topic in asked.raw:
            raise InvalidRequest(f"{topic!r} has a schema and is to be raw: choose one")
