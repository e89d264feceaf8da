"""What the bench itself says in AMQP: is anyone there? The load programs say the rest."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable

HELLO = b"AMQP\x00\x00\x09\x01"
START = b"\x00\x0a\x00\x0a"  # connection.start, behind the seven bytes of a frame's head


def is_answering(port: int, timeout_s: float = 5) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout_s) as connection:
        connection.sendall(HELLO)
        answer = b""
        while len(answer) < 11:
            if not (more := connection.recv(11 - len(answer))):
                return False
            answer += more
    return answer[7:] == START


def wait_until_ready(port: int, is_alive: Iterable[bool], timeout_s: float) -> None:
    """Returns as soon as a broker on this port begins a conversation."""
    deadline = time.monotonic() + timeout_s
    for alive in is_alive:
        if not alive:
            raise ConnectionError("the broker ended before it was ready")
        if time.monotonic() > deadline:
            raise TimeoutError(f"no broker on port {port} after {timeout_s:.0f} s")
        try:
            if is_answering(port):
                return
        except OSError:
            pass
        time.sleep(0.005)
