"""The changes of queues' state that are journalled: topology, acknowledgements, delays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mainstem.broker.queues.policies import Policy
from mainstem.broker.queues.spec import ExchangeSpec, QueueSpec

Ranges = tuple[tuple[int, int], ...]
Counts = tuple[tuple[int, int, int], ...]  # first, stop, how many deliveries of each of them failed


class NamespaceAdded(msgspec.Struct, array_like=True, tag=1, frozen=True):
    name: str


class NamespaceGone(msgspec.Struct, array_like=True, tag=2, frozen=True):
    name: str


class ExchangeMade(msgspec.Struct, array_like=True, tag=3, frozen=True):
    namespace: str
    spec: ExchangeSpec


class ExchangeGone(msgspec.Struct, array_like=True, tag=4, frozen=True):
    namespace: str
    name: str


class QueueMade(msgspec.Struct, array_like=True, tag=5, frozen=True):
    """Its lanes are partitions; the first one's id is the queue's, which is never given again."""

    namespace: str
    spec: QueueSpec
    partition_ids: tuple[int, ...]
    made_ms: int


class QueueGone(msgspec.Struct, array_like=True, tag=6, frozen=True):
    queue_id: int


class Bound(msgspec.Struct, array_like=True, tag=7, frozen=True):
    namespace: str
    source: str
    target_kind: str
    target: str
    key: str
    arguments: Mapping[str, Any] = {}


class Unbound(msgspec.Struct, array_like=True, tag=8, frozen=True):
    namespace: str
    source: str
    target_kind: str
    target: str
    key: str
    arguments: Mapping[str, Any] = {}


class PolicySet(msgspec.Struct, array_like=True, tag=9, frozen=True):
    namespace: str
    policy: Policy


class PolicyGone(msgspec.Struct, array_like=True, tag=10, frozen=True):
    namespace: str
    name: str


TopologyDelta = (
    NamespaceAdded
    | NamespaceGone
    | ExchangeMade
    | ExchangeGone
    | QueueMade
    | QueueGone
    | Bound
    | Unbound
    | PolicySet
    | PolicyGone
)


class Acked(msgspec.Struct, array_like=True, tag=1, frozen=True):
    """(lane's partition id, offset ranges) of messages that are done with."""

    lanes: tuple[tuple[int, Ranges], ...]


class Delivering(msgspec.Struct, array_like=True, tag=2, frozen=True):
    """Messages below `upto` may have been delivered before a crash; on disk before they are."""

    partition_id: int
    upto: int


class LaneState(msgspec.Struct, array_like=True, tag=3, frozen=True):
    """For snapshots: all that is known of a lane.

    `failed_offsets` is how earlier versions wrote what is in `failed` now: (offset, attempts), one by one.
    """

    partition_id: int
    floor: int
    acked: Ranges
    delivered_upto: int
    failed_offsets: tuple[tuple[int, int], ...] = ()
    expiring: bool = False
    failed: Counts = ()


class Expiring(msgspec.Struct, array_like=True, tag=4, frozen=True):
    """Messages with a time to live of their own come to these lanes, from now on."""

    partition_ids: tuple[int, ...]


class Failed(msgspec.Struct, array_like=True, tag=5, frozen=True):
    """(lane's partition id, counts) of messages that came back: how often so far, not how often more."""

    lanes: tuple[tuple[int, Counts], ...]


AckDelta = Acked | Delivering | LaneState | Expiring | Failed


class Held(msgspec.Struct, array_like=True, tag=1, frozen=True):
    """Messages from offset `base` of a lane of delays on become due at these times."""

    lane: int
    base: int
    due_ms: tuple[int, ...]


class HeldMany(msgspec.Struct, array_like=True, tag=2, frozen=True):
    """For snapshots: ids of timers and when they are due."""

    ids: tuple[int, ...]
    due_ms: tuple[int, ...]


DelayDelta = Held | HeldMany
