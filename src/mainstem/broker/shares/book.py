"""Share groups and what is done with in their partitions, as a state machine of deltas; see store.py."""

from __future__ import annotations

from collections.abc import Iterator

from mainstem.broker.options import BrokerOptions
from mainstem.broker.shares.deltas import (
    GroupConfigured,
    ShareDelta,
    ShareGroupGone,
    ShareGroupMade,
    ShareReached,
    SharesForgotten,
    SharesSettled,
    ShareStarted,
)
from mainstem.broker.shares.lanes import ShareLane
from mainstem.broker.shares.settings import ShareSettings, settings_of
from mainstem.broker.topics import Topics
from mainstem.kernel.subs.leased_lane import LeasedLane, Settled
from mainstem.kernel.subs.leases import Leases


class ShareBook:
    def __init__(self, topics: Topics, options: BrokerOptions) -> None:
        self._topics = topics
        self._options = options
        self.leases: Leases[LeasedLane, str] = Leases()
        self.groups: dict[str, dict[int, ShareLane]] = {}  # id -> lanes by partition id
        self.configs: dict[str, dict[str, str]] = {}
        self._settings: dict[str, ShareSettings] = {}
        self._usual = settings_of(options, {})

    def settings(self, group: str) -> ShareSettings:
        return self._settings.get(group, self._usual)

    def apply(self, delta: ShareDelta) -> None:
        match delta:
            case ShareGroupMade(group):
                self.groups.setdefault(group, {})
            case ShareGroupGone(group):
                self._forget(group, tuple(self.groups.get(group, ())))
                self.groups.pop(group, None)
            case ShareStarted(group, partition_id, offset):
                self._lane(group, partition_id).seek(offset)
            case SharesSettled(group, partitions):
                for partition_id, done, failed in partitions:
                    lane = self.groups.get(group, {}).get(partition_id)
                    if lane is not None:
                        lane.replay(Settled(done, failed))
            case SharesForgotten(group, partition_ids):
                self._forget(group, partition_ids)
            case ShareReached(group, partition_id, floor, done, failed):
                self._lane(group, partition_id).restore(floor, Settled(done, failed))
            case GroupConfigured(group, configs):
                self._configure(group, configs)

    def _lane(self, group: str, partition_id: int) -> ShareLane:
        lanes = self.groups.setdefault(group, {})
        if partition_id not in lanes:
            lanes[partition_id] = ShareLane(self.leases, group, partition_id)
        return lanes[partition_id]

    def _forget(self, group: str, partition_ids: tuple[int, ...]) -> None:
        lanes = self.groups.get(group, {})
        for partition_id in partition_ids:
            lane = lanes.pop(partition_id, None)
            if lane is not None:
                self.leases.forget(lane)

    def _configure(self, group: str, configs: dict[str, str]) -> None:
        if configs:
            self.configs[group] = configs
            self._settings[group] = settings_of(self._options, configs)
        else:
            self.configs.pop(group, None)
            self._settings.pop(group, None)

    def forget_gone(self) -> None:
        """Partitions that were deleted: nobody journals it for every group, their ids are just not there."""
        for group, lanes in self.groups.items():
            gone = tuple(one for one in lanes if one not in self._topics.partitions)
            self._forget(group, gone)

    def dump(self) -> Iterator[ShareDelta]:
        self.forget_gone()
        return self._dump()

    def _dump(self) -> Iterator[ShareDelta]:
        for group, configs in list(self.configs.items()):
            yield GroupConfigured(group, dict(configs))
        for group, lanes in list(self.groups.items()):
            yield ShareGroupMade(group)
            for partition_id, lane in list(lanes.items()):
                yield ShareReached(group, partition_id, lane.floor, tuple(lane.done()), lane.failed())
