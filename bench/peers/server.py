"""A broker process on loopback: started, waited for, stopped or killed."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench import wire

STOP_S = 60
PORTS = (20_000, 32_000)
Wait = Callable[[int, Iterable[bool], float], None]  # (port, is it alive, seconds) until it answers


@dataclass
class Server:
    name: str
    process: subprocess.Popen[bytes]
    data: Path
    port: int  # plain Kafka protocol, or the only one it speaks
    http_port: int | None
    ready_s: float  # from starting the process to its first answer
    tls_port: int | None = None
    tls_ca: Path | None = None
    amqp_port: int | None = None
    version: str = ""  # of a peer, for the tables

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self) -> None:
        """Asks it to end, and insists after a while."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """kill -9 of the process and whatever it started (it leads its own process group)."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(STOP_S)

    def client_options(self) -> list[str]:
        """What librdkafka needs to talk to the TLS listener, as -X options."""
        return ["-X", "security.protocol=ssl", "-X", f"ssl.ca.location={self.tls_ca}"]


def free_port() -> int:
    """Below those that the kernel gives to connections: one of them could take it before the broker does."""
    while True:
        port = random.randrange(*PORTS)
        with socket.socket() as s, suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


def spawn(command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, **(env or {})},
            start_new_session=True,  # Ctrl-C reaches the bench alone, which then stops its brokers in order
        )


def wait_ready(
    process: subprocess.Popen[bytes],
    port: int,
    log: Path,
    timeout_s: float,
    wait: Wait = wire.wait_until_ready,
) -> float:
    """Seconds until the broker on this port answered; ends the process if it never does."""
    started = time.monotonic()

    def alive() -> Iterator[bool]:
        while True:
            yield process.poll() is None

    try:
        wait(port, alive(), timeout_s)
    except (ConnectionError, TimeoutError) as e:
        process.kill()
        process.wait()
        tail = log.read_text(errors="replace").strip().splitlines()[-8:]
        raise RuntimeError("\n".join([f"{e}; the end of its log:", *tail])) from e
    except BaseException:
        process.kill()
        process.wait()
        raise
    return time.monotonic() - started


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key (PKCS 8, which Java insists on)."""
    cert, key = folder / "tls-cert.pem", folder / "tls-key.pem"
    if not cert.exists():
        command = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=127.0.0.1",
        ]
        command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
        subprocess.run(command, check=True, capture_output=True)
    return cert, key
