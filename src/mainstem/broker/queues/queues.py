"""Queues as fronts see them: declare, route, publish, take, acknowledge.

Runs on the broker's loop. What must be on disk before somebody is told is journalled in the order of calls,
so that one look at the journal's end answers for all that came before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from mainstem.broker.partition import Partition
from mainstem.broker.queues.acks import AckKeeper
from mainstem.broker.queues.book import AckBook, QueueBook
from mainstem.broker.queues.care import QueueCare
from mainstem.broker.queues.dead_letters import DeadLetters, Grave
from mainstem.broker.queues.delays import LANES as DELAY_LANES
from mainstem.broker.queues.delays import DelayBook, Delays
from mainstem.broker.queues.deltas import Expiring, QueueMade
from mainstem.broker.queues.gathering import MOST_WAITING_BYTES, Gathered, Gatherer
from mainstem.broker.queues.lanes import QueueLane
from mainstem.broker.queues.namespace import Namespace
from mainstem.broker.queues.queue import Queue
from mainstem.broker.queues.route import Route
from mainstem.broker.queues.shelf import Shelf
from mainstem.broker.queues.spec import QueueOptions, QueueSpec
from mainstem.broker.queues.topology import Topology
from mainstem.broker.queues.work import Work
from mainstem.broker.store import Section, Store
from mainstem.broker.topics import Topics
from mainstem.kernel.log.log import Log
from mainstem.model.errors import DiskFull, MainstemError, UnknownNamespace
from mainstem.model.logs import get_log
from mainstem.model.ports import Clock
from mainstem.model.record import Headers

events = get_log(__name__)

# Routes that are remembered; beyond it they are looked up anew.
MAX_ROUTES = 100_000
MAX_NAMES_IN_ROUTES = 200_000  # of queues, in those that are remembered by them
# How often, and for how much, space is looked for while there was none.
LOOK_FOR_ROOM_S = 0.05
ROOM_BYTES = 1 << 20
DELAYS_NAMESPACE = "\0"


class Queues:
    """There before the log is, so that replay can rebuild it; serves once it has started."""

    log: Log
    topology: Topology
    acks: AckKeeper
    _store: Store
    _gatherer: Gatherer
    _dead: DeadLetters
    _care: QueueCare
    delays: Delays

    def __init__(self, topics: Topics, clock: Clock) -> None:
        self._topics = topics
        self._clock = clock
        self.book = QueueBook(topics, self._new_queue)
        self.ack_book = AckBook(self.book)
        self.delay_book = DelayBook()
        # How to read the headers of a message, by the name of the record header that has them.
        self.header_readers: dict[str, Callable[[bytes], Mapping[str, object]]] = {}
        self.priority_readers: dict[str, Callable[[bytes], int]] = {}
        self._routes: dict[tuple[str, str, tuple[str, ...]], Route] = {}
        self._routes_by_queues: dict[tuple[str, frozenset[str]], Route] = {}
        self._names_in_routes = 0  # about so many, of queues
        self._routes_version = -1
        self._woken: list[Queue] = []
        self.shelf = Shelf()
        self.blocked: str | None = None  # why nobody may publish now
        self.on_blocked: list[Callable[[str | None], None]] = []

    def _new_queue(self, made: QueueMade, partitions: list[Partition]) -> Queue:
        return Queue(made, partitions, self)

    async def start(self, store: Store) -> None:
        self._store = store
        self.log = store.log
        self.topology = Topology(store, self.book, self._topics, self._clock)
        self.acks = AckKeeper(store)
        self._gatherer = Gatherer(self.log, self._clock.now_ms, self.acks.flush)
        self._gatherer.on_room = self._set_blocked
        self._gatherer.on_expiring = self.watch_expiry
        self._dead = DeadLetters(store, self._clock, self, self.acks.flush)
        self._care = QueueCare(self._clock, self._delete)
        self.topology.on_made = self._care.take_on
        await self.topology.drop_transient()
        for queue in self.book.queues.values():
            for lane in queue.lanes:
                lane.settle()
                queue.may_expire = queue.may_expire or lane.expiring
            self._care.take_on(queue)
        self.delays = Delays(store, self.delay_book, self._clock, self)
        self.delays.use(await self._delay_queue())

    async def _delay_queue(self) -> Queue:
        """Its namespace has a name that no client can say."""
        namespace = await self.topology.add_namespace(DELAYS_NAMESPACE)
        options = QueueOptions(max_priority=DELAY_LANES - 1)
        return await self.topology.declare_queue(namespace, QueueSpec("delays", options=options))

    async def close(self) -> None:
        """What was acknowledged in memory goes to disk with the rest."""
        await self.delays.close()
        await self._dead.close()
        self._gatherer.flush()
        self.acks.flush()

    # --- counts ----------------------------------------------------------------------------------

    def count(self) -> int:
        """Queues, without the broker's own."""
        return len(self.book.queues) - 1

    @property
    def published(self) -> int:
        return self._gatherer.messages

    @property
    def buried(self) -> int:
        return self._dead.buried

    async def _delete(self, queue: Queue, why: str) -> None:
        await self.topology.delete_queue(queue, why=why)
        self._care.sizes.forget(queue)

    # --- publish ---------------------------------------------------------------------------------

    def route(
        self,
        namespace: Namespace,
        exchange: str,
        keys: tuple[str, ...],
        headers: Mapping[str, object] | None = None,
    ) -> Route:
        """Where messages with these keys go; of use until the topology changes. UnknownExchange.

        `headers`: Labels, for exchanges that go by them. Equal answers are one object: what leads to the same
        queues is gathered together, whichever way it came.
        """
        if self._routes_version != self.book.version:
            self._routes.clear()
            self._routes_by_queues.clear()
            self._names_in_routes = 0
            self._routes_version = self.book.version
        key = (namespace.name, exchange, keys)
        found = self._routes.get(key)
        if found is None:
            if self.book.namespaces.get(namespace.name) is not namespace:
                raise UnknownNamespace(f"namespace {namespace.name!r} was deleted")
            found = self._route_to(namespace, namespace.router.route(exchange, keys, headers))
            if len(keys) > 1 or namespace.router.depends_on_headers(exchange):
                return found
            if len(self._routes) >= MAX_ROUTES:
                self._routes.clear()
            self._routes[key] = found
        return found

    def _route_to(self, namespace: Namespace, names: frozenset[str]) -> Route:
        key = (namespace.name, names)
        found = self._routes_by_queues.get(key)
        if found is None:
            found = Route(tuple(namespace.queues[name] for name in sorted(names)))
            self._names_in_routes += len(names) + 1
            if self._names_in_routes > MAX_NAMES_IN_ROUTES:
                self._routes_by_queues.clear()
                self._names_in_routes = len(names) + 1
            self._routes_by_queues[key] = found
        return found

    def gather(self, route: Route, priority: int = 0) -> Gathered:
        """Where to put messages of this turn for a route that leads somewhere."""
        return self._gatherer.gather(route, priority)

    def gather_delayed(self, due_ms: int, work: Work | None = None) -> Gathered:
        """Where to put one message that is published at a later time, with its namespace in `space`."""
        return self.delays.gather(self._gatherer if work is None else work, due_ms)

    def after_disk(self, call: Callable[[], None], refused: Callable[[], None] | None = None) -> None:
        self._gatherer.after_disk(call, refused)

    def full(self, route: Route, size: int = 0) -> tuple[Queue, ...]:
        """Queues that take no other message, of so many bytes, rather than to lose their oldest."""
        return tuple(queue for queue in route.limited if self._is_full(queue, size))

    def refused(
        self, queue: Queue, exchange: str, keys: list[str], headers: dict[str, bytes | None]
    ) -> tuple[Route, Headers] | None:
        """Where a message goes that a full queue did not take, and the headers to add; None: nowhere."""
        if queue.options.overflow != "reject-publish-dlx":
            return None
        return self._dead.refused(queue, exchange, keys, headers)

    def _is_full(self, queue: Queue, size: int) -> bool:
        options = queue.options
        if options.max_length is not None:
            coming = sum(lane.partition.next_offset - lane.state.end for lane in queue.lanes)
            if queue.ready + coming + self._gatherer.gathered(queue) >= options.max_length:
                return True
        return options.max_bytes is not None and self._care.sizes.is_full(queue, options.max_bytes - size)

    def known_bytes(self, queue: Queue) -> int | None:
        """Of its messages that nobody holds, where that is counted: in queues that have a limit on it."""
        return self._care.sizes.known_bytes(queue) if queue.options.max_bytes is not None else None

    def transaction(self) -> Work:
        return Work(self._store, self._clock.now_ms, self._gatherer.flush, self.watch_expiry)

    def _set_blocked(self, why: str | None) -> None:
        if (why is None) == (self.blocked is None):
            return
        if why is not None:
            asyncio.get_running_loop().call_later(LOOK_FOR_ROOM_S, self._look_for_room)
        self.blocked = why
        for call in list(self.on_blocked):
            call(why)

    def _look_for_room(self) -> None:
        """Those who publish wait to be told: nobody else will find out that there is space again."""
        if self.blocked is None:
            return
        try:
            self.log.check_room(ROOM_BYTES)
            has_room = self.log.pending_bytes <= MOST_WAITING_BYTES // 2
        except DiskFull:
            has_room = False
        if has_room:
            self._set_blocked(None)
        else:
            asyncio.get_running_loop().call_later(LOOK_FOR_ROOM_S, self._look_for_room)

    # --- what dead letters and delays need -------------------------------------------------------

    def find_namespace(self, name: str) -> Namespace | None:
        return self.book.namespaces.get(name)

    def headers_of(self, headers: Mapping[str, bytes | None]) -> Mapping[str, object] | None:
        """As the protocol that published a message means them."""
        for name, read in self.header_readers.items():
            raw = headers.get(name)
            if raw is not None:
                try:
                    return read(raw)
                except MainstemError:  # it was taken as it is: whoever asks for headers finds none
                    return None
        return None

    def priority_of(self, headers: Mapping[str, bytes | None]) -> int:
        """That it was published with; 0 is the least urgent."""
        for name, read in self.priority_readers.items():
            raw = headers.get(name)
            if raw is not None:
                return read(raw)
        return 0

    def watch_expiry(self, lanes: tuple[QueueLane, ...]) -> None:
        """Messages with a time to live of their own are about to come there."""
        new = []
        for lane in lanes:
            queue = self.book.queue_of(lane)
            if queue is None or queue.namespace == DELAYS_NAMESPACE:
                continue  # theirs begins when they are due
            if not lane.expiring:
                lane.expiring = True
                new.append(lane.partition.id)
            if not queue.may_expire:
                queue.may_expire = True
                self._care.take_on(queue)
        if new:  # or nobody would look at them after a restart
            self._store.append(Section.ACKS, Expiring(tuple(new)), lambda _: None)

    # --- for queues (Host) -----------------------------------------------------------------------

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def soon(self, queue: Queue) -> None:
        if not self._woken:
            asyncio.get_running_loop().call_soon(self._pump)
        self._woken.append(queue)

    def _pump(self) -> None:
        woken, self._woken = self._woken, []
        for queue in woken:
            try:
                queue.pump()
            except Exception as error:  # a bug with one queue must not keep others from theirs
                events.error("a queue could not be served", queue=queue.name, error=error)
                queue.wake_later()

    def a_turn(self) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        return turn

    def load(self, lane: QueueLane, offset: int) -> asyncio.Future[None]:
        async def read() -> None:
            try:
                upto = lane.partition.high_watermark
                lane.reader.use(await self._store.in_reader(lane.reader.load, offset, upto), offset)
            except MainstemError as error:
                events.error("messages could not be read", queue=str(lane.partition), error=error)
                raise
            finally:
                lane.loading = None

        if lane.loading is None:
            lane.loading = asyncio.ensure_future(read())
        return lane.loading

    def mark(self, lane: QueueLane, offset: int) -> asyncio.Future[None]:
        return self.acks.mark(lane, offset)

    def acked(self, lane: QueueLane, first: int, stop: int) -> None:
        self.acks.note(lane, first, stop)

    def failed(self, lane: QueueLane, first: int, stop: int) -> None:
        self.acks.note_failed(lane, first, stop)

    def bury(self, queue: Queue, lane: QueueLane, first: int, stop: int, reason: str) -> None:
        self._dead.bury(Grave(queue, lane, first, stop, reason))

    def unused(self, queue: Queue) -> None:
        self._care.unused(queue)

    def used(self, queue: Queue) -> None:
        self._care.used(queue)

    def care_for(self, queue: Queue) -> None:
        self._care.look_after(queue)
