"""Fetch: what is there now, or a wait until enough has come or the time is up.

The fast way runs wholly in the call that took the request: everything asked for is in memory. What must
come from the disk is read by a reader thread; what is not there yet is waited for at its partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice

from mainstem.broker.broker import Broker
from mainstem.broker.partition import Partition
from mainstem.broker.reading import Bounds, Chunk, PartitionRead, Reading, WouldBlock, is_cut
from mainstem.fronts.kafka.answer import Answer
from mainstem.fronts.kafka.codes import UNKNOWN_SERVER_ERROR, code_of, code_of_read
from mainstem.fronts.kafka.repeated import Repeats
from mainstem.fronts.kafka.session import Session
from mainstem.fronts.kafka.versions import ZSTD, ZSTD_SINCE
from mainstem.model.errors import (
    FencedLeaderEpoch,
    MainstemError,
    StorageError,
    UnknownLeaderEpoch,
    UnsupportedCompression,
)
from mainstem.model.logs import get_log
from mainstem.model.slices import FileSlice
from mainstem.wire.kafka.frames import RequestHeader
from mainstem.wire.kafka.hot import (
    FetchPartition,
    FetchQuery,
    FetchResult,
    FetchTopic,
    Topic,
    encode_fetch_response,
    parse_fetch,
)

events = get_log(__name__)

READ_COMMITTED = 1
STORAGE_ERROR = 56
_FETCH_SESSION_ID_NOT_FOUND = 70


Results = list[tuple[Topic, list[FetchResult]]]
_Asked = tuple[Topic, int, int, int, int]  # topic, partition, leader epoch, offset, most bytes
_NOTHING: FetchResult = (-1, UNKNOWN_SERVER_ERROR, -1, -1, -1, None, ())


class _Part:
    """One partition of a request on its way to a reader thread and back: seen on the loop, read off it."""

    __slots__ = (
        "batches",
        "bounds",
        "end",
        "error",
        "index",
        "max_bytes",
        "offset",
        "partition",
        "size",
        "topic",
    )

    def __init__(self, topic: Topic, index: int, offset: int, max_bytes: int) -> None:
        self.topic = topic
        self.index = index
        self.offset = offset
        self.max_bytes = max_bytes
        self.partition: Partition | None = None
        self.bounds: Bounds | None = None
        self.batches: Sequence[Chunk] = ()
        self.end = 0
        self.size = 0
        self.error: Exception | None = None


def _read_files(reading: Reading, parts: list[_Part], left: int) -> None:
    """In a reader thread: nothing is touched here but files and the parts."""
    total = 0
    for part in parts:
        if part.partition is None or part.bounds is None:
            continue
        room = min(part.max_bytes, left) if total == 0 or left > 0 else 0
        room = max(room, 1) if total == 0 else room
        try:
            part.batches, part.end = reading.chunks(part.partition.id, part.offset, room, part.bounds.upto)
        except (MainstemError, OSError) as error:
            part.error = error
        part.size = sum(map(len, part.batches))
        total += part.size
        left -= part.size


class Fetching:
    """One request under way."""

    __slots__ = ("_answer", "_correlation_id", "_partitions", "_query", "_session", "_timer", "_version")

    def __init__(self, session: Session, header: RequestHeader, query: FetchQuery, answer: Answer) -> None:
        self._session = session
        self._query = query
        self._answer = answer
        self._version = header.api_version
        self._correlation_id = header.correlation_id
        self._partitions: list[Partition] = []  # waited at
        self._timer: asyncio.TimerHandle | None = None
        answer.on_cancel = self._stop_waiting

    def start(self) -> None:
        try:
            results, size, enough = self._read()
        except WouldBlock:
            self._read_cold()
            return
        if enough or self._query.max_wait_ms <= 0:
            self._send(results, size)
        else:
            self._wait()

    # --- reading ---------------------------------------------------------------------------------

    def _read(self) -> tuple[Results, int, bool]:
        """Results, their bytes, and whether it is what was asked for, or waiting would be of no use."""
        query = self._query
        broker = self._session.listener.broker
        committed = query.isolation_level == READ_COMMITTED
        left = self._max_bytes()
        wanted_bytes = min(query.min_bytes, left)
        asked = self._asked()
        found: list[FetchResult] = [_NOTHING] * len(asked)
        total, used, final = 0, 0, not asked
        for place in self._in_turn(asked):
            topic, index, epoch, offset, max_bytes = asked[place]
            try:
                partition = self._partition(broker, topic, index, epoch)
                # Something is always sent, even if one batch is more than was asked for.
                room = min(max_bytes, left) if total == 0 or left > 0 else 0
                read = broker.reading.read(partition, offset, max(room, 1) if total == 0 else room, committed)
                size = read.size
                # Batches are whole: where the next one did not fit, the room that was left counts as used.
                cut = 0 < size < wanted_bytes and is_cut(read, committed)
            except (MainstemError, OSError) as error:
                final = True
                found[place] = _failed(broker, topic, index, error)
                continue
            total += size
            used += max(room, size) if cut else size
            left -= size
            if size and size == total:
                self._session.served_first = (topic, index)
            found[place] = _result(index, read)
        return self._by_topic(found), total, final or used >= wanted_bytes

    def _asked(self) -> list[_Asked]:
        return [
            (topic, index, epoch, offset, max_bytes)
            for topic, wanted in self._query.topics
            for index, epoch, offset, _, max_bytes in wanted
        ]

    def _in_turn(self, asked: list[_Asked]) -> Iterable[int]:
        """The one behind who came first the last time comes first: an answer may be full before all had their
        turn, and not every client asks in another order the next time."""
        served = self._session.served_first
        if served is not None and len(asked) > 1:
            for place, (topic, index, *_) in enumerate(asked, 1):
                if (topic, index) == served:
                    return (*range(place, len(asked)), *range(place))
        return range(len(asked))

    def _by_topic(self, found: Iterable[FetchResult]) -> Results:
        left = iter(found)
        return [(topic, list(islice(left, len(wanted)))) for topic, wanted in self._query.topics]

    def _partition(self, broker: Broker, topic: Topic, index: int, epoch: int) -> Partition:
        topics = broker.topics
        found = topics.get_by_id(topic) if isinstance(topic, bytes) else topics.by_name.get(topic)
        if found is None:
            self._session.require("read", "topic", str(topic))
            found = topics.get(str(topic))
        self._session.require("read", "topic", found.name)
        if found.policy.codec == ZSTD and self._version < ZSTD_SINCE:
            raise UnsupportedCompression(f"zstd in Fetch version {self._version}")
        partition = topics.partition(found, index)
        if epoch >= 0 and epoch != partition.leader_epoch:
            if epoch < partition.leader_epoch:
                raise FencedLeaderEpoch(f"leader epoch {epoch} is over")
            raise UnknownLeaderEpoch(f"leader epoch {epoch} has not begun")
        return partition

    def _max_bytes(self) -> int:
        listener = self._session.listener
        return listener.answers.allowed(min(self._query.max_bytes, listener.max_response_bytes))

    # --- reading what is not in memory -----------------------------------------------------------

    def _read_cold(self) -> None:
        """Some of it is not in memory: let a reader thread wait for the disk."""
        loop = asyncio.get_running_loop()
        broker = self._session.listener.broker
        committed = self._query.isolation_level == READ_COMMITTED
        asked = self._asked()
        parts: list[_Part] = []
        for topic, index, epoch, offset, max_bytes in asked:
            part = _Part(topic, index, offset, max_bytes)
            parts.append(part)
            try:
                part.partition = self._partition(broker, topic, index, epoch)
                part.bounds = broker.reading.bounds(part.partition, offset, committed)
            except MainstemError as error:
                part.error = error
        in_turn = [parts[place] for place in self._in_turn(asked)]
        work = partial(_read_files, broker.reading, in_turn, self._max_bytes())
        future = loop.run_in_executor(broker.store.readers, work)
        future.add_done_callback(partial(self._on_cold, parts, in_turn))

    def _on_cold(self, parts: list[_Part], in_turn: list[_Part], future: asyncio.Future[None]) -> None:
        if self._answer.cancelled or future.cancelled():
            return
        error = future.exception()
        if error is not None:
            events.error("a fetch failed", error=error)
            self._answer.fail("internal error")
            return
        results = self._by_topic(map(self._result_of, parts))
        served = next((part for part in in_turn if part.size), None)
        if served is not None:
            self._session.served_first = (served.topic, served.index)
        self._send(results, sum(part.size for part in parts))

    def _result_of(self, part: _Part) -> FetchResult:
        reading = self._session.listener.broker.reading
        committed = self._query.isolation_level == READ_COMMITTED
        if part.error is None and part.partition is not None and part.bounds is not None:
            try:
                read = reading.result(
                    part.partition, part.offset, committed, part.bounds, part.batches, part.end
                )
                return _result(part.index, read)
            except MainstemError as error:
                part.error = error
        assert part.error is not None
        part.size = 0
        return _failed(self._session.broker, part.topic, part.index, part.error)

    # --- waiting ---------------------------------------------------------------------------------

    def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        topics = self._session.listener.broker.topics
        for topic, wanted in self._query.topics:
            found = topics.by_id[topic] if isinstance(topic, bytes) else topics.by_name[topic]
            for index, *_ in wanted:
                partition = found.partitions[index]
                partition.wait(self._woken)
                self._partitions.append(partition)
        self._timer = loop.call_later(self._query.max_wait_ms / 1000, self._time_is_up)
        self._answer.hurry = self._time_is_up

    def _woken(self) -> None:
        """Something came for one of the partitions."""
        try:
            results, size, enough = self._read()
        except WouldBlock:
            self._stop_waiting()
            self._read_cold()
            return
        if enough:
            self._stop_waiting()
            self._send(results, size)

    def _time_is_up(self) -> None:
        self._stop_waiting()
        try:
            results, size, _ = self._read()
        except WouldBlock:
            self._read_cold()
            return
        self._send(results, size)

    def _stop_waiting(self) -> None:
        self._answer.hurry = None
        for partition in self._partitions:
            partition.stop_waiting(self._woken)
        self._partitions = []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self, results: Results, size: int) -> None:
        self._answer.held = size
        answers = self._session.listener.answers
        answers.held += size
        answers.messages_bytes += size
        self._session.listener.broker.reading.sent(size)
        self._answer.ready(encode_fetch_response(self._correlation_id, self._version, 0, 0, 0, results))


def fetch(
    session: Session, header: RequestHeader, frame: memoryview, position: int, answer: Answer
) -> Answer | None:
    query = parse_fetch(frame, position, header.api_version)
    if query.session_id and query.session_epoch > 0:
        # No session is ever given out, so this one is none of ours: the client starts over without.
        answer.chunks = list(
            encode_fetch_response(
                header.correlation_id, header.api_version, 0, _FETCH_SESSION_ID_NOT_FOUND, 0, []
            )
        )
        return answer
    topics = query.topics
    if len(topics) > 1 or (topics and len(topics[0][1]) > 1):
        query.topics = without_repeats(topics)
    Fetching(session, header, query, answer).start()
    _remember(session, header, frame, query, answer)
    return answer


def _remember(
    session: Session, header: RequestHeader, frame: memoryview, query: FetchQuery, answer: Answer
) -> None:
    """An answer that was there at once, and of which nothing had to be read: its like will come again."""
    as_they_lie = sum(len(chunk) for chunk in answer.chunks or () if isinstance(chunk, FileSlice))
    if len(query.topics) != 1 or not as_they_lie or as_they_lie < answer.held:
        return
    ((topic, wanted),) = query.topics
    if len(wanted) != 1:
        return
    topics = session.broker.topics
    found = topics.get_by_id(topic) if isinstance(topic, bytes) else topics.by_name.get(topic)
    if found is not None:
        if session.repeats is None:
            session.repeats = Repeats(session)
        partition = topics.partition(found, wanted[0][0])
        session.repeats.learn_fetch(frame, header.api_version, query, partition)


def without_repeats(topics: list[FetchTopic]) -> list[FetchTopic]:
    """A partition that is named again counts once, as in Kafka: where it came first, with what came last."""
    if len({topic for topic, _ in topics}) < len(topics):
        together: dict[Topic, list[FetchPartition]] = {}
        for topic, wanted in topics:
            together.setdefault(topic, []).extend(wanted)
        topics = list(together.items())
    found: list[FetchTopic] = []
    for topic, wanted in topics:
        last = {partition[0]: partition for partition in wanted}
        found.append((topic, wanted if len(last) == len(wanted) else list(last.values())))
    return found


def _failed(broker: Broker, topic: Topic, index: int, error: Exception) -> FetchResult:
    # What the system says about a file is the storage's trouble, which clients ask again about.
    known = StorageError(str(error)) if isinstance(error, OSError) else error
    if code_of(known) in (UNKNOWN_SERVER_ERROR, STORAGE_ERROR):
        events.error("a read failed", topic=broker.topics.name_of(topic), partition=index, error=error)
    return (index, code_of_read(known), -1, -1, -1, None, ())


def _result(index: int, read: PartitionRead) -> FetchResult:
    return (
        index,
        0,
        read.high_watermark,
        read.last_stable_offset,
        read.log_start,
        read.aborted,
        read.batches,
    )
