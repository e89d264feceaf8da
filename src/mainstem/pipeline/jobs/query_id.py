"""The id of the streaming query that work belongs to: with a batch's number it tells what was done before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.model.errors import InvalidRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def query_of_batch(session: SparkSession) -> str:
    """On the driver, in `foreachBatch`: `session` is that of the batch."""
    from mainstem.spark.sink import QUERY_ID

    return _required(session.sparkContext.getLocalProperty(QUERY_ID))


def query_of_task() -> str:
    """In an executor."""
    from pyspark import TaskContext

    from mainstem.spark.sink import QUERY_ID

    context = TaskContext.get()
    return _required(context.getLocalProperty(QUERY_ID) if context is not None else None)


def _required(query: str | None) -> str:
    """Without one, a batch would be taken for that of any other query without one."""
    if not query:
        raise InvalidRequest("this is not a part of a streaming query: it has no query id")
    return query
