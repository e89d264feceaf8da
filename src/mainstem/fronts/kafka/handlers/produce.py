"""Produce: each batch to its partition, one answer when all of them are on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from mainstem.broker.broker import Broker
from mainstem.broker.partition import Partition
from mainstem.broker.publisher import JoinTransaction
from mainstem.fronts.kafka.answer import Answer
from mainstem.fronts.kafka.codes import code_of
from mainstem.fronts.kafka.repeated import Repeats
from mainstem.fronts.kafka.session import Session
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
from mainstem.wire.kafka.frames import RequestHeader
from mainstem.wire.kafka.hot import (
    ProducePartition,
    ProduceResult,
    Refusal,
    Topic,
    encode_produce_response,
    parse_produce,
)

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
    transactional_id, acks, _, topics = parse_produce(frame, position, version)
    broker = session.listener.broker
    request = Produced(answer, header.correlation_id, version, silent=acks == 0)
    join = _join(broker, transactional_id, version) if transactional_id is not None else None
    refused: MainstemError | None = None
    if acks not in (-1, 0, 1):
        refused = InvalidRequiredAcks(f"acks {acks}; use 0, 1 or -1")
    elif transactional_id is not None and not session.allows("write", "transactional_id", transactional_id):
        refused = NotAuthorized(session.principal, "write", "transactional_id", transactional_id)
    failed = False
    for topic, partitions in topics:
        results = request.start_topic(topic)
        repeated = _repeated(partitions) if len(partitions) > 1 else NONE_REPEATED
        for index, records in partitions:
            request.waiting += 1
            try:
                if refused is not None:
                    raise refused
                if index in repeated:
                    raise InvalidRequest(f"partition {index} is named twice in one request")
                partition = _partition(session, broker, topic, index)
                if records is None:
                    raise InvalidRecord(f"no records for partition {index}")
                if version < _ZSTD_SINCE and _is_zstd(records):
                    raise UnsupportedCompression(f"zstd in Produce version {version}")
                base, append_time, _ = broker.publisher.publish(partition, records, request.done, join)
                results.append((index, 0, base, append_time, partition.log_start, None))
            except MainstemError as error:
                failed = True
                results.append((index, code_of(error), _NO_OFFSET, -1, _NO_OFFSET, _why(error)))
                if isinstance(error, _UNSOUND):
                    _complain(session, topic, index, error)
                request.done(None)
    if acks == 0 and failed:
        # The only way to tell a client that wants no answers.
        raise InvalidRequest("a batch sent with acks=0 was refused")
    # Repeated requests are not looked into, so not those whose batches must be.
    plain = acks != 0 and transactional_id is None and version >= _ZSTD_SINCE
    if plain and not failed and len(topics) == 1:
        _remember(session, version, frame, *topics[0])
    request.done(None)
    return answer


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
    name = topic.hex() if isinstance(topic, bytes) else topic
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
