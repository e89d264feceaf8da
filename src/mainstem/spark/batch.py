"""One read of what is there: ranges are planned once, narrowed by what the query filters on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from mainstem.client.client import Client
from mainstem.spark.planning import find_places, not_before, positions, within
from mainstem.spark.ranges import Range, ranges_between, split
from mainstem.spark.reading import read
from mainstem.spark.request import ReadRequest

Narrow = Callable[[Range], Range]


class Piece(InputPartition):
    """The range of one task."""

    def __init__(self, range: Range) -> None:
        super().__init__(str(range.place))
        self.range = range


class BatchReader(DataSourceReader):
    def __init__(self, request: ReadRequest) -> None:
        self._request = request
        # What filters tell, if they are pushed down.
        self._narrowings: list[Narrow] = []
        self._since_ms: int | None = None

    def partitions(self) -> Sequence[InputPartition]:
        request, committed = self._request, self._request.read.committed
        with Client(request.read.settings) as client:
            places = find_places(client, request.topics)
            start = positions(client, places, request.start, committed=committed)
            end = positions(client, places, request.end, committed=committed)
            careful = request.read.fail_on_data_loss
            start = within(client, start, fail_on_data_loss=careful, committed=committed)
            end = within(client, end, fail_on_data_loss=careful, committed=committed)
            if self._since_ms is not None:
                start = not_before(client, start, end, self._since_ms, committed=committed)
        ranges = ranges_between(start, end)
        for narrow in self._narrowings:
            ranges = [kept for kept in map(narrow, ranges) if len(kept) > 0]
        pieces = split(ranges, request.min_partitions, request.max_records_per_partition)
        return [Piece(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where there is nothing to read Spark makes up a partition.
        return read(partition.range, self._request.read) if isinstance(partition, Piece) else iter(())
