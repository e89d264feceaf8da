"""Requests whose head came before: what was decided for it once counts for the next ones.

A producer sends the same head again and again: client id, acks, topic, partition. Only the correlation id and
the batch differ. The first such request goes the long way (decode, look up, authorize, answer), and leaves a
route behind; those that follow are recognised by their bytes and go straight to the partition. A route is
good as long as topics, ACLs and the speaker stay as they were. Whatever is not plain success takes the long
way, which knows all the errors.

    request   key version | correlation id | client id .. partition | length | batch | tags
              `- head      differs           `- route's key             differs        as in the route
    answer    size correlation id | before | base offset, append time, log start | after
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from mainstem.broker.looking import HeavyBatch
from mainstem.broker.partition import Partition
from mainstem.broker.publisher import Publisher
from mainstem.fronts.kafka.answer import Answer
from mainstem.fronts.kafka.inbox import Slab
from mainstem.fronts.kafka.repeated_fetch import MAX_REQUEST_BYTES, FetchRoute, fixed_part
from mainstem.fronts.kafka.session import Session
from mainstem.model.batch import BATCH_OVERHEAD
from mainstem.model.big_endian import int32_at
from mainstem.model.errors import MainstemError
from mainstem.wire.kafka.hot import FetchQuery, Topic, encode_produce_response

_unpack_head = Struct(">i").unpack_from  # API key and version as one number
_OFFSETS_BYTES = 24
_KEY_FROM = 8  # behind the correlation id
_LENGTH_BYTES = 4
_MAX_VARINT_BYTES = 5

_FIRST_VERSION = 5  # whose answer has the log start
_FLEXIBLE = 9
_NO_TAGS = b"\0\0\0"  # behind the batch: of the partition, the topic, the request
# Bytes of an answer behind its offsets, with one partition and no error.
_AFTER_BYTES = {5: 4, 6: 4, 7: 4, 8: 10}
_AFTER_FLEXIBLE_BYTES = 9
# A connection that writes to more partitions than this starts over.
MAX_ROUTES = 4096
# Heads are kept in memory; one that is longer than any real client's is not.
MAX_KEY_BYTES = 1024


class Route:
    """Where a head leads, and the answer around its correlation id and offsets."""

    __slots__ = ("after", "before", "pack", "partition", "size")

    def __init__(self, partition: Partition, topic: Topic, version: int) -> None:
        self.partition = partition
        sample = encode_produce_response(0, version, [(topic, [(partition.index, 0, 0, 0, 0, None)])], 0)
        after = _AFTER_BYTES.get(version, _AFTER_FLEXIBLE_BYTES)
        self.size = len(sample) - 4
        self.before = sample[8 : -after - _OFFSETS_BYTES]
        self.after = sample[-after:]
        self.pack = Struct(f">ii{len(self.before)}sqqq{after}s").pack


class RepeatedProduce(Answer):
    """The answer to one batch for one partition."""

    __slots__ = ("_append_time", "_base", "_correlation_id", "_on_disk", "_route")

    def __init__(self, on_ready: Callable[[], None], route: Route, correlation_id: int) -> None:
        # All that Answer's own does, without the call: this is made for every small request.
        self._on_ready = on_ready
        self.chunks = None
        self.failure = None
        self.may_be_followed = True
        self.request_bytes = self.reserved = self.held = 0
        self.slab = None
        self.cancelled = self.copied = self.silent = self.hurry_closes = False
        self.on_cancel = self.hurry = None
        self._route = route
        self._correlation_id = correlation_id
        self._base: int | None = None
        self._append_time = 0
        self._on_disk = False

    def placed(self, base: int, append_time: int) -> None:
        self._base = base
        self._append_time = append_time
        if self._on_disk:
            self.done(None)

    def done(self, _: object) -> None:
        if self._base is None:  # a retry of what is on disk already: its offset is not told yet
            self._on_disk = True
            return
        route = self._route
        log_start = route.partition.log_start
        self.chunks = [
            route.pack(
                route.size,
                self._correlation_id,
                route.before,
                self._base,
                self._append_time,
                log_start,
                route.after,
            )
        ]
        if not self.cancelled:
            self._on_ready()


class Repeats:
    """The routes of one connection: of Produce requests by their heads, and of the last Fetch, see
    repeated_fetch.py."""

    __slots__ = (
        "_access",
        "_access_version",
        "_fetch",
        "_fetch_seen",
        "_head",
        "_key_end",
        "_principal",
        "_publisher",
        "_routes",
        "_session",
        "_tags",
        "_topics",
        "_topics_version",
    )

    def __init__(self, session: Session) -> None:
        self._session = session
        self._publisher: Publisher = session.broker.publisher
        self._topics = session.broker.topics
        self._access = session.listener.access
        self._routes: dict[bytes, Route] = {}
        self._head = -1
        self._tags = 0  # bytes of them behind the batch
        self._key_end = 0
        self._forget()

    def _forget(self) -> None:
        """A route depends on these besides its bytes."""
        self._routes.clear()
        self._fetch: FetchRoute | None = None
        self._fetch_seen = b""  # what the last Fetch that could have left a route is known by
        self._topics_version = self._topics.version
        self._access_version = self._access.version
        self._principal = self._session.principal

    def _has_changed(self) -> bool:
        return (
            self._topics.version != self._topics_version
            or self._access.version != self._access_version
            or self._session.principal != self._principal
        )

    def refresh(self) -> None:
        """To be called in each turn of the loop, before `start`: within one, nothing changes."""
        if self._has_changed():
            self._forget()

    def learn(self, frame: memoryview, version: int, topic: Topic, partition: Partition, size: int) -> None:
        """A request for one batch of `size` bytes and one partition was taken, without a transaction."""
        if version < _FIRST_VERSION or len(frame) - size > MAX_KEY_BYTES:
            return
        if self._has_changed() or len(self._routes) >= MAX_ROUTES:
            self._forget()
        flexible = version >= _FLEXIBLE
        tags = len(_NO_TAGS) if flexible else 0
        length_bytes = _varint_bytes(size + 1) if flexible else _LENGTH_BYTES
        end = len(frame) - tags
        key_end = end - size - length_bytes
        if flexible:
            start = bytearray(frame[: key_end + _MAX_VARINT_BYTES])
            if not (_behind_length(start, key_end, end) and frame[end:] == _NO_TAGS):
                return  # tags from the future: such a request is not like the others
        self._tags, self._key_end = tags, key_end
        (head,) = _unpack_head(frame)
        if head != self._head:  # another version of the API: its answers look different
            self._routes.clear()
            self._head = head
        key = frame[_KEY_FROM : self._key_end].tobytes()
        if key not in self._routes:
            self._routes[key] = Route(partition, topic, version)

    def learn_fetch(self, frame: memoryview, version: int, query: FetchQuery, partition: Partition) -> None:
        """A request for one partition was answered by large batches, which were sent as they lie."""
        if len(frame) > MAX_REQUEST_BYTES:
            return
        if self._has_changed():
            self._forget()
        known = self._fetch
        if known is not None and known.matches(bytearray(frame), 0, len(frame)):
            known.encourage()
            return
        # Who asks for several partitions one by one goes the long way: it would be another route each time.
        key = fixed_part(frame, query)
        if key == self._fetch_seen:
            self._fetch = FetchRoute(self._session.listener, frame, query, version, partition)
        self._fetch_seen = key

    def start_fetch(self, slab: Slab, start: int, end: int, on_ready: Callable[[], None]) -> Answer | None:
        """Answer the frame slab.data[start:end]. None: it takes the long way."""
        route = self._fetch
        if route is None or not route.matches(slab.data, start, end):
            return None
        answer = route.answer(slab.data, start, on_ready)
        if answer is not None:
            self._session.served_first = route.place
        return answer

    def start(self, slab: Slab, start: int, end: int, on_ready: Callable[[], None]) -> RepeatedProduce | None:
        """Publish what the head of the frame slab.data[start:end] leads to.

        None: the head is not known, or this is not plain success.
        """
        if not self._key_end:  # nothing was learned yet
            return None
        data = slab.data
        at = start + self._key_end
        end -= self._tags
        if end - at < BATCH_OVERHEAD or int32_at(data, start) != self._head:
            return None
        memory = data  # plain memory where this is compiled, which is copied only once
        route = self._routes.get(bytes(memory[start + _KEY_FROM : at]))
        if route is None:
            return None
        if self._tags:
            at = _behind_length(data, at, end)
            if not at or data[end : end + self._tags] != _NO_TAGS:
                return None
        else:
            at += _LENGTH_BYTES
            if int32_at(data, at - _LENGTH_BYTES) != end - at:
                return None
        answer = RepeatedProduce(on_ready, route, int32_at(data, start + 4))
        try:
            base, append_time, copied = self._publisher.publish(
                route.partition, slab.view[at:end], answer.done
            )
        except (MainstemError, HeavyBatch):
            return None  # nothing was published: the long way finds the same, and how to say it
        answer.copied = copied
        answer.placed(base, append_time)
        return answer


def _varint_bytes(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)


def _behind_length(frame: bytearray, at: int, end: int) -> int:
    """Where the batch starts behind its length plus one, a varint; 0 if that does not fit."""
    value = shift = 0
    while shift < 35:
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at if value - 1 == end - at else 0
        shift += 7
    return 0
