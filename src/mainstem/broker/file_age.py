"""Finishes the journal file that is being written once it is old, though it is not full.

What lies in it can be compacted, merged and given back only then, and a broker on which little is written
would fill it in years.
"""

from __future__ import annotations

import asyncio

from mainstem.broker.topics import Topics
from mainstem.kernel.log.log import Log

# However soon a topic wants it: a file takes its whole space for as long as it is written, and is filled with
# zeros ahead. So the first is finished soon, and those that follow each after twice as long.
SOONEST_MS = 10_000
LATEST_SOONEST_MS = 640_000
FORGOTTEN_AFTER_MS = 3_600_000
_SLICE_STEPS = 1000


class FileAge:
    """One per broker; `look` is called about once a second, with a clock that is never set back."""

    def __init__(self, log: Log, topics: Topics, most_ms: int) -> None:
        self._log = log
        self._topics = topics
        self._most_ms = most_ms
        self._file_id = 0
        self._since_ms = 0  # it was begun, or nothing was in it
        self._next_look_ms = 0
        self._soonest_ms = SOONEST_MS
        self._finished_ms = -FORGOTTEN_AFTER_MS

    async def look(self, now_ms: int) -> None:
        table = self._log.active_table
        if table.file_id != self._file_id:
            self._file_id, self._since_ms = table.file_id, now_ms
        if now_ms < self._next_look_ms:
            return
        self._next_look_ms = now_ms + SOONEST_MS
        if now_ms - self._since_ms < min(self._most_ms, await self._wanted_ms(table.partitions())):
            return
        if not self._log.finish_file():
            self._since_ms = now_ms
            return
        lately = now_ms - self._finished_ms < FORGOTTEN_AFTER_MS
        self._soonest_ms = min(2 * self._soonest_ms, LATEST_SOONEST_MS) if lately else SOONEST_MS
        self._finished_ms = now_ms

    async def _wanted_ms(self, partitions: list[int]) -> int:
        """By the compacted topics whose records lie there."""
        wanted_ms = self._most_ms
        for step, partition_id in enumerate(partitions, 1):
            partition = self._topics.partitions.get(partition_id)
            if partition is not None and partition.topic.policy.compact:
                wanted_ms = min(wanted_ms, partition.topic.policy.segment_ms)
            if step % _SLICE_STEPS == 0:
                await asyncio.sleep(0)
        return max(wanted_ms, self._soonest_ms)
