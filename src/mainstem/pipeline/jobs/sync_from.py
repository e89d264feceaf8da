"""Table to topic: rows in the order of a column that grows, each as one record.

A stretch of the table lies between two positions, which Spark keeps: the column's value, and the key where
several rows have the same. Rows are read up to where no transaction that might still add rows below is open.
How far the topic is is published with the rows themselves, so a batch that Spark repeats after a crash is not
written again, although its rows may have changed meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from mainstem.client import admin, sinks
from mainstem.client.client import Client
from mainstem.client.cluster import TopicPartition
from mainstem.client.patience import patiently
from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.counting import counted
from mainstem.pipeline.jobs import JobRun
from mainstem.pipeline.jobs.mirror_last import last_value
from mainstem.pipeline.jobs.sync_address import from_environment
from mainstem.pipeline.jobs.sync_apply import connect
from mainstem.pipeline.jobs.sync_growing import Growing, Settling, growing_of
from mainstem.pipeline.jobs.sync_table import Connection
from mainstem.spark.connecting import settings_of
from mainstem.spark.options import Options
from mainstem.spark.sink import StagedByTask, query_of_task, sink_of, write_options
from mainstem.spark.writing import Stager, WriteOptions

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

FORMAT = "mainstem_table"
ROWS = 5_000  # of one Arrow batch

Json = dict[str, Any]


def from_postgres(run: JobRun) -> list[StreamingQuery]:
    options = run.options
    url = from_environment(options["url"], "url")
    growing = growing_of(
        url, options["table"], options["column"], _list(options, "key"), _list(options, "columns")
    )
    state = options.get("state") or f"{run.name}.sync-state"
    if state == options["topic"]:
        raise InvalidRequest(f"state is {state!r}, the topic of the rows: it needs a topic of its own")
    with Client(settings_of(Options(run.broker))) as client:
        if state not in admin.topic_names(client):
            admin.create_topic(client, state, 1, {"cleanup.policy": "compact"})
    told = {"url": url, "growing": growing.to_json(), "topic": options["topic"], "state": state}
    told |= {name: options[name] for name in ("settle", "patience", "max.records")}
    run.spark.dataSource.register(TableSource)
    stream = run.spark.readStream.format(FORMAT).options(**told).load()
    writer = counted(stream).writeStream.queryName(run.name).format(FORMAT).options(**told, **run.broker)
    writer = writer.option("checkpointLocation", run.checkpoint)
    return [writer.trigger(**run.trigger).start()]


def _list(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in options.get(name, "").split(",") if part.strip())


class TableSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "key STRING, value STRING"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        given = self.options
        settling = Settling(float(given["settle"]), float(given["patience"]))
        return TableReader(
            given["url"], Growing.from_json(given["growing"]), settling, int(given["max.records"])
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        kafka = {name: value for name, value in self.options.items() if name.startswith("kafka.")}
        options = write_options(Options(kafka), self.options["topic"])
        return TableWriter(options, TopicPartition(self.options["state"], 0))


@dataclass(frozen=True, slots=True)
class Piece(InputPartition):
    """Rows behind `start` up to `end`; a start of None is before all."""

    start: tuple[str, ...] | None
    end: tuple[str, ...]


class TableReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, url: str, growing: Growing, settling: Settling, max_rows: int) -> None:
        self._url = url
        self._growing = growing
        self._settling = settling
        self._max_rows = max_rows
        self._target: tuple[str, ...] | None = None
        self._has_target = False

    def _connect(self) -> Connection:
        return connect(self._url, self._settling.patience_s)

    # --- asked on the driver ---------------------------------------------------------------------

    def initialOffset(self) -> Json:
        return {"at": None}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._max_rows)

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        begun = _position(start)
        with self._connect() as connection:
            end = self._target if self._has_target else self._settling.reach(connection, self._growing)
            if end is None or not self._growing.is_behind(connection, begun, end):
                return start
            if most is not None:
                end = self._growing.limited(connection, begun, end, most)
        return {"at": list(end)}

    def prepareForTriggerAvailableNow(self) -> None:
        with self._connect() as connection:
            self._target = self._settling.wait(connection, self._growing)
        self._has_target = True

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        until = _position(end)
        return [Piece(_position(start), until)] if until is not None and start != end else []

    def commit(self, end: Json) -> None:
        """Nothing to do: the checkpoint is Spark's."""

    # --- in executors ------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Piece):  # where there is nothing to read Spark makes one up
            return
        statement, values = self._growing.rows(partition.start, partition.end)
        with (
            self._connect() as connection,
            connection.transaction(),
            connection.cursor("mainstem_sync") as cursor,
        ):
            cursor.execute(statement, values)
            while rows := cursor.fetchmany(ROWS):
                yield _batch(rows)


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [pa.array([row[at] for row in rows], pa.string()) for at in (0, 1)]
    return pa.RecordBatch.from_arrays(columns, ["key", "value"])


def _position(told: Json) -> tuple[str, ...] | None:
    return None if told["at"] is None else tuple(told["at"])


class TableWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions, state: TopicPartition) -> None:
        self._options = options
        self._state = state

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        query = query_of_task()
        with Client(self._options.settings) as client:
            stager = Stager(client, self._options)
            for batch in iterator:
                stager.add(batch)
            return StagedByTask(query, stager.finish())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        done = [message for message in messages if isinstance(message, StagedByTask)]
        if not done:
            return
        query, staged = done[0].query, dict[TopicPartition, list[sinks.Staged]]()
        for message in done:
            for place, some in message.staged.items():
                staged.setdefault(place, []).extend(some)
        patience_s = self._options.patience_s
        with Client(self._options.settings) as client:
            value = patiently(lambda: last_value(client, self._state), patience_s)
            last: Json = json.loads(value or b"{}")
            if last.get("query") == query and last["batch"] >= batchId:
                return
            stager = Stager(client, self._options)
            stager.add(_state_row(self._state, {"query": query, "batch": batchId}))
            for place, some in stager.finish().items():
                staged.setdefault(place, []).extend(some)
            sinks.publish(client, sink_of(query), batchId, staged, patience_s)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: nobody sees what was staged."""


def _state_row(place: TopicPartition, state: Json) -> pa.RecordBatch:
    columns = {"topic": place.topic, "key": "state", "value": json.dumps(state)}
    arrays = [pa.array([value], pa.string()) for value in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, list(columns))
