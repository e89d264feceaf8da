"""An endless read: Spark asks how far a trigger goes, plans that stretch, and remembers where it ended.

Positions travel as JSON in the form of Spark's own connector, `{"orders": {"0": 17}}`, so that they can be
read in a checkpoint. Spark asks for the first position twice and writes down neither: it is kept here, or
what came in between would be skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from mainstem.client import codes
from mainstem.client.client import LATEST, Client
from mainstem.client.cluster import TopicPartition
from mainstem.client.patience import patiently
from mainstem.model.errors import DataLost, InvalidRequest
from mainstem.model.logs import get_log
from mainstem.spark.batch import Piece
from mainstem.spark.options import Bound
from mainstem.spark.planning import HINT, beginnings, bytes_per_offset, find_places, positions, within
from mainstem.spark.ranges import (
    Positions,
    limited,
    positions_from_json,
    positions_to_json,
    ranges_between,
    split,
)
from mainstem.spark.reading import read
from mainstem.spark.request import ReadRequest
from mainstem.spark.versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

events = get_log(__name__)

Json = dict[str, dict[str, int]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, request: ReadRequest) -> None:
        self._request = request
        self._initial: Json | None = None
        self._target: dict[TopicPartition, int] | None = None  # of a run that ends with what is there now
        self._has_planned = False  # a trigger, in this process
        self._ids: dict[TopicPartition, bytes] = {}  # of the topics, as far as they were seen by this process
        self._anew: set[TopicPartition] = set()  # of topics that were made anew, to be read anew
        self._client: Client | None = None

    # --- asked on the driver ---------------------------------------------------------------------

    def initialOffset(self) -> Json:
        if self._initial is None:
            self._initial = positions_to_json(self._positions(self._request.start))
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark knows one limit; where there are two, that of bytes is kept here."""
        if self._request.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._request.max_offsets_per_trigger)
        if self._request.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._request.max_bytes_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: object = None, limit: ReadLimit | None = None) -> Json:
        """How far the next trigger goes. Before PySpark 4.2 it is not told where that starts."""
        if start is None:
            self._pin()
        end: Positions = self._target if self._target is not None else self._ends(watched=True)
        if start is not None:
            end = self._reached(positions_from_json(start), end, limit)
        self._has_planned = True
        return positions_to_json(end)

    def reportLatestOffset(self) -> Json:
        """What is there, whatever the triggers take of it: the difference is the lag."""
        return positions_to_json(self._ends())

    def prepareForTriggerAvailableNow(self) -> None:
        self._pin()
        self._target = self._ends()

    def partitions(self, start: object, end: object) -> Sequence[InputPartition]:
        request = self._request
        self._refuse_unknown_start(start)
        upto, client = positions_from_json(end), self._driver()

        def look() -> dict[TopicPartition, int]:
            begun = positions_from_json(start)
            kept = {place: offset for place, offset in begun.items() if place not in self._anew}
            since = beginnings(client, kept, upto, request.read.fail_on_data_loss)
            return within(client, since, fail_on_data_loss=request.read.fail_on_data_loss)

        since = patiently(look, request.read.patience_s)
        self._anew.clear()
        pieces = split(ranges_between(since, upto), request.min_partitions, request.max_records_per_partition)
        return [Piece(piece) for piece in pieces]

    def commit(self, end: object) -> None:
        """Nothing to do: the checkpoint is Spark's."""

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    # --- in executors ------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where there is nothing to read Spark makes up a partition.
        return read(partition.range, self._request.read) if isinstance(partition, Piece) else iter(())

    # --- helpers -----------------------------------------------------------------------------------

    def _driver(self) -> Client:
        """One connection for all triggers."""
        if self._client is None:
            self._client = Client(self._request.read.settings)
        return self._client

    def _pin(self) -> None:
        """Where to begin, before it is asked how far to go: what comes in between would lie behind that.

        A query that goes on from a checkpoint does not need it, and what was given may not fit any more.
        """
        if self._request.start.moves:
            with suppress(InvalidRequest):
                self.initialOffset()

    def _reached(self, begun: Positions, end: Positions, limit: ReadLimit | None) -> Positions:
        """As far of the way to the end as one trigger may go."""
        begun = {place: offset for place, offset in begun.items() if place not in self._anew}
        self._refuse_lost(begun, end)
        careful, patience_s = self._request.read.fail_on_data_loss, self._request.read.patience_s
        begun = patiently(partial(beginnings, self._driver(), begun, end, careful), patience_s)
        max_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        if isinstance(limit, ReadMaxRows):
            end = limited(begun, end, limit.max_rows)
            max_bytes = self._request.max_bytes_per_trigger
        if max_bytes is None:
            return end
        waiting = {place: offset for place, offset in begun.items() if offset < end[place]}
        weights = patiently(partial(bytes_per_offset, self._driver(), waiting), patience_s)
        return limited(begun, end, max_bytes, weights)

    def _ends(self, *, watched: bool = False) -> dict[TopicPartition, int]:
        return self._positions(Bound(LATEST), watched=watched)

    def _positions(self, bound: Bound, *, watched: bool = False) -> dict[TopicPartition, int]:
        def look() -> dict[TopicPartition, int]:
            client = self._driver()
            places = find_places(client, self._request.topics)
            if watched:  # for a trigger, which will act on it
                self._notice_anew(places)
            return positions(client, places, bound, committed=self._request.read.committed)

        def look_again() -> dict[TopicPartition, int]:
            # A topic may be deleted between the two questions; asked anew, the first one says so.
            return self._driver().while_moving(look, frozenset({codes.UNKNOWN_TOPIC}))

        return patiently(look_again, self._request.read.patience_s)

    def _refuse_unknown_start(self, start: object) -> None:
        """Spark repeats a first batch that failed, and does not know where it began if that was not told by
        the options: asked again, it is elsewhere now, and records would be left out."""
        asked_again = not self._has_planned and self._initial is not None
        if asked_again and start == self._initial and self._request.start.moves:
            raise DataLost(
                "the first batch of this query did not end well, and where it began is not known any more; "
                "start again with a new checkpoint, or with startingOffsets as JSON"
            )

    def _notice_anew(self, places: Mapping[TopicPartition, bytes]) -> None:
        """A topic with another id than before has nothing of what was there, however much it holds.

        Only while a query runs: a checkpoint tells offsets alone.
        """
        anew = {place for place, id in places.items() if self._ids.get(place, id) != id}
        if anew and self._request.read.fail_on_data_loss:
            raise DataLost(
                f"{', '.join(sorted(map(str, anew)))}: the topic was deleted and made anew. {HINT}"
            )
        if anew:
            events.warning("topics were made anew", places=sorted(map(str, anew)))
        self._anew |= anew
        self._ids.update(places)

    def _refuse_lost(self, begun: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> None:
        """A topic that is gone, or was made anew, ends the query, unless losses are allowed."""
        lost = [str(place) for place in begun if place not in end or end[place] < begun[place]]
        if not lost:
            return
        if self._request.read.fail_on_data_loss:
            raise DataLost(f"{', '.join(sorted(lost))}: there is less than was read already. {HINT}")
        events.warning("records are gone", places=lost)

    def __getstate__(self) -> dict[str, object]:
        """To executors: without the driver's connection."""
        return {**self.__dict__, "_client": None}
