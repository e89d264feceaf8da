"""The data source `mainstem`, as Spark sees it.

    spark.read.format("mainstem").option("kafka.bootstrap.servers", "127.0.0.1:9092") \\
        .option("subscribe", "orders").load()

Spark makes one of these in a process of its own on the driver, pickles the readers it gives, and runs `read`
of those in executors: state set in one place is not there in the other. Each stream
starts a process that imports this, so that what only some queries need is imported where they need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import __version__ as pyspark_version
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from mainstem.model.errors import InvalidRequest
from mainstem.spark.batch import BatchReader
from mainstem.spark.options import Options
from mainstem.spark.request import ReadRequest, row_ddl
from mainstem.spark.stream import StreamReader
from mainstem.spark.versions import HAS_FILTERS, HAS_LIMITS, ROWS_TO_STREAMS

if TYPE_CHECKING:
    from mainstem.spark.sink import StreamWriter
    from mainstem.spark.writing import WriteOptions


class MainstemSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "mainstem"

    def schema(self) -> str:
        return row_ddl(Options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = Options(self.options)
        request = ReadRequest.of(options, "batch", schema)
        if options.flag("pushDownFilters", False) and HAS_FILTERS:
            from mainstem.spark.filters import FilteringReader  # which older versions cannot import

            return FilteringReader(request)
        return BatchReader(request)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = Options(self.options)
        for name in ("maxOffsetsPerTrigger", "maxBytesPerTrigger"):
            if options.has(name) and not HAS_LIMITS:
                raise InvalidRequest(
                    f"{name} needs PySpark 4.2: {pyspark_version} does not tell where a trigger starts"
                )
        return StreamReader(ReadRequest.of(options, "stream", schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from mainstem.spark.sink import BatchWriter, NumberedWriter

        options = self._write_options(schema, overwrite)
        batch, writer = (Options(self.options).text(name).strip() for name in ("batchId", "writer"))
        if not batch and writer:
            raise InvalidRequest("writer names one of several writes of a batch; it goes with batchId")
        if not batch:
            return BatchWriter(options)
        if not batch.isdecimal():
            raise InvalidRequest(f"batchId is the number that foreachBatch gets, not {batch!r}")
        return NumberedWriter(options, int(batch), writer)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        from mainstem.spark.sink import RowStreamWriter, StreamWriter

        return (RowStreamWriter if ROWS_TO_STREAMS else StreamWriter)(self._write_options(schema, overwrite))

    def _write_options(self, schema: StructType, overwrite: bool) -> WriteOptions:
        from mainstem.spark.sink import write_options
        from mainstem.spark.writing import check_columns

        if overwrite:
            raise InvalidRequest(
                "a topic is not overwritten: use mode append, or output mode append or update"
            )
        options = Options(self.options)
        topic = options.text("topic").strip()
        check_columns({field.name: field.dataType.simpleString() for field in schema.fields}, topic)
        return write_options(options, topic)
