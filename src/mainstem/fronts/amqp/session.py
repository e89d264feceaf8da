"""What a connection is: who speaks, from where, to which namespace, and what was agreed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mainstem.broker.access import ANONYMOUS, Access
from mainstem.broker.access.names import DEFAULT, rule_name
from mainstem.broker.access.sasl import Authenticator
from mainstem.broker.broker import Broker
from mainstem.broker.partition import Topic
from mainstem.broker.queues import Namespace, Queues
from mainstem.broker.queues.topology import Topology
from mainstem.fronts.amqp.codes import Resource, as_amqp
from mainstem.fronts.amqp.replies import Replies, replies_of
from mainstem.model.errors import NotAuthorized
from mainstem.wire.amqp.errors import AmqpError

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
    _allowed: set[tuple[str, str]] = field(default_factory=set)  # by the rules of this version:
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

    def may_open(self, namespace: Namespace) -> bool:
        """Whether there is anything to do in it for whom this is."""
        access, rules = self.listener.access, OPERATIONS.values()
        return any(access.allows_in(self.principal, self.host, one, namespace.name) for one in rules)

    def require(self, permission: str, kind: str, name: str, *, is_new: bool = False) -> None:
        """Raises AmqpError. `is_new`: about to be made, so that no topic of the name is meant."""
        uses = kind == "queue" and permission != "configure" and not is_new
        if not self._has(permission, self._rule_name(name, uses)):
            raise self._refusal(permission, kind, name)

    def require_any(self, kind: str, name: str) -> None:
        """To know that something is there, the right to do anything with it is enough."""
        named = self._rule_name(name, kind == "queue")
        if not any(self._has(permission, named) for permission in OPERATIONS):
            raise self._refusal("configure", kind, name)

    def _has(self, permission: str, named: str) -> bool:
        """What was allowed once is remembered until the rules change."""
        access = self.listener.access
        if access.version != self._version:
            self._version = access.version
            self._allowed.clear()
        if (permission, named) in self._allowed:
            return True
        if not access.allows(self.principal, self.host, OPERATIONS[permission], "topic", named):
            return False
        if len(self._allowed) < 10_000:
            self._allowed.add((permission, named))
        return True

    def _refusal(self, permission: str, kind: str, name: str) -> AmqpError:
        error = NotAuthorized(self.principal, permission, kind, name)
        return as_amqp(error, self.resource(kind, name or DEFAULT_EXCHANGE))

    def _rule_name(self, name: str, uses: bool) -> str:
        """A topic that is used by the name of a queue has the same rules in every protocol."""
        if uses and self.finds_topic(name) is not None:
            return self.topic_name(name)
        return rule_name(self.namespace.name, name or DEFAULT_EXCHANGE)

    def finds_topic(self, name: str) -> Topic | None:
        """Of Kafka's clients, where no queue has the name."""
        if name in self.namespace.queues:
            return None
        topic = self.broker.topics.by_name.get(self.topic_name(name))
        return None if topic is None or topic.internal else topic

    def topic_name(self, name: str) -> str:
        """What a topic is called that this namespace knows by the name."""
        return name if self.namespace.name == DEFAULT else f"{self.namespace.name}.{name}"
