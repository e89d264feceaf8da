"""One read of what is there: ranges are planned once, narrowed by what the query filters on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from mainstem.client.client import Client
from mainstem.spark.planning import find_places, positions, within
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
        self._narrowings: list[Narrow] = []

    def partitions(self) -> Sequence[InputPartition]:
        request, committed = self._request, self._request.read.committed
        with Client(request.read.settings) as client:
            places = find_places(client, request.topics)
            start = positions(client, places, request.start, committed=committed)
            end = positions(client, places, request.end, committed=committed)
            careful = request.read.fail_on_data_loss
            start = within(client, start, fail_on_data_loss=careful, committed=committed)
            end = within(client, end, fail_on_data_loss=careful, committed=committed)
        ranges = ranges_between(start, end)
        for narrow in self._narrowings:
            ranges = [kept for kept in map(narrow, ranges) if len(kept) > 0]
        pieces = split(ranges, request.min_partitions, request.max_records_per_partition)
        return [Piece(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where there is nothing to read Spark makes up a partition.
        return read(partition.range, self._request.read) if isinstance(partition, Piece) else iter(())


class FilteringReader(BatchReader):
    """Apart from the other, because Spark refuses a reader with `pushFilters` unless its setting
    spark.sql.python.filterPushdown.enabled is true, which a source cannot see."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Those on partition and offset are done here; Spark keeps the others."""
        for one in filters:
            narrow = _narrowing(one)
            if narrow is None:
                yield one
            else:
                self._narrowings.append(narrow)


def _narrowing(one: Filter) -> Narrow | None:
    """How a filter shortens a range; None if it does not say all of what it means about ranges."""
    match one:
        case EqualTo(("topic",), str(name)):
            return lambda range: range if range.place.topic == name else range.cut(0, 0)
        case EqualTo(("partition",), int(index)):
            return lambda range: range if range.place.partition == index else range.cut(0, 0)
        case EqualTo(("offset",), int(offset)):
            return lambda range: range.cut(offset, offset + 1)
        case GreaterThan(("offset",), int(offset)):
            return lambda range: range.cut(offset + 1, range.end)
        case GreaterThanOrEqual(("offset",), int(offset)):
            return lambda range: range.cut(offset, range.end)
        case LessThan(("offset",), int(offset)):
            return lambda range: range.cut(range.start, offset)
        case LessThanOrEqual(("offset",), int(offset)):
            return lambda range: range.cut(range.start, offset + 1)
    return None
