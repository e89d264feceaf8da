"""Writers for Spark: tasks stage, the driver's commit publishes, once for each batch of a query.

`write` runs in executors, `commit` in another process on the driver, after all tasks of a batch have ended
well: only the messages travel. A batch that Spark repeats after a crash has the same number and is published
only if it was not before. What tasks staged in vain is never seen.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from mainstem.client import sinks
from mainstem.client.client import Client
from mainstem.client.cluster import TopicPartition
from mainstem.model.errors import InvalidRequest
from mainstem.spark.connecting import patience_s, settings_of
from mainstem.spark.options import Options
from mainstem.spark.versions import StreamArrowWriter, batches_of
from mainstem.spark.workers import settle
from mainstem.spark.writing import CODECS, Stager, WriteOptions

QUERY_ID = "sql.streaming.queryId"


class StagedByTask(WriterCommitMessage):
    """What one task has staged."""

    def __init__(self, query: str, staged: dict[TopicPartition, list[sinks.Staged]]) -> None:
        self.query = query
        self.staged = staged


def write_options(options: Options, topic: str) -> WriteOptions:
    codec = options.text("kafka.compression.type", "none").strip().lower()
    if codec not in CODECS:
        raise InvalidRequest(f"kafka.compression.type is one of {', '.join(CODECS)}, not {codec!r}")
    return WriteOptions(settings_of(options), topic, CODECS[codec], patience_s(options))


class BatchWriter(DataSourceArrowWriter):
    """One write of a DataFrame: all of it appears, or nothing."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._query = f"batch-{uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return StagedByTask(self._query, _stage(iterator, self._options))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _publish(messages, 0, self._options)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to do: nobody sees what was staged."""


class NumberedWriter(BatchWriter):
    """One batch of a stream, written by its `foreachBatch`: once, however often Spark calls that.

    Such a function may write several times. Each of its writers has numbers of its own, and is known by its
    name, or by the topic it writes to. It may leave batches out.
    """

    def __init__(self, options: WriteOptions, batch: int, writer: str = "") -> None:
        super().__init__(options)
        self._batch = batch
        # Hashed, as two names may be longer together than a sink's may be.
        told = json.dumps([options.topic, writer])
        self._writer = hashlib.sha256(told.encode()).hexdigest()[:16]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return StagedByTask(query_of_task(), _stage(iterator, self._options))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _publish(messages, self._batch, self._options, self._writer)


class StreamWriter(StreamArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return StagedByTask(query_of_task(), _stage(iterator, self._options))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _publish(messages, batchId, self._options)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: nobody sees what was staged."""


class RowStreamWriter(StreamWriter):
    """The same for a Spark that gives rows."""

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        return super().write(batches_of(iterator))


def query_of_task() -> str:
    """The id of the streaming query that the present task works for, as in the query's checkpoint."""
    context = TaskContext.get()
    query = context.getLocalProperty(QUERY_ID) if context is not None else None
    if not query:
        raise InvalidRequest("this is not a task of a streaming query: it has no query id")
    return str(query)


def sink_of(query: str) -> str:
    """The name under which a query publishes its batches."""
    return f"spark-{query}"


def _stage(
    iterator: Iterator[pa.RecordBatch], options: WriteOptions
) -> dict[TopicPartition, list[sinks.Staged]]:
    settle()
    with Client(options.settings) as client:
        stager = Stager(client, options)
        for batch in iterator:
            stager.add(batch)
        return stager.finish()


def _publish(
    messages: list[WriterCommitMessage | None], batch_id: int, options: WriteOptions, writer: str = ""
) -> None:
    """Without records too, so that a stream's number is noted: Spark runs one task at least for each batch,
    and every task tells whose it is. `writer` is one of several, who need not write each batch."""
    done = [message for message in messages if isinstance(message, StagedByTask)]
    if not done:
        return
    staged: dict[TopicPartition, list[sinks.Staged]] = {}
    for message in done:
        for place, offsets in message.staged.items():
            staged.setdefault(place, []).extend(offsets)
    sink = f"{sink_of(done[0].query)}-{writer}" if writer else sink_of(done[0].query)
    with Client(options.settings) as client:
        sinks.publish(client, sink, batch_id, staged, options.patience_s, may_skip=bool(writer))
