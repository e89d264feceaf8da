"""What a connection is: who speaks, from where, to which namespace, and what was agreed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mainstem.broker.access import ANONYMOUS, Access
from mainstem.broker.access.sasl import Authenticator
from mainstem.broker.broker import Broker
from mainstem.broker.queues import Namespace, Queues
from mainstem.broker.queues.topology import Topology
from mainstem.fronts.amqp.codes import Resource, as_amqp
from mainstem.fronts.amqp.replies import Replies, replies_of
from mainstem.model.errors import NotAuthorized

# What the server offers in connection.tune.
CHANNEL_MAX = 2047
FRAME_MAX = 131_072
HEARTBEAT_S = 60
# Permissions as RabbitMQ names them, and what they are called in the broker's rules.
OPERATIONS = {"configure": "create", "write": "write", "read": "read"}
# By this name the exchange without one is known to rules.
DEFAULT_EXCHANGE = "amq.default"


class Unsent:
    """Bytes made for clients and not taken by them yet, over all connections of a listener."""

    def __init__(self, max_bytes: int = 128 << 20) -> None:
        self.max_bytes = max_bytes
        self.held = 0

    @property
    def is_full(self) -> bool:
        return self.held >= self.max_bytes


@dataclass(slots=True)
class Listener:
    """A listener as its clients see it."""

    name: str
    broker: Broker
    access: Access
    needs_authentication: bool = False
    authenticator: Authenticator | None = None  # None: only guest can log in, where that is allowed
    max_message_bytes: int = 16 << 20
    channel_max: int = CHANNEL_MAX
    frame_max: int = FRAME_MAX
    heartbeat_s: int = HEARTBEAT_S
    unsent: Unsent = field(default_factory=Unsent)
    replies: Replies = field(init=False)

    def __post_init__(self) -> None:
        self.replies = replies_of(self.broker)


@dataclass(slots=True)
class Session:
    listener: Listener
    host: str  # the peer's address
    certificate: bytes | None = None
    principal: str = ANONYMOUS
    namespace: Namespace = None  # type: ignore[assignment]  # from connection.open on
    channel_max: int = CHANNEL_MAX
    frame_max: int = FRAME_MAX
    heartbeat_s: int = 0
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    _allowed: set[tuple[str, str, str]] = field(default_factory=set)  # by the rules of this version:
    _version: int = -1

    @property
    def broker(self) -> Broker:
        return self.listener.broker

    @property
    def queues(self) -> Queues:
        return self.listener.broker.queues

    @property
    def topology(self) -> Topology:
        return self.listener.broker.queues.topology

    @property
    def user(self) -> str:
        return self.principal.partition(":")[2]

    def can(self, capability: str) -> bool:
        """Whether the client said that it understands something."""
        return self.capabilities.get(capability) is True

    def resource(self, kind: str, name: str) -> Resource:
        return Resource(kind, name, self.namespace.name)

    def require(self, permission: str, kind: str, name: str) -> None:
        """Raises AmqpError. What was allowed once is remembered until the rules change."""
        access = self.listener.access
        if access.version != self._version:
            self._version = access.version
            self._allowed.clear()
        key = (permission, kind, name)
        if key in self._allowed:
            return
        named = self.topic_name(name or DEFAULT_EXCHANGE)
        if not access.allows(self.principal, self.host, OPERATIONS[permission], "topic", named):
            error = NotAuthorized(self.principal, permission, kind, name)
            raise as_amqp(error, self.resource(kind, name or DEFAULT_EXCHANGE))
        if len(self._allowed) < 10_000:
            self._allowed.add(key)

    def topic_name(self, name: str) -> str:
        """What a queue or an exchange is called where there are no namespaces, and in rules."""
        return name if self.namespace.name == "/" else f"{self.namespace.name}.{name}"
