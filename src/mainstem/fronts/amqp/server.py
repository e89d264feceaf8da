"""The AMQP listener: accepts connections, watches over them, closes them in the end."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mainstem.fronts.amqp.codes import CONNECTION_FORCED
from mainstem.fronts.amqp.connection import Budget, Connection
from mainstem.fronts.amqp.session import Listener
from mainstem.model.logs import get_log
from mainstem.net.guests import Guests
from mainstem.net.tls_gate import TlsGate
from mainstem.wire.amqp.convert import AMQP
from mainstem.wire.amqp.errors import AmqpError
from mainstem.wire.amqp.properties import labels, priority

events = get_log(__name__)

WATCH_S = 0.5
# What a client gets to say goodbye after it was told to.
GOODBYE_S = 5.0


@dataclass(frozen=True, slots=True)
class ServerLimits:
    max_bytes_before_authentication: int = 64 << 10
    idle_ms: int = 600_000  # without heartbeats and without a channel
    handshake_ms: int = 10_000
    stall_ms: int = 10_000  # a large message whose bytes stop coming, or a full memory of bytes not taken
    drain_ms: int = 10_000


class AmqpServer:
    def __init__(
        self, listener: Listener, limits: ServerLimits, budget: Budget, guests: Guests | None = None
    ) -> None:
        self.listener = listener
        self.limits = limits
        self.budget = budget
        self.max_bytes_before_authentication = limits.max_bytes_before_authentication
        self._connections: set[Connection] = set()
        self._guests = guests or Guests()
        self._stopping = False
        self.tls: ssl.SSLContext | None = None  # replaced when certificates change; counts from then on
        self._server: asyncio.Server | None = None
        self._watch: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        queues = listener.broker.queues
        queues.on_blocked.append(self._alarm)
        queues.header_readers[AMQP] = labels
        queues.priority_readers[AMQP] = priority
        gauge = listener.broker.meters.gauge("mainstem_amqp_connections", "Open connections", "listener")
        gauge.at(listener.name).read = lambda: len(self._connections)

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> tuple[str, int]:
        """Listen; the address, with the port that was free if 0 was asked for."""
        self.tls = tls
        self._server = await self._loop.create_server(self._new_protocol, host, port, backlog=1024)
        self._watch = self._loop.create_task(self._watch_over())
        bound = self._server.sockets[0].getsockname()
        return str(bound[0]), int(bound[1])

    def _new_protocol(self) -> asyncio.BaseProtocol:
        connection = Connection(self)
        if self.tls is None:
            return connection
        return TlsGate(self._guests, connection, self.tls, self.limits.handshake_ms)

    def now(self) -> float:
        return self._loop.time()

    def soon(self, call: Callable[[], None]) -> object:
        return self._loop.call_soon(call)

    def spawn(self, work: Awaitable[None]) -> None:
        task = self._loop.create_task(_run(work))
        # The loop keeps only weak references to tasks.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Accept nobody, let what is under way finish for a while, then close everyone."""
        self._stopping = True
        with contextlib.suppress(ValueError):  # it was stopped before
            self.listener.broker.queues.on_blocked.remove(self._alarm)
        if self._server is not None:
            self._server.close()
        if self._watch is not None:
            self._watch.cancel()
        for connection in self._connections:
            connection.drain()
        until = self.now() + self.limits.drain_ms / 1000
        while self.now() < until and any(c.is_answering for c in self._connections):
            await asyncio.sleep(0.01)
        reason = AmqpError(CONNECTION_FORCED, "broker forced connection closure with reason 'shutdown'")
        for connection in list(self._connections):
            connection.close_with(reason)
        until = min(until, self.now() + 1)
        while self.now() < until and self._connections:
            await asyncio.sleep(0.01)
        for connection in list(self._connections):
            connection.cut_off()
        await asyncio.sleep(0)  # their ends
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self.limits.drain_ms / 1000)

    def _alarm(self, why: str | None) -> None:
        if why is None:
            for connection in list(self._connections):
                connection.alarm_over()

    # --- connections -----------------------------------------------------------------------------

    def opened(self, connection: Connection) -> str | None:
        """Count it in; the reason if it may not stay."""
        self._connections.add(connection)
        refused = self._guests.came(connection.session.host)
        connection.opened_at = connection.last_received = connection.outbox.last_sent = self.now()
        if self._stopping:  # it was in its TLS handshake
            return "the broker is stopping"
        return refused

    def lost(self, connection: Connection) -> None:
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self._guests.left(connection.session.host)

    async def _watch_over(self) -> None:
        """Twice a second: signs of life both ways, and an end for who gives none."""
        while True:
            await asyncio.sleep(WATCH_S)
            now = self.now()
            for connection in list(self._connections):
                self._look_at(connection, now)

    def _look_at(self, connection: Connection, now: float) -> None:
        limits = self.limits
        open_s, silent_s = now - connection.opened_at, now - connection.last_received
        heartbeat_s = connection.session.heartbeat_s
        if connection.is_closed or connection.state == "closing":
            if open_s > GOODBYE_S:
                connection.cut_off()
        elif connection.state != "running":
            if open_s * 1000 > limits.handshake_ms:
                # However busy it was: a byte now and then keeps nobody connected.
                connection.abort("no login in time")
        elif connection.holds_memory and connection.is_read_from and silent_s * 1000 > limits.stall_ms:
            connection.abort(f"a message stalled for {limits.stall_ms} ms")
        elif self.listener.unsent.is_full and connection.outbox.stalled_s() * 1000 > limits.stall_ms:
            connection.abort("does not read what it asked for")
            connection.cut_off()
        elif not heartbeat_s and not connection.channels and silent_s * 1000 > limits.idle_ms:
            connection.abort("idle for too long")
        elif heartbeat_s and connection.is_read_from and silent_s > 2 * heartbeat_s + WATCH_S:
            connection.abort(f"missed heartbeats from client, timeout: {heartbeat_s}s")
        else:
            if heartbeat_s and now - connection.outbox.last_sent >= heartbeat_s / 2:
                connection.beat()
            if connection.is_idle and silent_s > 1:
                connection.rest()


async def _run(work: Awaitable[None]) -> None:
    try:
        await work
    except Exception as error:  # a bug: it is told, the broker goes on
        events.error("work for a connection failed", error=error)
