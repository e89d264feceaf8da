"""One partition as one share group reads it."""

from __future__ import annotations

from collections.abc import Callable

from mainstem.kernel.subs.leased_lane import LeasedLane
from mainstem.kernel.subs.leases import Leases


class ShareLane(LeasedLane):
    __slots__ = ("group", "partition_id", "waiters")

    def __init__(self, leases: Leases[LeasedLane, str], group: str, partition_id: int) -> None:
        super().__init__(leases)
        self.group = group
        self.partition_id = partition_id
        self.waiters: set[Callable[[], None]] = set()  # called when records come back

    def wake(self) -> None:
        for waiter in tuple(self.waiters):
            waiter()
