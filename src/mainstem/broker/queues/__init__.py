"""Queues over the log: exchanges, bindings, acknowledgements, dead letters. See queues.py for the door."""

from mainstem.broker.queues.gathering import Gathered
from mainstem.broker.queues.namespace import Namespace, is_delayed, is_given
from mainstem.broker.queues.opened import OpenBatch
from mainstem.broker.queues.queue import Found, Queue, Taker
from mainstem.broker.queues.queues import Queues
from mainstem.broker.queues.route import Route
from mainstem.broker.queues.spec import DEFAULT_NAMESPACE, ExchangeSpec, QueueOptions, QueueSpec, Target
from mainstem.broker.queues.work import Work

__all__ = [
    "DEFAULT_NAMESPACE",
    "ExchangeSpec",
    "Found",
    "Gathered",
    "Namespace",
    "OpenBatch",
    "Queue",
    "QueueOptions",
    "QueueSpec",
    "Queues",
    "Route",
    "Taker",
    "Target",
    "Work",
    "is_delayed",
    "is_given",
]
