"""The Kafka listener: accepts connections, watches over them, closes them in the end."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from mainstem.fronts.kafka.budget import Budget
from mainstem.fronts.kafka.connection import Connection, ConnectionProtocol
from mainstem.fronts.kafka.dispatch import Dispatcher
from mainstem.fronts.kafka.handlers import HANDLERS, HOT_HANDLERS, OPEN_BEFORE_LOGIN
from mainstem.fronts.kafka.handlers.sasl import raw_login
from mainstem.fronts.kafka.session import Listener
from mainstem.fronts.kafka.versions import offered
from mainstem.model.logs import get_log
from mainstem.net.guests import Guests
from mainstem.net.tls_gate import TlsGate

events = get_log(__name__)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    max_buffered_bytes: int = 128 << 20
    max_bytes_before_authentication: int = 64 << 10
    idle_ms: int = 600_000
    handshake_ms: int = 10_000
    stall_ms: int = 10_000  # a large request whose bytes stop coming
    drain_ms: int = 10_000


class KafkaServer:
    def __init__(
        self,
        listener: Listener,
        limits: ServerLimits,
        budget: Budget | None = None,
        guests: Guests | None = None,
    ) -> None:
        self.listener = listener
        self.limits = limits
        self.budget = budget or Budget(limits.max_buffered_bytes)
        listener.versions = offered(set(HANDLERS) | set(HOT_HANDLERS))
        self._dispatcher = Dispatcher(
            listener,
            HANDLERS,
            HOT_HANDLERS,
            OPEN_BEFORE_LOGIN,
            raw_login,
            limits.max_bytes_before_authentication,
        )
        self._connections: set[Connection] = set()
        self.leaving: set[Connection] = set()
        self._guests = guests or Guests()
        self._soon: list[Callable[[], None]] = []  # to be run after this turn of the loop
        self._stopping = False
        self.tls: ssl.SSLContext | None = None  # replaced when certificates change; counts from then on
        self._server: asyncio.Server | None = None
        self._watch: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        gauge = listener.broker.meters.gauge("mainstem_kafka_connections", "Open connections", "listener")
        gauge.at(listener.name).read = lambda: len(self._connections)
        out = listener.broker.meters.counter(
            "mainstem_messages_out_bytes", "Bytes of messages handed to consumers", "listener"
        )
        out.at(listener.name).read = lambda: listener.answers.messages_bytes

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> tuple[str, int]:
        """Listen; the address, with the port that was free if 0 was asked for."""
        self.tls = tls
        self._server = await self._loop.create_server(
            self._new_protocol,
            host,
            port,
            backlog=1024,
        )
        self._watch = self._loop.create_task(self._watch_over())
        bound = self._server.sockets[0].getsockname()
        return str(bound[0]), int(bound[1])

    def _new_protocol(self) -> asyncio.BaseProtocol:
        connection = ConnectionProtocol(self, self._dispatcher)
        if self.tls is None:
            return connection
        return TlsGate(self._guests, connection, self.tls, self.limits.handshake_ms)

    def now(self) -> float:
        return self._loop.time()

    def soon(self, call: Callable[[], None]) -> None:
        """All of a turn's calls share one handle of the loop, which costs more than most of them."""
        if not self._soon:
            self._loop.call_soon(self._run_soon)
        self._soon.append(call)

    def _run_soon(self) -> None:
        calls, self._soon = self._soon, []
        for call in calls:
            try:
                call()
            except Exception as error:  # a bug: one connection must not keep others from theirs
                events.error("a connection failed", error=error)

    async def stop(self) -> None:
        """Accept nobody, let requests under way finish for a while, then close everyone."""
        self._stopping = True
        if self._server is not None:
            self._server.close()
        if self._watch is not None:
            self._watch.cancel()
        for connection in self._connections:
            connection.drain()
        until = self.now() + self.limits.drain_ms / 1000
        while self.now() < until and any(c.is_answering for c in (*self._connections, *self.leaving)):
            await asyncio.sleep(0.01)
        for connection in list(self._connections):
            connection.close()

    # --- connections -----------------------------------------------------------------------------

    def opened(self, connection: Connection) -> str | None:
        """Count it in; the reason if it may not stay."""
        self._connections.add(connection)
        refused = self._guests.came(connection.session.host)
        connection.opened_at = connection.last_active = connection.lively_at = self.now()
        if self._stopping:  # it was in its TLS handshake
            return "the broker is stopping"
        return refused

    def lost(self, connection: Connection) -> None:
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self._guests.left(connection.session.host)
        session = connection.session
        if session.share_members and not self._stopping:
            for group, member in session.share_members:
                self.listener.broker.shares.abandoned(group, member, session)

    def _patience_ms(self) -> int:
        """How long a client may leave its answers unread: not long once those fill the memory for them."""
        return self.limits.stall_ms if self.listener.answers.is_full else self.limits.idle_ms

    async def _watch_over(self) -> None:
        while True:
            await asyncio.sleep(1)
            try:
                self.look_over(self.now())
            except Exception as error:  # a bug: all others are to be looked after in the next second, too
                events.error("connections could not be looked after", error=error)

    def look_over(self, now: float) -> None:
        """Once a second: close who is silent for too long, take memory back from who sends little."""
        limits = self.limits
        for connection in list(self._connections):
            connection.look(now)
            silent_ms = (now - connection.last_active) * 1000
            # While others wait for the memory that it holds, a byte now and then is as good as none.
            moved_at = connection.lively_at if self.budget.is_short else connection.last_active
            open_ms = (now - connection.opened_at) * 1000
            if not connection.session.authenticated and open_ms > limits.handshake_ms:
                # However busy it was: a byte now and then keeps nobody connected.
                connection.fail("no authentication in time")
            elif connection.holds_memory and (now - moved_at) * 1000 > limits.stall_ms:
                connection.fail(f"a request stalled for {limits.stall_ms} ms")
            elif connection.stalled_s() * 1000 > self._patience_ms():
                connection.fail("does not read its answers")
            elif not connection.is_answering and silent_ms > limits.idle_ms:
                connection.end_idle()
        if self.budget.is_short:
            self._make_room(now)

    def _make_room(self, now: float) -> None:
        """Requests that have waited for long for something else give way to who waits for memory: as few as
        it takes, first those that are answered by that, and the oldest."""
        parked: list[tuple[bool, float, int, Connection]] = []
        for connection in self._connections:
            found = connection.parked()
            if found is not None and (now - found[1]) * 1000 > self.limits.stall_ms:
                parked.append((*found, connection))
        wanted = self.budget.lacking
        for _, _, size, connection in sorted(parked, key=lambda one: one[:2]):
            if wanted <= 0:
                return
            connection.hurry()
            wanted -= size
