"""Topics as Spark's views, for an ad-hoc query, and its answer. Reading has no effect on any topic."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mainstem.client.cluster import TopicPartition
from mainstem.pipeline.adhoc import TopicPlan
from mainstem.pipeline.result import Result, result_of
from mainstem.spark.ranges import positions_to_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A partition of more records than this is shared among the cores.
LARGE = 100_000
_AS_TEXT = "make_valid_utf8(CAST({} AS STRING))"
_HEADERS_AS_TEXT = f"transform({{}}, h -> named_struct('key', h.key, 'value', {_AS_TEXT.format('h.value')}))"


@dataclass(frozen=True, slots=True)
class Reach:
    """From where to where a topic is read, and how to get at it."""

    broker: Mapping[str, str]  # options of the source
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    committed: bool = True
    parallel: int = 1

    def records(self, topic: str) -> int:
        return sum(at - self.starts.get(place, at) for place, at in self.ends.items() if place.topic == topic)


def read_options(plan: TopicPlan, reach: Reach) -> dict[str, str]:
    """For `format("mainstem")`: values are parsed only where one of their fields is asked for."""
    options = {
        **reach.broker,
        "subscribe": plan.topic,
        # Spark says what the query filters records by, so that a time or an offset shortens the read.
        "pushDownFilters": "true",
        "isolationLevel": "read_committed" if reach.committed else "read_uncommitted",
        "failOnDataLoss": "false",  # what retention takes meanwhile is gone for a query, too
    }
    for name, positions in (("startingOffsets", reach.starts), ("endingOffsets", reach.ends)):
        of_topic = {place: at for place, at in positions.items() if place.topic == plan.topic}
        if of_topic:
            options[name] = json.dumps(positions_to_json(of_topic))
    if reach.parallel > 1 and reach.records(plan.topic) > LARGE:
        options["minPartitions"] = str(reach.parallel)
    record = [name.removeprefix("_") for name in plan.record]
    if _is_typed(plan):
        schema = ", ".join(f"`{name}` {kind}" for name, kind in plan.fields.items())
        options |= {"format": "json", "schema": schema, "badRecords": "null"}
        return options | ({"metadata": ", ".join(record)} if record else {})
    names = dict.fromkeys([*plan.fields, *record]) or ["offset"]
    return options | {"columns": ", ".join(names)}


def view_columns(plan: TopicPlan) -> list[str]:
    """What the view selects from what is read: bytes as text, and the names that queries know."""
    if _is_typed(plan):
        return [*(f"`{name}`" for name in plan.fields), *(_record(name, name) for name in plan.record)]
    columns = [f"{_AS_TEXT.format(name)} AS {name}" for name in plan.fields]
    columns += [_record(name, f"`{name.removeprefix('_')}`") for name in plan.record]
    return columns or ["offset AS _offset"]


def _record(name: str, source: str) -> str:
    if name in ("_key", "_value"):
        return f"{_AS_TEXT.format(source)} AS {name}"
    if name == "_headers":
        return f"{_HEADERS_AS_TEXT.format(source)} AS {name}"
    return f"{source} AS {name}"


def _is_typed(plan: TopicPlan) -> bool:
    return plan.format == "json" and bool(plan.fields)


def run_query(
    spark: SparkSession, query: str, plans: Iterable[TopicPlan], reach: Reach, limit: int | None
) -> Result:
    """At most `limit` rows; the result says if there are more."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    for plan in plans:
        rows = spark.read.format("mainstem").options(**read_options(plan, reach)).load()
        rows.selectExpr(*view_columns(plan)).createOrReplaceTempView(f"`{plan.topic}`")
    answer = spark.sql(query)
    if limit is not None:
        answer = answer.limit(limit + 1)
    return result_of(answer.toArrow(), limit)
