"""No pacing of what goes to a peer on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import socket


def stop_pacing(transport: asyncio.Transport) -> None:
    """Where the system uses BBR, which spreads what is sent over time so as not to overrun a network.

    Between two programs of one machine there is none, and the timers only cost both of them wake-ups.
    """
    found = transport.get_extra_info("socket")
    option = getattr(socket, "TCP_CONGESTION", None)
    if found is None or option is None:
        return
    with contextlib.suppress(OSError):  # not a TCP socket, or not for us to choose
        if found.getsockopt(socket.IPPROTO_TCP, option, 16).startswith(b"bbr"):
            found.setsockopt(socket.IPPROTO_TCP, option, b"reno")  # the one that every kernel has
