"""What a connection is: who speaks, from where, through which listener."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mainstem.broker.access import ANONYMOUS, Access
from mainstem.broker.access.sasl import Authenticator, Exchange
from mainstem.broker.broker import Broker
from mainstem.fronts.kafka.budget import AnswerRoom
from mainstem.fronts.kafka.complaints import Complaints
from mainstem.model.errors import NotAuthorized
from mainstem.wire.kafka.apis import ApiKey

if TYPE_CHECKING:
    from mainstem.fronts.kafka.repeated import Repeats


@dataclass(slots=True)
class Listener:
    """A listener as its clients see it. `advertised` None: they are told the address they dialled."""

    name: str
    broker: Broker
    access: Access
    advertised: tuple[str, int] | None = None
    needs_authentication: bool = False
    authenticator: Authenticator | None = None  # None: there is no logging in here
    max_request_bytes: int = 100 << 20
    max_response_bytes: int = 2 << 20
    versions: dict[ApiKey, tuple[int, int]] = field(default_factory=dict)  # offered, by API
    answers: AnswerRoom = field(default_factory=AnswerRoom)
    complaints: Complaints = field(default_factory=Complaints)


@dataclass(slots=True)
class Session:
    listener: Listener
    host: str  # the peer's address
    dialled: tuple[str, int]  # the address that the peer connected to
    principal: str = ANONYMOUS
    authenticated: bool = False
    software: str = ""  # name and version that the client gave of itself
    exchange: Exchange | None = None  # a login under way
    takes_raw_tokens: bool = False  # the next frame is a SASL token without a header
    logged_in: bool = False  # by SASL; a certificate may be replaced by a login, a login only renewed
    repeats: Repeats | None = None  # of Produce requests
    served_first: tuple[str | bytes, int] | None = None  # in the last fetch: topic, partition
    share_members: set[tuple[str, str]] | None = None  # group and member that read in share groups here
    peer: str = ""  # as the log names it: address and port
    complained_ms: int | None = None  # when the log last had a line about it, see complaints.py
    has_left: bool = False  # what it sent and wants no answer to is still taken
    ending: str = ""  # why the connection is to be closed once the answers so far are sent

    @property
    def broker(self) -> Broker:
        return self.listener.broker

    @property
    def told_address(self) -> tuple[str, int]:
        return self.listener.advertised or self.dialled

    def allows(self, operation: str, kind: str, name: str) -> bool:
        return self.listener.access.allows(self.principal, self.host, operation, kind, name)

    def allows_any(self, operation: str, kind: str) -> bool:
        """Whether it is allowed for some resource of the kind."""
        return self.listener.access.allows_any(self.principal, self.host, operation, kind)

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
