"""How to reach a broker: plain frozen values, so that they travel to other processes and machines."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mainstem.model.errors import InvalidRequest

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_PORT = 9092
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:\s]+))(?::(\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS to the broker. Without `ca_file` the system's certificates are trusted."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True  # False: anybody may be at the other end; for tests only


@dataclass(frozen=True, slots=True)
class Sasl:
    user: str
    password: str
    mechanism: str = "SCRAM-SHA-512"

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise InvalidRequest(f"there is no mechanism {self.mechanism!r}; use {', '.join(MECHANISMS)}")

    def __repr__(self) -> str:
        return f"Sasl(user={self.user!r}, password=..., mechanism={self.mechanism!r})"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """`bootstrap` are addresses of which one must answer; it tells where the others are."""

    bootstrap: tuple[Address, ...]
    client_id: str = "mainstem"
    tls: Tls | None = None
    sasl: Sasl | None = None
    connect_timeout_s: float = 5.0
    request_timeout_s: float = 30.0
    attempts: int = 3  # how often a broken connection is made again before giving up
    backoff_s: float = 0.1  # before the second attempt; doubles with each
    max_response_bytes: int = 256 << 20


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """`host:port[,host:port]`; without a port, Kafka's usual one."""
    addresses = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = _ADDRESS.fullmatch(part)
        port = int(found[3] or DEFAULT_PORT) if found else 0
        if found is None or not 0 < port < 65536:
            raise InvalidRequest(f"{part!r} is not HOST:PORT")
        addresses.append(Address(found[1] or found[2], port))
    if not addresses:
        raise InvalidRequest("no address of a broker: give HOST:PORT")
    return tuple(addresses)
