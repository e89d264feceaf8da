"""The id of the streaming query of a batch: with the batch's number it tells what was done before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.model.errors import InvalidRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def query_of_batch(session: SparkSession) -> str:
    """On the driver, in `foreachBatch`: `session` is that of the batch. For tasks see spark/sink.py."""
    from mainstem.spark.sink import QUERY_ID

    query = session.sparkContext.getLocalProperty(QUERY_ID)
    if not query:  # it would be taken for any other query without one
        raise InvalidRequest("this is not a batch of a streaming query: it has no query id")
    return str(query)
