"""Where a publish leads: the queues, looked up once and remembered until the topology changes."""

from __future__ import annotations

from mainstem.broker.queues.lanes import QueueLane
from mainstem.broker.queues.queue import Queue


class Route:
    """Destinations of messages. While nothing changes, one object for each set of queues."""

    __slots__ = ("_lanes", "levels", "limited", "queues")

    def __init__(self, queues: tuple[Queue, ...]) -> None:
        self.queues = queues
        self.levels = max((len(queue.lanes) for queue in queues), default=1)  # of priority, that differ
        self._lanes: dict[int, tuple[QueueLane, ...]] = {}
        self.limited = tuple(
            queue for queue in queues if queue.is_limited and queue.options.overflow != "drop-head"
        )

    def without(self, queues: tuple[Queue, ...]) -> Route:
        return Route(tuple(queue for queue in self.queues if queue not in queues))

    def lanes(self, priority: int) -> tuple[QueueLane, ...]:
        priority = min(priority, self.levels - 1)
        found = self._lanes.get(priority)
        if found is None:
            found = tuple(queue.lanes[min(priority, len(queue.lanes) - 1)] for queue in self.queues)
            self._lanes[priority] = found
        return found
