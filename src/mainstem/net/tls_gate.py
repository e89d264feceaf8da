"""The TLS handshake of a connection: a client that fails it is named in the log.

The event loop's own TLS server says nothing about a failed handshake, so the gate is built from the same
part by hand.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol

from mainstem.model.logs import get_log
from mainstem.net.guests import Guests

events = get_log(__name__)


# What a client gets to say goodbye; one that does not is cut off.
GOODBYE_S = 5


class TlsGate(SSLProtocol):
    """Stands before a connection, which begins when the handshake is done."""

    def __init__(
        self, guests: Guests, connection: asyncio.BaseProtocol, tls: ssl.SSLContext, handshake_ms: int
    ) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        done.add_done_callback(self._on_handshake_done)
        self._guests = guests
        self._peer = "unknown"
        guests.knocked(1)
        super().__init__(
            loop,
            connection,
            tls,
            done,
            server_side=True,
            ssl_handshake_timeout=handshake_ms / 1000,  # type: ignore[arg-type]  # any number of seconds
            ssl_shutdown_timeout=GOODBYE_S,
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peername = transport.get_extra_info("peername") or ("local", 0)
        self._peer = f"{peername[0]}:{peername[1]}"
        super().connection_made(transport)
        refused = self._guests.may_knock(str(peername[0]))
        if refused is not None:
            events.warning("connection closed", peer=self._peer, why=refused)
            assert isinstance(transport, asyncio.Transport)
            transport.abort()

    def _on_handshake_done(self, done: asyncio.Future[None]) -> None:
        self._guests.knocked(-1)
        error = None if done.cancelled() else done.exception()
        if error is not None:
            why = getattr(error, "reason", None) or str(error) or type(error).__name__
            events.warning("no TLS handshake", peer=self._peer, why=why)
