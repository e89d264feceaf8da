"""What a connection is: who speaks, from where, through which listener."""

from __future__ import annotations

from dataclasses import dataclass, field

from mainstem.broker.access import ANONYMOUS, Access
from mainstem.broker.broker import Broker
from mainstem.model.errors import NotAuthorized
from mainstem.wire.kafka.apis import ApiKey


@dataclass(slots=True)
class Listener:
    """A listener as its clients see it. `advertised` None: they are told the address they dialled."""

    name: str
    broker: Broker
    access: Access
    advertised: tuple[str, int] | None = None
    needs_authentication: bool = False
    max_request_bytes: int = 100 << 20
    max_response_bytes: int = 55 << 20
    versions: dict[ApiKey, tuple[int, int]] = field(default_factory=dict)  # offered, by API


@dataclass(slots=True)
class Session:
    listener: Listener
    host: str  # the peer's address
    dialled: tuple[str, int]  # the address that the peer connected to
    principal: str = ANONYMOUS
    authenticated: bool = False
    software: str = ""  # name and version that the client gave of itself
    state: dict[str, object] = field(default_factory=dict)  # of an authentication under way

    @property
    def broker(self) -> Broker:
        return self.listener.broker

    @property
    def told_address(self) -> tuple[str, int]:
        return self.listener.advertised or self.dialled

    def allows(self, operation: str, kind: str, name: str) -> bool:
        return self.listener.access.allows(self.principal, self.host, operation, kind, name)

    def require(self, operation: str, kind: str, name: str) -> None:
        if not self.allows(operation, kind, name):
            raise NotAuthorized(self.principal, operation, kind, name)


@dataclass(slots=True)
class Request:
    """One decoded request with what its handler may need to know of where it came from."""

    session: Session
    version: int
    client_id: str

    @property
    def broker(self) -> Broker:
        return self.session.listener.broker
