"""Writers for Spark: tasks stage, the driver's commit publishes, once for each batch of a query.

`write` runs in executors, `commit` in another process on the driver, after all tasks of a batch have ended
well: only the messages travel. A batch that Spark repeats after a crash has the same number and is published
only if it was not before. What tasks staged in vain is never seen.
"""

from __future__ import annotations

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
        self._query = f"spark-batch-{uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return StagedByTask(self._query, _stage(iterator, self._options))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _publish(messages, 0, self._options)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to do: nobody sees what was staged."""


class NumberedWriter(BatchWriter):
    """One batch of a stream, written by its `foreachBatch`: once, however often Spark calls that."""

    def __init__(self, options: WriteOptions, batch: int) -> None:
        super().__init__(options)
        self._batch = batch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return StagedByTask(_query_of_task(), _stage(iterator, self._options))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _publish(messages, self._batch, self._options)


class StreamWriter(StreamArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return StagedByTask(_query_of_task(), _stage(iterator, self._options))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _publish(messages, batchId, self._options)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: nobody sees what was staged."""


class RowStreamWriter(StreamWriter):
    """The same for a Spark that gives rows."""

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        return super().write(batches_of(iterator))


def _query_of_task() -> str:
    context = TaskContext.get()
    query = context.getLocalProperty(QUERY_ID) if context is not None else None
    if not query:
        raise InvalidRequest("this is not a task of a streaming query: it has no query id")
    return f"spark-{query}"


def _stage(
    iterator: Iterator[pa.RecordBatch], options: WriteOptions
) -> dict[TopicPartition, list[sinks.Staged]]:
    with Client(options.settings) as client:
        stager = Stager(client, options)
        for batch in iterator:
            stager.add(batch)
        return stager.finish()


def _publish(messages: list[WriterCommitMessage | None], batch_id: int, options: WriteOptions) -> None:
    staged: dict[TopicPartition, list[sinks.Staged]] = {}
    query = ""
    for message in messages:
        if isinstance(message, StagedByTask):
            query = message.query
            for place, offsets in message.staged.items():
                staged.setdefault(place, []).extend(offsets)
    if query:  # a batch without tasks has nothing to tell, and no number that anyone would miss
        with Client(options.settings) as client:
            sinks.publish(client, query, batch_id, staged, options.patience_s)
