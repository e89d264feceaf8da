"""A namespace: exchanges, queues and the bindings between them, apart from those of others."""

from __future__ import annotations

from mainstem.broker.queues.policies import Policies
from mainstem.broker.queues.queue import Queue
from mainstem.broker.queues.spec import ExchangeSpec
from mainstem.kernel.routing.router import Router

# There from the start, and for good.
GIVEN_EXCHANGES = (
    ExchangeSpec("amq.direct", "direct"),
    ExchangeSpec("amq.fanout", "fanout"),
    ExchangeSpec("amq.topic", "topic"),
    ExchangeSpec("amq.headers", "headers"),
    ExchangeSpec("amq.match", "headers"),
)
DEFAULT_EXCHANGE = ExchangeSpec("", "direct")


class Namespace:
    __slots__ = ("exchanges", "name", "policies", "queues", "router")

    def __init__(self, name: str) -> None:
        self.name = name
        self.policies = Policies()
        self.queues: dict[str, Queue] = {}
        self.exchanges: dict[str, ExchangeSpec] = {"": DEFAULT_EXCHANGE}
        self.router = Router(self.queues.__contains__)
        for spec in GIVEN_EXCHANGES:
            self.add_exchange(spec)

    def add_exchange(self, spec: ExchangeSpec) -> None:
        self.exchanges[spec.name] = spec
        self.router.add_exchange(spec.name, spec.kind, self.policies.alternate(spec), spec.arguments)

    def remove_exchange(self, name: str) -> None:
        if self.exchanges.pop(name, None) is not None:
            self.router.remove_exchange(name)

    def use_policies(self) -> None:
        """After they changed: all that is here is treated as they say now."""
        for queue in self.queues.values():
            queue.use_options(self.policies.options(queue.spec))
        for spec in self.exchanges.values():
            if spec.name:
                self.router.set_alternate(spec.name, self.policies.alternate(spec))


def is_given(name: str) -> bool:
    """Whether an exchange is the broker's own."""
    return name == "" or any(spec.name == name for spec in GIVEN_EXCHANGES)


def is_delayed(spec: ExchangeSpec) -> bool:
    return spec.kind == "x-delayed-message"
