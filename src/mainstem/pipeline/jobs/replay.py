"""A lake back to a topic: the records that the job `lake` has archived, once each, in their order.

Rows are known by topic, partition and offset (lake_source.py), so merging files does not repeat any. They are
written by the sink `mainstem`, which is exactly once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mainstem.model.errors import BrokerRefused, InvalidRequest, UnknownTopic
from mainstem.pipeline.counting import counted
from mainstem.pipeline.jobs import Job, JobOption, JobRun
from mainstem.pipeline.jobs.lake_folder import Lake, State
from mainstem.pipeline.jobs.lake_options import local_folder, one_of, whole

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming import StreamingQuery

OWN = "{topic}"
OPTIONS = (
    JobOption("path", "the folder of a lake that the job lake has written", required=True, is_path=True),
    JobOption("topic", "where the records go; {topic} stands for the one they came from", required=True),
    JobOption("from", "the first time of records, as in '2026-11-15T08:00:00Z'"),
    JobOption("until", "the time that all records come before"),
    JobOption("where", "which records, in SQL over the lake's columns"),
    JobOption("partitioning", "same: partitions as they were; key: by the key", default="same"),
    JobOption("max_records", "how many offsets a batch spans at most", default="500000"),
    JobOption("compression", "of the records: none, gzip, snappy, lz4 or zstd", default="none"),
)


def check(options: Mapping[str, str]) -> None:
    local_folder("path", options["path"])
    one_of("partitioning", options["partitioning"], ("same", "key"))
    one_of("compression", options["compression"], ("none", "gzip", "snappy", "lz4", "zstd"))
    whole("max_records", options["max_records"], 1)
    _bounds(options)


def makes(options: Mapping[str, str], topic: str) -> bool:
    """Only the lake knows which topics {topic} stands for."""
    return re.fullmatch(".+".join(map(re.escape, options["topic"].split(OWN))), topic) is not None


def _bounds(options: Mapping[str, str]) -> dict[str, str]:
    """As options of the source."""
    found = {"since": "from", "until": "until"}
    return {ours: str(time_us(name, options[name])) for ours, name in found.items() if options.get(name)}


def time_us(name: str, text: str) -> int:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidRequest(f"{name} is a time as in '2026-11-15T08:00:00Z', not {text!r}") from None
    since = (at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def start(run: JobRun) -> list[StreamingQuery]:
    check(run.options)
    lake = Lake(local_folder("path", run.options["path"]))
    if not lake.exists:
        raise InvalidRequest(f"{lake.folder} is not a lake: the job lake has written nothing there")
    state = lake.state()
    targets = {topic: run.options["topic"].replace(OWN, topic) for topic in state.held}
    if not run.once:
        _refuse_circle(targets)
    _make_topics(run, state, targets)

    from mainstem.pipeline.jobs.lake_source import NAME, LakeSource

    run.spark.dataSource.register(LakeSource)
    options = {"path": str(lake.folder), "maxrecords": run.options["max_records"], **_bounds(run.options)}
    rows = run.spark.readStream.format(NAME).options(**options).load()
    if run.options.get("where"):
        rows = _where(rows, run.options["where"])
    writer = counted(_records(rows, state, run)).writeStream.format("mainstem").options(**run.broker)
    writer = writer.option("kafka.compression.type", run.options["compression"])
    writer = writer.queryName(run.name).option("checkpointLocation", run.checkpoint)
    return [writer.trigger(**run.trigger).start()]


def _refuse_circle(targets: Mapping[str, str]) -> None:
    for source, target in targets.items():
        if target in targets:
            raise InvalidRequest(
                f"records of {source!r} would go to {target!r}, which the lake may archive again. "
                "Run it with --once, or choose another topic"
            )


def _make_topics(run: JobRun, state: State, targets: Mapping[str, str]) -> None:
    """With as many partitions as those they stand for."""
    from mainstem.client import admin, codes
    from mainstem.client.client import Client
    from mainstem.spark.connecting import settings_of
    from mainstem.spark.options import Options

    counts: dict[str, int] = {}
    for source, target in targets.items():
        most = 1 + max(map(int, state.held[source]), default=0)
        counts[target] = max(most, counts.get(target, 1))
    with Client(settings_of(Options(run.broker))) as client:
        for target, count in counts.items():
            try:
                have = len(client.topic(target).partitions)
            except UnknownTopic:
                try:
                    admin.create_topic(client, target, count, {})
                except BrokerRefused as refused:
                    if refused.code != codes.TOPIC_EXISTS:  # another was first
                        raise
            else:
                if have < count and run.options["partitioning"] == "same":
                    raise InvalidRequest(
                        f"topic {target!r} has {have} partitions, the lake {count}; "
                        "partitioning = 'key' fits any"
                    )


def _where(rows: DataFrame, text: str) -> DataFrame:
    from pyspark.errors import AnalysisException, ParseException

    try:
        return rows.where(text)
    except (AnalysisException, ParseException) as error:
        raise InvalidRequest(f"where: {str(error).splitlines()[0]}") from None


def _records(rows: DataFrame, state: State, run: JobRun) -> DataFrame:
    from pyspark.sql import functions as F

    def of_record(name: str) -> str:
        return name if state.format == "raw" else f"_{name}"

    target = F.replace(F.lit(run.options["topic"]), F.lit(OWN), F.col(of_record("topic")))
    columns = [target.alias("topic"), _value(rows, state).alias("value")]
    columns += [F.col(of_record("timestamp")).alias("timestamp")]
    columns += [
        F.col(of_record(name)).alias(name) for name in ("key", "headers") if of_record(name) in rows.columns
    ]
    if run.options["partitioning"] == "same":
        columns.append(F.col(of_record("partition")).alias("partition"))
    return rows.select(*columns)


def _value(rows: DataFrame, state: State) -> Column:
    """The value as it was, or written anew from its fields."""
    from pyspark.sql import functions as F

    if state.format == "raw":
        return F.col("value")
    if "_value" in rows.columns:
        return F.col("_value")
    fields: list[dict[str, str]] = [*state.fields["fields"]]  # type: ignore[misc]
    names = [F.col(f"`{one['name']}`") for one in fields]
    if state.format == "text":
        return names[0]
    if state.format == "json":
        return F.to_json(F.struct(*names))
    if state.format == "csv":
        return F.to_csv(F.struct(*names))
    raise InvalidRequest(
        f"values of format {state.format} are not written anew: archive them with metadata = 'key, value'"
    )


JOB = Job(
    help="a lake back to a topic: the archived records, once each, in their order",
    options=OPTIONS,
    start=start,
    check=check,
    reads=lambda options: (),
    makes=makes,
)
