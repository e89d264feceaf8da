"""A running broker: its log, its listeners and their end, put together from settings."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import json
import os
import signal
import ssl
import sys
from collections.abc import Callable
from pathlib import Path

from mainstem import __version__
from mainstem.broker.access import Access, AclAccess, OpenAccess
from mainstem.broker.access.sasl import Authenticator
from mainstem.broker.admin import refuses_writes
from mainstem.broker.broker import Broker
from mainstem.broker.broker_meters import add_broker_meters
from mainstem.broker.chores import Chores
from mainstem.broker.options import BrokerOptions
from mainstem.config import (
    Config,
    Endpoint,
    cannot_listen,
    check_before_start,
    denies_by_default,
    has_tls,
    is_loopback,
    mechanisms_offered,
    others_can_read,
    read_token,
    read_users,
    server_context,
)
from mainstem.fronts.admin.calls import queue_calls
from mainstem.fronts.amqp.arguments import queue_spec
from mainstem.fronts.amqp.server import AmqpServer
from mainstem.fronts.amqp.server import ServerLimits as AmqpLimits
from mainstem.fronts.amqp.session import Listener as AmqpListener
from mainstem.fronts.kafka.budget import Budget
from mainstem.fronts.kafka.server import KafkaServer, ServerLimits
from mainstem.fronts.kafka.session import Listener
from mainstem.kernel.log.backup import Backup
from mainstem.kernel.log.disk import OsDisk
from mainstem.kernel.log.log import LogOptions
from mainstem.model.errors import InvalidConfig, StorageError
from mainstem.model.logs import get_log
from mainstem.net.guests import Guests
from mainstem.net.open_files import allow_open_files, connections_that_fit
from mainstem.observe.backups import Backups
from mainstem.observe.health import health_routes
from mainstem.observe.http import Access as HttpAccess
from mainstem.observe.http import HttpServer, serve_http
from mainstem.observe.json_calls import call_routes
from mainstem.observe.process import add_process_meters

events = get_log(__name__)

# Why a folder is not made that no waiting or making room will help.
_CANNOT_BE = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG)


class App:
    """Started and stopped within one event loop."""

    broker: Broker
    chores: Chores
    access: Access
    _refresh_meters: Callable[[], None]

    def __init__(self, config: Config, guests: Guests | None = None) -> None:
        """`guests`: how many there may be, if the settings are not all that decides."""
        self.config = config
        self.listening: dict[str, Endpoint] = {}
        self._fronts: list[KafkaServer | AmqpServer] = []
        self._http: list[HttpServer] = []
        self._http_tls: list[ssl.SSLContext] = []
        self._authenticators: list[Authenticator] = []
        self._backups = Backups(
            config.server.data, lambda: Backup(self.broker.store.log, OsDisk()), self._why_no_admin
        )
        server = config.server
        self._guests = guests or Guests(server.max_connections, server.max_connections_per_peer)
        self._ready = False

    async def start(self) -> None:
        check_before_start(self.config)
        try:
            self.broker = await Broker.open(broker_options(self.config))
        except OSError as error:
            where, why = error.filename or self.config.server.data, error.strerror or error
            if error.errno in _CANNOT_BE and not self.config.server.data.is_dir():
                raise InvalidConfig(
                    f"server.data: cannot make {where}: {why}; choose another with --data"
                ) from error
            raise StorageError(f"server.data: cannot open {where}: {why}") from error
        self.chores = Chores(self.broker)
        self.chores.start()
        self._add_meters()
        try:
            await self._set_up_access()
            budget = Budget(self.config.server.max_buffered_bytes)
            for name, endpoint in self.config.listeners().items():
                protocol, _, _ = name.partition("+")
                start = {
                    "kafka": self._start_kafka,
                    "amqp": self._start_amqp,
                    "http": self._start_http,
                }[protocol]
                try:
                    self.listening[name] = await start(name, endpoint, budget)
                except OSError as error:
                    raise cannot_listen(self.config, name, endpoint, error) from None
        except BaseException:
            await self.stop()
            raise
        self._ready = True
        self._write_ready_file()

    async def stop(self) -> None:
        """Drain, close, and leave everything on disk."""
        self._ready = False
        self.broker.drain()
        for front in self._fronts:
            await front.stop()
        for http in self._http:
            await http.close()
        for authenticator in self._authenticators:
            authenticator.close()
        await self._backups.close()
        await self.chores.stop()
        await self.broker.close()
        if self.config.server.ready_file is not None:
            self.config.server.ready_file.unlink(missing_ok=True)

    def _add_meters(self) -> None:
        refreshes = (
            add_process_meters(self.broker.meters, __version__, self.broker.clock.now_ms() / 1000),
            add_broker_meters(self.broker),
        )

        def refresh() -> None:
            for one in refreshes:
                one()

        self._refresh_meters = refresh

    # --- listeners -------------------------------------------------------------------------------

    async def _start_kafka(self, name: str, endpoint: Endpoint, budget: Budget) -> Endpoint:
        server = self.config.server
        advertised = server.advertise.get(name)
        required = self.config.security.authentication == "required"
        authenticator = self._authenticator(name, endpoint)
        listener = Listener(
            name,
            self.broker,
            self.access,
            advertised=(advertised.host, advertised.port) if advertised else None,
            needs_authentication=required,
            authenticator=authenticator,
            max_request_bytes=server.max_request_bytes,
            max_response_bytes=server.max_response_bytes,
        )
        kafka = KafkaServer(listener, _limits(self.config), budget, self._guests)
        tls = self._tls() if has_tls(name) else None
        host, port = await kafka.start(endpoint.host, endpoint.port, tls)
        self._fronts.append(kafka)
        return Endpoint(host, port)

    async def _start_amqp(self, name: str, endpoint: Endpoint, budget: Budget) -> Endpoint:
        listener = AmqpListener(
            name,
            self.broker,
            self.access,
            needs_authentication=self.config.security.authentication == "required",
            authenticator=self._authenticator(name, endpoint),
            max_message_bytes=self.config.queues.max_message_bytes,
        )
        amqp = AmqpServer(listener, _amqp_limits(self.config), budget, self._guests)
        host, port = await amqp.start(endpoint.host, endpoint.port, self._tls() if has_tls(name) else None)
        self._fronts.append(amqp)
        return Endpoint(host, port)

    def _authenticator(self, name: str, endpoint: Endpoint) -> Authenticator | None:
        """None where nobody has to log in, or nobody can by a password."""
        security = self.config.security
        if security.authentication != "required":
            return None
        mechanisms = mechanisms_offered(security.sasl_mechanisms, name, endpoint)
        if not mechanisms:
            return None
        authenticator = Authenticator(self.broker.access, mechanisms, self.broker.security.new_nonce)
        self._authenticators.append(authenticator)
        return authenticator

    async def _start_http(self, name: str, endpoint: Endpoint, budget: Budget) -> Endpoint:
        routes = health_routes(
            self.broker.meters,
            lambda: None if self._ready else "starting or stopping",
            self._refresh_meters,
            # Not 503: consumers and whoever makes room must find the broker all the more.
            lambda: "writes are refused: the disk is full" if refuses_writes(self.broker) else None,
        )
        routes += self._backups.routes()
        calls = queue_calls(self.broker, queue_spec, self.config.queues.max_message_bytes)
        routes += call_routes(calls, self._why_no_admin)
        token_file = self.config.security.http_token_file
        access = HttpAccess(
            token=read_token(token_file) if token_file is not None else None,
            any_host=not is_loopback(endpoint.host),
        )
        tls = self._tls(client_auth="none") if has_tls(name) else None
        http = await serve_http(endpoint.host, endpoint.port, routes, access=access, tls=tls)
        if tls is not None:
            self._http_tls.append(tls)
        self._http.append(http)
        return Endpoint(endpoint.host, http.port)

    # --- security --------------------------------------------------------------------------------

    async def _set_up_access(self) -> None:
        """Users, rules and certificates, before anybody can connect."""
        security = self.config.security
        if security.authentication == "off" and security.acl_default == "auto":
            self.access = OpenAccess()
        else:
            self.access = AclAccess(
                self.broker.access.acls,
                security.superusers,
                allow_by_default=not denies_by_default(self.config),
            )
        if security.users_file is not None:
            made = await self.broker.security.add_first_users(read_users(security.users_file))
            if made:
                events.event("users made", file=str(security.users_file), users=", ".join(made))
        if security.authentication != "off":
            await self.broker.security.prepare_logins()
            if not self.broker.access.names() and security.tls_client_auth == "none":
                events.warning("nobody can log in yet", why="there are no users: set security.users_file")
        for path in (security.users_file, security.tls_key_file, security.http_token_file):
            if path is not None and path.exists() and others_can_read(path):
                events.warning("a secret can be read by others on this machine", file=str(path))
        for name, endpoint in self.config.listeners().items():
            if not has_tls(name) and not is_loopback(endpoint.host):
                events.warning("a listener beyond loopback without TLS", listener=name, where=str(endpoint))

    def _tls(self, client_auth: str | None = None) -> ssl.SSLContext:
        security = self.config.security
        return server_context(
            security.tls_cert_file,
            security.tls_key_file,
            security.tls_ca_file,
            client_auth or security.tls_client_auth,
        )

    def reload_certificates(self) -> None:
        """From the same files, for connections made from now on. What cannot be read changes nothing."""
        try:
            tls = self._tls() if any(map(has_tls, self.listening)) else None
        except InvalidConfig as error:
            events.error("certificates kept as they were", why=str(error))
            return
        if tls is None:
            events.event("nothing to load again", why="SIGHUP is for certificates, and no listener has TLS")
            return
        for front in self._fronts:
            if front.tls is not None:
                front.tls = tls
        security = self.config.security
        for context in self._http_tls:
            context.load_cert_chain(str(security.tls_cert_file), security.tls_key_file)
        events.event("certificates loaded again", file=str(security.tls_cert_file))

    def _why_no_admin(self) -> str | None:
        """Where people must log in to read, nobody sees or changes everything without a token."""
        security = self.config.security
        if security.authentication == "required" and security.http_token_file is None:
            return "this needs security.http_token_file where authentication is required"
        return None if self._ready else "starting or stopping"

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


def _guests(config: Config) -> Guests:
    server = config.server
    most = connections_that_fit(server.max_connections)
    if most < server.max_connections:
        events.warning(
            "fewer connections than server.max_connections are taken",
            max_connections=server.max_connections,
            taken=most,
            why="the system allows too few open files: ulimit -n, or LimitNOFILE of the unit",
        )
    return Guests(most, server.max_connections_per_peer)


def _limits(config: Config) -> ServerLimits:
    server = config.server
    return ServerLimits(
        max_buffered_bytes=server.max_buffered_bytes,
        max_bytes_before_authentication=server.max_preauth_request_bytes,
        idle_ms=server.idle_timeout_ms,
        handshake_ms=server.handshake_timeout_ms,
        drain_ms=server.drain_timeout_ms,
    )


def _amqp_limits(config: Config) -> AmqpLimits:
    server = config.server
    return AmqpLimits(
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
        log=LogOptions(
            journal.file_bytes,
            journal.file_frames,
            journal.reserve_bytes,
            journal.cached_bytes,
            journal.lag_bytes,
        ),
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
        group_subscription_bytes=config.groups.max_subscription_bytes,
        group_total_subscription_bytes=config.groups.max_total_subscription_bytes,
        group_consumer_session_ms=config.groups.consumer_session_timeout_ms,
        group_consumer_heartbeat_ms=config.groups.consumer_heartbeat_interval_ms,
        group_consumer_assignors=config.groups.consumer_assignors,
        group_share_session_ms=config.groups.share_session_timeout_ms,
        group_share_heartbeat_ms=config.groups.share_heartbeat_interval_ms,
        group_share_lock_ms=config.groups.share_record_lock_ms,
        group_share_delivery_limit=config.groups.share_delivery_limit,
        group_share_max_locks=config.groups.share_max_record_locks,
        offsets_retention_ms=config.groups.offsets_retention_ms,
        offset_metadata_max_bytes=config.groups.max_offset_metadata_bytes,
        retention_check_ms=config.merge.retention_check_interval_ms,
        reader_threads=journal.reader_threads,
        snapshot_bytes=config.snapshot.journal_bytes,
        snapshot_interval_ms=config.snapshot.interval_ms,
        # A finished file is merged after two of them, which take no longer than its merge waits anyway.
        snapshot_gap_ms=min(30_000, config.snapshot.interval_ms // 10, max(config.merge.delay_ms // 2, 1000)),
        file_age_ms=journal.file_age_ms,
        snapshot_slice_ms=config.snapshot.slice_ms,
        merge=config.merge.enabled,
        merge_level0_files=config.merge.level0_files,
        merge_after_ms=config.merge.delay_ms,
        merge_bytes_per_second=max(config.merge.max_bytes_per_second, 0),
        merge_dirty_ratio=config.merge.min_dirty_ratio_percent / 100,
    )


def tune_process(config: Config) -> None:
    """For a process that is a broker and nothing else, once it has started."""
    # Beside a busy loop the writer thread waits this long for its turn after every system call.
    sys.setswitchinterval(config.journal.switch_interval_us / 1e6)
    # What start-up made stays: the collector need not look at it again. What requests make dies young and
    # holds no cycles, so it is looked at seldom.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


async def serve(config: Config, started: Callable[[App], None]) -> None:
    """Run until SIGTERM or SIGINT; `started` is called once everything listens."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    allow_open_files()
    app = App(config, _guests(config))
    await app.start()
    # Without a handler it would end the process: a terminal that closes, or a habit of other servers.
    loop.add_signal_handler(signal.SIGHUP, app.reload_certificates)
    tune_process(config)
    try:
        started(app)
        await stop.wait()
        events.event("stopping", data=str(Path(config.server.data)))
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await app.stop()
            events.event("stopped", data=str(Path(config.server.data)))
