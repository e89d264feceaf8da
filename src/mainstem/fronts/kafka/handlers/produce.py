"""Produce: each batch to its partition, one answer when all of them are on disk."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from mainstem.broker.broker import Broker
from mainstem.broker.looking import HeavyBatch, Looked
from mainstem.broker.partition import Partition
from mainstem.broker.publisher import JoinTransaction
from mainstem.fronts.kafka.answer import Answer
from mainstem.fronts.kafka.codes import code_of
from mainstem.fronts.kafka.repeated import Repeats
from mainstem.fronts.kafka.session import Session
from mainstem.fronts.kafka.slices import Slices
from mainstem.model.errors import (
    CorruptBatch,
    InvalidRecord,
    InvalidRequest,
    InvalidRequiredAcks,
    MainstemError,
    NotAuthorized,
    UnsupportedBatchFormat,
    UnsupportedCompression,
)
from mainstem.model.logs import get_log
from mainstem.wire.kafka.frames import RequestHeader
from mainstem.wire.kafka.hot import (
    ProducePartition,
    ProduceQuery,
    ProduceResult,
    ProduceTopic,
    Refusal,
    Topic,
    encode_produce_response,
    parse_produce,
)

events = get_log(__name__)

# Transactions of version 2: the first batch adds its partition.
_VERSION_2_SINCE = 12
# The first version whose clients know the error that makes them abort.
_ABORTABLE_KNOWN_SINCE = 11
_NO_OFFSET = -1
NONE_REPEATED: frozenset[int] = frozenset()
# KIP-110: an older client could not read it back, and brokers of its time did not take it.
_ZSTD_SINCE = 7
# Where a batch says its codec: the low byte of its attributes.
_CODEC_AT, _CODEC_BITS, _ZSTD = 22, 0b111, 4
# What no sound client sends: the operator hears of it too.
_UNSOUND = (CorruptBatch, InvalidRecord, UnsupportedBatchFormat, UnsupportedCompression)

# Topic, its results so far, partition, whether it is named twice, records.
_Batch = tuple[Topic, list[ProduceResult], int, bool, memoryview | None]


class Produced:
    """A request under way: results so far, and how many batches are not on disk yet."""

    __slots__ = ("_answer", "_correlation_id", "_results", "_silent", "_version", "waiting")

    def __init__(self, answer: Answer, correlation_id: int, version: int, silent: bool) -> None:
        self._answer = answer
        self._silent = silent  # acks=0: its place in line is kept, so that nobody outruns the disk
        self._correlation_id = correlation_id
        self._version = version
        self._results: list[tuple[Topic, list[ProduceResult]]] = []
        self.waiting = 1  # for `all_started`

    def start_topic(self, topic: Topic) -> list[ProduceResult]:
        results: list[ProduceResult] = []
        self._results.append((topic, results))
        return results

    def done(self, _: object) -> None:
        self.waiting -= 1
        if self.waiting:
            return
        if self._silent:
            self._answer.ready([])
        else:
            self._answer.ready(
                [encode_produce_response(self._correlation_id, self._version, self._results, 0)]
            )


def produce(
    session: Session, header: RequestHeader, frame: memoryview, position: int, answer: Answer
) -> Answer | None:
    version = header.api_version
    query = parse_produce(frame, position, version)
    answer.silent = query[1] == 0
    if session.has_left and not answer.silent:
        return None
    producing = Producing(session, header, query, answer)
    if not producing.go_on():
        answer.may_be_followed = False  # nothing of this connection may overtake it
        return answer
    transactional_id, acks, _, topics = query
    # Repeated requests are not looked into, so not those whose batches must be.
    plain = acks != 0 and transactional_id is None and version >= _ZSTD_SINCE
    if plain and not producing.failed and len(topics) == 1:
        _remember(session, version, frame, *topics[0])
    return answer


class Producing:
    """A request on its way into the log, batch by batch, in turns.

    Usually one turn does it. It ends early when its time is up, so that others have theirs, and at a batch
    that it takes long to look into: that is done in a thread, and the next turn begins with what came of it.
    """

    def __init__(self, session: Session, header: RequestHeader, query: ProduceQuery, answer: Answer) -> None:
        transactional_id, acks, _, topics = query
        self._session = session
        self._broker = session.broker
        self._version = header.api_version
        self._silent = acks == 0
        self._answer = answer
        self._request = Produced(answer, header.correlation_id, self._version, self._silent)
        self._join: JoinTransaction | None = None
        self._refused: MainstemError | None = None
        if acks not in (-1, 0, 1):
            self._refused = InvalidRequiredAcks(f"acks {acks}; use 0, 1 or -1")
        if transactional_id is not None:
            self._join = _join(self._broker, transactional_id, self._version)
            if not session.allows("write", "transactional_id", transactional_id):
                self._refused = NotAuthorized(
                    session.principal, "write", "transactional_id", transactional_id
                )
        self._left = self._batches(topics)
        self.failed = False

    def _batches(self, topics: Sequence[ProduceTopic]) -> Iterator[_Batch]:
        for topic, partitions in topics:
            results = self._request.start_topic(topic)
            repeated = _repeated(partitions) if len(partitions) > 1 else NONE_REPEATED
            for index, records in partitions:
                self._request.waiting += 1
                yield topic, results, index, index in repeated, records

    def go_on(self) -> bool:
        """Whether that was all: the answer follows once it is on disk. If not, another turn comes by itself.

        Raises to close the connection.
        """
        slices = Slices()
        for batch in self._left:
            if slices.used_up():
                asyncio.get_running_loop().call_soon(self._next_turn, batch, None)
                return False
            if not self._take(batch, None):
                return False
        if self._silent and self.failed:
            # The only way to tell a client that wants no answers.
            raise InvalidRequest("a batch sent with acks=0 was refused")
        self._request.done(None)
        return True

    def _take(self, batch: _Batch, looked: Looked | MainstemError | None) -> bool:
        """False: it is being looked at, and is taken when that is done."""
        # Not raised: with its traceback one would keep this frame, and the request, until it is collected.
        if self._refused is not None:
            self._refuse(batch, self._refused)
            return True
        if isinstance(looked, MainstemError):
            self._refuse(batch, looked)
            return True
        topic, results, index, is_repeated, records = batch
        request = self._request
        try:
            if is_repeated:
                raise InvalidRequest(f"partition {index} is named twice in one request")
            partition = _partition(self._session, self._broker, topic, index)
            if records is None:
                raise InvalidRecord(f"no records for partition {index}")
            if self._version < _ZSTD_SINCE and _is_zstd(records):
                raise UnsupportedCompression(f"zstd in Produce version {self._version}")
            try:
                base, append_time, _ = self._broker.publisher.publish(
                    partition, records, request.done, self._join, looked
                )
            except HeavyBatch:
                self._look(partition, batch, records)
                return False
            results.append((index, 0, base, append_time, partition.log_start, None))
        except MainstemError as error:
            self._refuse(batch, error)
        return True

    def _refuse(self, batch: _Batch, error: MainstemError) -> None:
        topic, results, index, _, _ = batch
        self.failed = True
        results.append((index, code_of(error), _NO_OFFSET, -1, _NO_OFFSET, _why(error)))
        if isinstance(error, _UNSOUND):
            _complain(self._session, topic, index, error)
        self._request.done(None)

    def _look(self, partition: Partition, batch: _Batch, records: memoryview) -> None:
        def then(found: Looked | Exception) -> None:
            self._answer.on_cancel = None
            self._next_turn(batch, found)

        waiting = self._broker.looker.look(partition.topic.policy, records, then)
        self._answer.on_cancel = waiting.give_up

    def _next_turn(self, batch: _Batch, looked: Looked | Exception | None) -> None:
        if self._answer.cancelled:
            return
        if isinstance(looked, Exception) and not isinstance(looked, MainstemError):
            self._give_up(looked)
            return
        try:
            if self._take(batch, looked):
                self.go_on()
        except MainstemError as error:
            self._answer.fail(str(error))
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """A bug: this connection ends, the broker goes on."""
        events.error("a request failed", peer=self._session.peer, api="Produce", error=error)
        self._answer.fail("Produce: internal error")


def _remember(
    session: Session, version: int, frame: memoryview, topic: Topic, partitions: Sequence[ProducePartition]
) -> None:
    """Its like will come again: next time without looking everything up."""
    if len(partitions) == 1:
        index, records = partitions[0]
        if session.repeats is None:
            session.repeats = Repeats(session)
        partition = _partition(session, session.broker, topic, index)
        session.repeats.learn(frame, version, topic, partition, len(records or b""))


def _is_zstd(records: memoryview) -> bool:
    return len(records) > _CODEC_AT and records[_CODEC_AT] & _CODEC_BITS == _ZSTD


def _why(error: MainstemError) -> Refusal | None:
    if isinstance(error, NotAuthorized):
        return None  # who asked by id, and may not know the name, must not learn it from the refusal
    if isinstance(error, InvalidRecord) and error.positions:
        return str(error), error.positions
    return str(error)


def _complain(session: Session, topic: Topic, index: int, error: MainstemError) -> None:
    name = session.broker.topics.name_of(topic)
    session.listener.complaints.tell(session, "batch refused", topic=name, partition=index, why=str(error))


def _repeated(partitions: Sequence[tuple[int, object]]) -> frozenset[int]:
    """Partitions that are named more than once."""
    if len({index for index, _ in partitions}) == len(partitions):
        return NONE_REPEATED
    named = Counter(index for index, _ in partitions)
    return frozenset(index for index, count in named.items() if count > 1)


def _partition(session: Session, broker: Broker, topic: Topic, index: int) -> Partition:
    topics = broker.topics
    found = topics.get_by_id(topic) if isinstance(topic, bytes) else topics.by_name.get(topic)
    if found is None:
        if not session.allows("write", "topic", str(topic)):
            raise NotAuthorized(session.principal, "write", "topic", str(topic))
        found = topics.get(str(topic))
    session.require("write", "topic", found.name)
    return topics.partition(found, index)


def _join(broker: Broker, transactional_id: str, version: int) -> JoinTransaction:
    join: Callable[..., None] = broker.transactions.join
    return partial(
        join,
        transactional_id,
        version_2=version >= _VERSION_2_SINCE,
        known=version >= _ABORTABLE_KNOWN_SINCE,
    )
