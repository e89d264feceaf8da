"""A small Kafka client: metadata, produce, fetch, offsets. Blocking, for one thread.

It holds no state but connections and the last metadata, starts no thread and uses no globals; its settings
can be pickled and a client made from them anywhere.

    with Client(ClientSettings(parse_bootstrap("127.0.0.1:9092"))) as client:
        for fetched in client.fetch({TopicPartition("orders", 0): 0}):
            ...
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TypeVar

from mainstem.client import codes
from mainstem.client.cluster import (
    Cluster,
    Fetched,
    FetchLimits,
    OffsetAt,
    TopicInfo,
    TopicPartition,
    cluster_of,
)
from mainstem.client.connection import Connection
from mainstem.client.patience import sit_out
from mainstem.client.settings import Address, ClientSettings
from mainstem.model.errors import BrokerRefused, BrokerUnreachable, UnknownTopic
from mainstem.wire.kafka.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from mainstem.wire.kafka.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from mainstem.wire.kafka.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from mainstem.wire.kafka.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from mainstem.wire.kafka.schema import Message

A = TypeVar("A", bound=Message)
T = TypeVar("T")

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
ACKS_ALL = -1
NOBODY = -1


class Client:
    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._connections: dict[Address, Connection] = {}
        self._nodes: dict[int, Address] = {}
        self._topics: dict[str, TopicInfo] = {}

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # --- connections -----------------------------------------------------------------------------

    def connection(self, node: int = NOBODY) -> Connection:
        """To a node that metadata told of, or to whichever answers."""
        if node == NOBODY or node not in self._nodes:
            return self._any()
        return self._to(self._nodes[node])

    def knows(self, node: int) -> bool:
        return node in self._nodes

    def _any(self) -> Connection:
        for connection in self._connections.values():
            if not connection.is_stale():
                return connection
        wrong: BrokerUnreachable | None = None
        for attempt in range(self.settings.attempts):
            if attempt:
                time.sleep(self.settings.backoff_s * 2 ** (attempt - 1))
            for address in self.settings.bootstrap:
                try:
                    return self._to(address)
                except BrokerUnreachable as error:
                    wrong = wrong or error
        assert wrong is not None
        raise wrong

    def _to(self, address: Address) -> Connection:
        known = self._connections.get(address)
        if known is not None:
            if not known.is_stale():
                return known
            known.close()
        made = self._connections[address] = Connection(address, self.settings)
        return made

    def ask(self, message: Message, answer: type[A], *, node: int = NOBODY, again: bool = True) -> A:
        """Send a request to a node (any, without one) and wait for the answer.

        With `again` a connection that breaks on the way is made anew and asked again: for requests that do
        no harm when they are done twice.
        """
        for attempt in range(self.settings.attempts if again else 1):
            if attempt:
                time.sleep(self.settings.backoff_s * 2 ** (attempt - 1))
            connection = self.connection(node)
            try:
                return connection.ask(message, answer)
            except BrokerUnreachable:
                if attempt + 1 == self.settings.attempts or not again:
                    raise
        raise AssertionError("attempts is at least 1")

    # --- metadata --------------------------------------------------------------------------------

    def cluster(self, topics: Iterable[str] | None = None, *, create: bool = False) -> Cluster:
        """Nodes, and all topics or those named; `create` makes missing ones if the broker lets us."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(wanted, allow_auto_topic_creation=create)
        cluster = cluster_of(self.ask(request, MetadataResponse))
        self._nodes.update(cluster.nodes)
        self._topics.update({name: topic for name, topic in cluster.topics.items() if not topic.error_code})
        return cluster

    def topic(self, name: str, *, create: bool = False) -> TopicInfo:
        """Fresh from the broker. A topic that is just being made is waited for."""

        def look() -> TopicInfo:
            topic = self.cluster([name], create=create).topics[name]
            if topic.error_code == codes.UNKNOWN_TOPIC and not create:
                raise UnknownTopic(f"there is no topic {name!r}")
            codes.check(topic.error_code, f"topic {name!r}")
            return topic

        return self.while_moving(look, extra=frozenset({codes.UNKNOWN_TOPIC}) if create else frozenset())

    def while_moving(self, look: Callable[[], T], extra: frozenset[int] = frozenset()) -> T:
        """Look again for a while if the answer is that things are just changing."""
        for attempt in range(1, self.settings.attempts + 1):
            try:
                return look()
            except BrokerRefused as refused:
                if attempt == self.settings.attempts or refused.code not in codes.MOVED | extra:
                    raise
                time.sleep(self.settings.backoff_s * 2 ** (attempt - 1))
        raise AssertionError("attempts is at least 1")

    def _known(self, name: str) -> TopicInfo:
        return self._topics.get(name) or self.topic(name)

    def by_leader(self, places: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Which node to ask about which partitions."""
        leaders: dict[int, list[TopicPartition]] = {}
        for place in places:
            partitions = self._known(place.topic).partitions
            if not 0 <= place.partition < len(partitions):
                raise UnknownTopic(f"topic {place.topic!r} has no partition {place.partition}")
            leaders.setdefault(partitions[place.partition].leader, []).append(place)
        return leaders

    # --- produce ---------------------------------------------------------------------------------

    def produce(
        self, batches: Mapping[TopicPartition, bytes | bytearray], *, acks: int = ACKS_ALL
    ) -> dict[TopicPartition, int]:
        """Append one batch to each partition; the offsets they got (-1 with acks 0).

        Not repeated when the connection breaks: whether the batches are there is then unknown.
        """
        got: dict[TopicPartition, int] = {}
        for leader, places in self.by_leader(batches).items():
            request = ProduceRequest(
                acks=acks,
                timeout_ms=int(self.settings.request_timeout_s * 1000),
                topic_data=[
                    TopicProduceData(
                        name=topic,
                        partition_data=[PartitionProduceData(p, memoryview(batches[at])) for p, at in some],
                    )
                    for topic, some in _per_topic(places).items()
                ],
            )
            if acks == 0:
                self.connection(leader).send(request, answered=False)
                got.update(dict.fromkeys(places, -1))
                continue
            answer = self.ask(request, ProduceResponse, node=leader, again=False)
            for topic in answer.responses:
                for one in topic.partition_responses:
                    place = TopicPartition(topic.name, one.index)
                    self._note(one.error_code, place.topic)
                    codes.check(one.error_code, str(place), one.error_message)
                    got[place] = one.base_offset
        return got

    def _note(self, code: int, topic: str) -> None:
        """After some errors what we know about a topic is old."""
        if code in codes.MOVED or code in (codes.UNKNOWN_TOPIC, codes.UNKNOWN_TOPIC_ID):
            self._topics.pop(topic, None)

    # --- fetch -----------------------------------------------------------------------------------

    def fetch(
        self,
        offsets: Mapping[TopicPartition, int],
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 50 << 20,
        partition_max_bytes: int = 1 << 20,
        committed: bool = False,
    ) -> list[Fetched]:
        """Records from these offsets on, as stored. Waits up to `max_wait_ms` for `min_bytes`.

        Errors are per partition: look at `error_code`, or call `check()`. A broker that throttles may leave
        out all of them; then it is asked again.
        """
        limits = FetchLimits(max_wait_ms, min_bytes, max_bytes, partition_max_bytes, committed)
        deadline = time.monotonic() + self.settings.request_timeout_s
        while True:
            answers = self._fetch_all(self.fetch_requests(offsets, limits), max_wait_ms / 1000)
            found = [one for answer in answers for one in self.fetched(answer, offsets)]
            if found or not offsets:
                return found
            throttled = sit_out(max(answer.throttle_time_ms for answer in answers))
            if time.monotonic() > deadline:
                raise throttled

    def fetch_requests(
        self, offsets: Mapping[TopicPartition, int], limits: FetchLimits
    ) -> dict[int, FetchRequest]:
        """What to ask each node for."""
        return {
            leader: FetchRequest(
                max_wait_ms=limits.max_wait_ms,
                min_bytes=limits.min_bytes,
                max_bytes=limits.max_bytes,
                isolation_level=1 if limits.committed else 0,
                topics=[
                    FetchTopic(
                        topic=topic,
                        topic_id=self._known(topic).id,
                        partitions=[
                            FetchPartition(
                                partition=p,
                                fetch_offset=offsets[at],
                                partition_max_bytes=limits.partition_max_bytes,
                            )
                            for p, at in some
                        ],
                    )
                    for topic, some in _per_topic(places).items()
                ],
            )
            for leader, places in self.by_leader(offsets).items()
        }

    def fetched(self, answer: FetchResponse, offsets: Mapping[TopicPartition, int]) -> Iterator[Fetched]:
        """The partitions in an answer to one of `fetch_requests`."""
        codes.check(answer.error_code, "fetch")
        names = {self._known(place.topic).id: place.topic for place in offsets}
        for topic in answer.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for one in topic.partitions:
                place = TopicPartition(name, one.partition_index)
                self._note(one.error_code, name)
                yield _fetched(place, offsets[place], one)

    def _fetch_all(self, requests: Mapping[int, FetchRequest], wait_s: float) -> list[FetchResponse]:
        """Ask every leader at once. Reading twice does no harm: broken connections are made again."""
        for attempt in range(1, self.settings.attempts + 1):
            asked: list[Connection] = []
            try:
                for leader, request in requests.items():
                    asked.append(self.connection(leader))
                    asked[-1].send(request)
                return [connection.receive(FetchResponse, extra_s=wait_s) for connection in asked]
            except BaseException as error:
                for connection in asked:  # an answer that nobody reads would be taken for the next one's
                    connection.close()
                if attempt == self.settings.attempts or not isinstance(error, BrokerUnreachable):
                    raise
                time.sleep(self.settings.backoff_s * 2 ** (attempt - 1))
        raise AssertionError("attempts is at least 1")

    # --- offsets ---------------------------------------------------------------------------------

    def offsets(
        self, times_ms: Mapping[TopicPartition, int], *, committed: bool = False
    ) -> dict[TopicPartition, OffsetAt]:
        """The first record at or after a time, or EARLIEST, LATEST (the next offset), MAX_TIMESTAMP."""
        got: dict[TopicPartition, OffsetAt] = {}
        for leader, places in self.by_leader(times_ms).items():
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=1 if committed else 0,
                topics=[
                    ListOffsetsTopic(
                        topic,
                        [ListOffsetsPartition(partition_index=p, timestamp=times_ms[at]) for p, at in some],
                    )
                    for topic, some in _per_topic(places).items()
                ],
            )
            for topic in self.ask(request, ListOffsetsResponse, node=leader).topics:
                for one in topic.partitions:
                    place = TopicPartition(topic.name, one.partition_index)
                    self._note(one.error_code, place.topic)
                    codes.check(one.error_code, str(place))
                    got[place] = OffsetAt(one.offset, one.timestamp)
        return got

    def bounds(self, topics: Iterable[str]) -> dict[TopicPartition, tuple[int, int]]:
        """First and next offset of every partition of some topics."""
        places = [TopicPartition(name, p.index) for name in topics for p in self._known(name).partitions]
        if not places:
            return {}
        first = self.offsets(dict.fromkeys(places, EARLIEST))
        end = self.offsets(dict.fromkeys(places, LATEST))
        return {place: (first[place].offset, end[place].offset) for place in places}


def _per_topic(places: Sequence[TopicPartition]) -> dict[str, list[tuple[int, TopicPartition]]]:
    topics: dict[str, list[tuple[int, TopicPartition]]] = {}
    for place in places:
        topics.setdefault(place.topic, []).append((place.partition, place))
    return topics


def _fetched(place: TopicPartition, offset: int, one: PartitionData) -> Fetched:
    return Fetched(
        place,
        offset,
        one.error_code,
        one.high_watermark,
        one.last_stable_offset,
        one.log_start_offset,
        tuple((abort.producer_id, abort.first_offset) for abort in one.aborted_transactions or ()),
        memoryview(one.records or b""),
    )
