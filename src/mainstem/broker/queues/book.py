"""Namespaces, exchanges, queues and bindings as a state machine of deltas; see store.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mainstem.broker.partition import Partition, Topic
from mainstem.broker.queues.deltas import (
    AckDelta,
    Acked,
    Bound,
    Delivering,
    ExchangeGone,
    ExchangeMade,
    Expiring,
    Failed,
    LaneState,
    NamespaceAdded,
    NamespaceGone,
    PolicyGone,
    PolicySet,
    QueueGone,
    QueueMade,
    TopologyDelta,
    Unbound,
)
from mainstem.broker.queues.lanes import QueueLane
from mainstem.broker.queues.namespace import Namespace, is_given
from mainstem.broker.queues.queue import Queue
from mainstem.broker.queues.spec import DEFAULT_NAMESPACE, Target
from mainstem.broker.topics import Topics


class QueueBook:
    """What exists. Lanes are partitions of one topic that nobody can name; retention leaves them alone."""

    def __init__(self, topics: Topics, new_queue: Callable[[QueueMade, list[Partition]], Queue]) -> None:
        self._topics = topics
        self._new_queue = new_queue
        policy = topics.policies.of({"retention.ms": "-1", "retention.bytes": "-1"})
        self.topic = Topic("queues", bytes(16), {}, policy)
        self.namespaces: dict[str, Namespace] = {DEFAULT_NAMESPACE: Namespace(DEFAULT_NAMESPACE)}
        self.queues: dict[int, Queue] = {}  # by id
        self.lanes: dict[int, QueueLane] = {}  # by partition id
        self.version = 0  # counts changes that may change where a message goes

    def apply(self, delta: TopologyDelta) -> None:
        """Also of deltas whose effect is there already: a snapshot may be ahead of its position."""
        self.version += 1
        match delta:
            case NamespaceAdded(name):
                self.namespaces.setdefault(name, Namespace(name))
            case NamespaceGone(name):
                self._drop_namespace(name)
            case QueueMade(namespace, spec, partition_ids):
                known = self.queues.get(partition_ids[0])
                if known is not None:
                    # The snapshot had it. An older queue of this name, replayed just now, may hold the name.
                    self.namespaces[namespace].queues[spec.name] = known
                elif namespace in self.namespaces:
                    self._add_queue(delta)
            case QueueGone(queue_id):
                self._remove_queue(queue_id)
            case ExchangeMade(namespace, spec):
                found = self.namespaces.get(namespace)
                if found is not None and spec.name not in found.exchanges:
                    found.add_exchange(spec)
            case ExchangeGone(namespace, name):
                if namespace in self.namespaces:
                    self.namespaces[namespace].remove_exchange(name)
            case Bound() | Unbound():
                self._change_binding(delta)
            case PolicySet(namespace) | PolicyGone(namespace):
                self._change_policy(self.namespaces.get(namespace), delta)

    def _change_policy(self, namespace: Namespace | None, delta: PolicySet | PolicyGone) -> None:
        if namespace is not None:
            if isinstance(delta, PolicySet):
                namespace.policies.put(delta.policy)
            else:
                namespace.policies.remove(delta.name)
            namespace.use_policies()

    def _change_binding(self, delta: Bound | Unbound) -> None:
        namespace = self.namespaces.get(delta.namespace)
        if namespace is None or delta.source not in namespace.exchanges:
            return
        there = namespace.queues if delta.target_kind == "queue" else namespace.exchanges
        if delta.target not in there:
            return
        target = Target("queue" if delta.target_kind == "queue" else "exchange", delta.target)
        change = namespace.router.bind if isinstance(delta, Bound) else namespace.router.unbind
        change(delta.source, target, delta.key, delta.arguments)

    def _add_queue(self, made: QueueMade) -> None:
        partitions = []
        for index, partition_id in enumerate(made.partition_ids):
            partition = self._topics.partitions.get(partition_id) or Partition(
                partition_id, index, self.topic
            )
            self._topics.partitions[partition_id] = partition
            self._topics.next_partition_id = max(self._topics.next_partition_id, partition_id + 1)
            partitions.append(partition)
        queue = self._new_queue(made, partitions)
        self.queues[queue.id] = queue
        for lane in queue.lanes:
            self.lanes[lane.partition.id] = lane
        namespace = self.namespaces[made.namespace]
        namespace.queues[made.spec.name] = queue
        queue.use_options(namespace.policies.options(queue.spec))

    def queue_of(self, lane: QueueLane) -> Queue | None:
        return self.queues.get(lane.partition.id - lane.index)

    def _remove_queue(self, queue_id: int) -> None:
        queue = self.queues.pop(queue_id, None)
        if queue is None:
            return
        for lane in queue.lanes:
            del self.lanes[lane.partition.id]
            self._topics.partitions.pop(lane.partition.id, None)
        namespace = self.namespaces.get(queue.namespace)
        if namespace is not None and namespace.queues.get(queue.name) is queue:
            del namespace.queues[queue.name]
            namespace.router.remove_queue(queue.name)

    def _drop_namespace(self, name: str) -> None:
        namespace = self.namespaces.get(name)
        if namespace is not None:
            for queue in list(namespace.queues.values()):
                self._remove_queue(queue.id)
            del self.namespaces[name]

    def dump(self) -> Iterator[TopologyDelta]:
        for namespace in list(self.namespaces.values()):
            yield NamespaceAdded(namespace.name)
            for policy in namespace.policies.all():
                yield PolicySet(namespace.name, policy)
            for spec in list(namespace.exchanges.values()):
                if not is_given(spec.name):
                    yield ExchangeMade(namespace.name, spec)
        for queue in list(self.queues.values()):
            yield queue.made
        for namespace in list(self.namespaces.values()):
            for binding in list(namespace.router.bindings()):
                yield Bound(
                    namespace.name,
                    binding.source,
                    binding.target.kind,
                    binding.target.name,
                    binding.key,
                    binding.arguments or {},
                )


class AckBook:
    """What was delivered and acknowledged, lane by lane, as a state machine of deltas."""

    def __init__(self, book: QueueBook) -> None:
        self._book = book

    def apply(self, delta: AckDelta) -> None:
        match delta:
            case Acked(lanes):
                for partition_id, ranges in lanes:
                    lane = self._book.lanes.get(partition_id)
                    if lane is not None:
                        lane.replay_acked(ranges)
            case Delivering(partition_id, upto):
                lane = self._book.lanes.get(partition_id)
                if lane is not None:
                    lane.delivered_upto = max(lane.delivered_upto, upto)
            case LaneState(partition_id):
                lane = self._book.lanes.get(partition_id)
                if lane is not None:
                    lane.replay_state(delta)
            case Failed(counted):
                for partition_id, counts in counted:
                    lane = self._book.lanes.get(partition_id)
                    if lane is not None:
                        lane.replay_failed(counts)
            case Expiring(partition_ids):
                for partition_id in partition_ids:
                    lane = self._book.lanes.get(partition_id)
                    if lane is not None:
                        lane.expiring = True

    def dump(self) -> Iterator[AckDelta]:
        for lane in list(self._book.lanes.values()):
            state = lane.saved()
            if state is not None:
                yield state
