"""All calls of the door for queues."""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.fronts.admin.door import Call
from mainstem.fronts.admin.importing import DefinitionCalls
from mainstem.fronts.admin.looking import LookCalls
from mainstem.fronts.admin.publishing import PublishCalls
from mainstem.fronts.admin.redrive import RedriveCalls
from mainstem.fronts.admin.topology import MakeSpec, TopologyCalls


def queue_calls(broker: Broker, make_spec: MakeSpec, max_message_bytes: int) -> list[Call]:
    """`make_spec` knows what the arguments of queues mean to the protocol that has them."""
    topology = TopologyCalls(broker.queues, make_spec)
    return [
        *topology.calls(),
        *LookCalls(broker).calls(),
        *PublishCalls(broker, max_message_bytes).calls(),
        *RedriveCalls(broker, max_message_bytes).calls(),
        *DefinitionCalls(broker, topology, make_spec).calls(),
    ]
