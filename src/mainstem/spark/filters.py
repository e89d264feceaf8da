"""Filters of a batch read that shorten what is read.

Apart from the plain reader, because Spark refuses one with `pushFilters` unless its setting
spark.sql.python.filterPushdown.enabled is true, which a source cannot see.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from mainstem.spark.batch import BatchReader, Narrow
from mainstem.spark.typed import Typing

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FilteringReader(BatchReader):
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Those on topic, partition and offset are done here; Spark keeps the others.

        It keeps those on timestamp too: times in a partition are in any order, so that they only tell where
        the first record lies that can match. An end they do not tell.
        """
        for one in filters:
            column = record_column(one, self._request.read.typing)
            narrow = narrowing(column, one)
            if narrow is not None:
                self._narrowings.append(narrow)
                continue
            since_ms = earliest_ms(column, one)
            if since_ms is not None:
                self._since_ms = max(since_ms, self._since_ms or since_ms)
            yield one


def record_column(one: Filter, typing: Typing | None) -> str:
    """What a filter looks at of the record itself; nothing if that is a field of a typed value."""
    path: tuple[str, ...] = getattr(one, "attribute", ())
    name = path[0] if len(path) == 1 else ""
    if typing is None:
        return name
    return name[1:] if name.startswith("_") and name[1:] in typing.metadata else ""


def narrowing(column: str, one: Filter) -> Narrow | None:
    """How a filter shortens a range; None if it does not say all of what it means about ranges."""
    match column, one:
        case "topic", EqualTo(_, str(name)):
            return lambda range: range if range.place.topic == name else range.cut(0, 0)
        case "topic", In(_, tuple(names)):
            return lambda range: range if range.place.topic in names else range.cut(0, 0)
        case "partition", EqualTo(_, int(index)):
            return lambda range: range if range.place.partition == index else range.cut(0, 0)
        case "partition", In(_, tuple(indexes)):
            return lambda range: range if range.place.partition in indexes else range.cut(0, 0)
        case "offset", EqualTo(_, int(offset)):
            return lambda range: range.cut(offset, offset + 1)
        case "offset", GreaterThan(_, int(offset)):
            return lambda range: range.cut(offset + 1, range.end)
        case "offset", GreaterThanOrEqual(_, int(offset)):
            return lambda range: range.cut(offset, range.end)
        case "offset", LessThan(_, int(offset)):
            return lambda range: range.cut(range.start, offset)
        case "offset", LessThanOrEqual(_, int(offset)):
            return lambda range: range.cut(range.start, offset + 1)
    return None


def earliest_ms(column: str, one: Filter) -> int | None:
    """A time that no record that passes the filter lies before. Records know whole milliseconds."""
    if column != "timestamp" or not isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual):
        return None
    match one.value:
        case datetime(tzinfo=zone) as at if zone is not None and at > EPOCH:
            return (at - EPOCH) // timedelta(milliseconds=1)
    return None  # numbers below zero mean other things to a broker
