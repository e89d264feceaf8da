"""A running broker: its log, its listeners and their end, put together from settings."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from mainstem.broker.access import OpenAccess
from mainstem.broker.broker import Broker
from mainstem.broker.chores import Chores
from mainstem.broker.options import BrokerOptions
from mainstem.config import Config, Endpoint, check_exposure
from mainstem.fronts.kafka.budget import Budget
from mainstem.fronts.kafka.server import KafkaServer, ServerLimits
from mainstem.fronts.kafka.session import Listener
from mainstem.kernel.log.log import LogOptions
from mainstem.model.errors import InvalidConfig
from mainstem.model.logs import get_log
from mainstem.observe.health import health_routes
from mainstem.observe.http import Access as HttpAccess
from mainstem.observe.http import HttpServer, serve_http
from mainstem.observe.ports import port_holder

events = get_log(__name__)


class App:
    """Started and stopped within one event loop."""

    broker: Broker
    chores: Chores

    def __init__(self, config: Config) -> None:
        self.config = config
        self.listening: dict[str, Endpoint] = {}
        self._kafka: list[KafkaServer] = []
        self._http: list[HttpServer] = []
        self._ready = False

    async def start(self) -> None:
        check_exposure(self.config)
        self.broker = await Broker.open(broker_options(self.config))
        self.chores = Chores(self.broker)
        self.chores.start()
        try:
            budget = Budget(self.config.server.max_buffered_bytes)
            for name, endpoint in self.config.listeners().items():
                protocol, _, _ = name.partition("+")
                start = {"kafka": self._start_kafka, "http": self._start_http}.get(protocol)
                if start is None:
                    raise InvalidConfig(
                        f"server.listen: there is no protocol {protocol!r}; use kafka or http"
                    )
                self.listening[name] = await _bound(name, endpoint, lambda: start(name, endpoint, budget))  # noqa: B023
        except BaseException:
            await self.stop()
            raise
        self._ready = True
        self._write_ready_file()

    async def stop(self) -> None:
        """Drain, close, and leave everything on disk."""
        self._ready = False
        self.broker.drain()
        for kafka in self._kafka:
            await kafka.stop()
        for http in self._http:
            await http.close()
        await self.chores.stop()
        await self.broker.close()
        if self.config.server.ready_file is not None:
            self.config.server.ready_file.unlink(missing_ok=True)

    # --- listeners -------------------------------------------------------------------------------

    async def _start_kafka(self, name: str, endpoint: Endpoint, budget: Budget) -> Endpoint:
        server = self.config.server
        advertised = server.advertise.get(name) or server.advertise.get("kafka")
        listener = Listener(
            name,
            self.broker,
            OpenAccess(),
            advertised=(advertised.host, advertised.port) if advertised else None,
            max_request_bytes=server.max_request_bytes,
            max_response_bytes=server.max_response_bytes,
        )
        kafka = KafkaServer(listener, _limits(self.config), budget)
        host, port = await kafka.start(endpoint.host, endpoint.port)
        self._kafka.append(kafka)
        return Endpoint(host, port)

    async def _start_http(self, name: str, endpoint: Endpoint, budget: Budget) -> Endpoint:
        routes = health_routes(self.broker.meters, lambda: None if self._ready else "starting or stopping")
        http = await serve_http(endpoint.host, endpoint.port, routes, access=HttpAccess())
        self._http.append(http)
        return Endpoint(endpoint.host, http.port)

    def _write_ready_file(self) -> None:
        path = self.config.server.ready_file
        if path is None:
            return
        facts = {
            "pid": os.getpid(),
            "data": str(self.config.server.data.resolve()),
            "listen": {name: str(where) for name, where in self.listening.items()},
        }
        beside = path.with_name(path.name + ".new")
        beside.write_text(json.dumps(facts) + "\n")
        beside.replace(path)


async def _bound(name: str, endpoint: Endpoint, start: Callable[[], Awaitable[Endpoint]]) -> Endpoint:
    try:
        return await start()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            holder = port_holder(endpoint.port) or "another process"
            raise InvalidConfig(
                f"port {endpoint.port} for {name} is taken by {holder}; "
                f"choose another with --listen {name}={endpoint.host}:PORT"
            ) from None
        raise InvalidConfig(f"cannot listen on {name}={endpoint}: {error.strerror or error}") from None


def _limits(config: Config) -> ServerLimits:
    server = config.server
    return ServerLimits(
        max_connections=server.max_connections,
        max_connections_per_peer=server.max_connections_per_peer,
        max_buffered_bytes=server.max_buffered_bytes,
        max_bytes_before_authentication=server.max_preauth_request_bytes,
        idle_ms=server.idle_timeout_ms,
        handshake_ms=server.handshake_timeout_ms,
        drain_ms=server.drain_timeout_ms,
    )


def broker_options(config: Config) -> BrokerOptions:
    topics, journal = config.topics, config.journal
    return BrokerOptions(
        folder=str(config.server.data),
        node_id=config.server.node_id,
        cluster_id=config.server.cluster_id,
        log=LogOptions(journal.file_bytes, journal.file_frames, journal.reserve_bytes),
        topic_defaults={
            **topics.configs(),
            "min.cleanable.dirty.ratio": str(config.merge.min_dirty_ratio_percent / 100),
        },
        auto_create=topics.auto_create,
        default_partitions=topics.default_partitions,
        max_partitions=topics.max_partitions,
        producer_expiry_ms=config.transactions.producer_id_expiration_ms,
        max_transaction_timeout_ms=config.transactions.max_timeout_ms,
        transactional_id_expiry_ms=config.transactions.id_expiration_ms,
        group_initial_delay_ms=config.groups.initial_rebalance_delay_ms,
        group_min_session_ms=config.groups.min_session_timeout_ms,
        group_max_session_ms=config.groups.max_session_timeout_ms,
        group_max_size=config.groups.max_size,
        group_consumer_session_ms=config.groups.consumer_session_timeout_ms,
        group_consumer_heartbeat_ms=config.groups.consumer_heartbeat_interval_ms,
        offsets_retention_ms=config.groups.offsets_retention_ms,
        offset_metadata_max_bytes=config.groups.max_offset_metadata_bytes,
        retention_check_ms=config.merge.retention_check_interval_ms,
        reader_threads=journal.reader_threads,
        snapshot_bytes=config.snapshot.journal_bytes,
        snapshot_interval_ms=config.snapshot.interval_ms,
        snapshot_slice_ms=config.snapshot.slice_ms,
    )


async def serve(config: Config, started: Callable[[App], None]) -> None:
    """Run until SIGTERM or SIGINT; `started` is called once everything listens."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # Beside a busy loop the writer thread waits this long for its turn after every system call.
    sys.setswitchinterval(config.journal.switch_interval_us / 1e6)
    app = App(config)
    await app.start()
    # What start-up made stays: the collector need not look at it again. What requests make dies young and
    # holds no cycles, so it is looked at seldom.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    try:
        started(app)
        await stop.wait()
        events.event("stopping", data=str(Path(config.server.data)))
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await app.stop()
