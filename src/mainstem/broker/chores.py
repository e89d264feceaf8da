"""What a broker does by itself, once a second: time-outs, snapshots, retention, care for its files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mainstem.broker.broker import Broker
from mainstem.broker.retention import due_starts
from mainstem.broker.store import Section
from mainstem.broker.topics import Trimmed
from mainstem.model.errors import MainstemError
from mainstem.model.logs import get_log

events = get_log(__name__)

TICK_S = 1.0
# Trims journalled in one frame: a slice of the loop, not a long hold.
TRIMS_AT_ONCE = 500


class Chores:
    """One task. A chore that fails is reported and tried again; the others go on."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._clock = broker.clock
        self._next_retention_ms = self._clock.monotonic_ms() + broker.options.retention_check_ms
        self._snapshot_ms = self._clock.monotonic_ms()
        self._snapshot_bytes = broker.store.log.bytes_written
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            await self.tick()

    async def tick(self) -> None:
        await self._try("time-outs of transactions", self._broker.transactions.tick)
        await self._try("care for groups", self._broker.groups.tick)
        await self._try("snapshot", self._snapshot_if_due)
        await self._try("retention", self._retention_if_due)
        await self._try("the next journal file", self._prepare)

    async def _try(self, name: str, chore: Callable[[], Awaitable[None]]) -> None:
        try:
            await chore()
        except MainstemError as error:
            events.warning("a chore has to wait", chore=name, why=str(error))
        except Exception as error:  # a bug in one chore must not end the others
            events.error("a chore failed", chore=name, error=error)

    async def _prepare(self) -> None:
        self._broker.store.log.prepare()

    # --- snapshots -------------------------------------------------------------------------------

    async def _snapshot_if_due(self) -> None:
        options, log = self._broker.options, self._broker.store.log
        written = log.bytes_written - self._snapshot_bytes
        waited_ms = self._clock.monotonic_ms() - self._snapshot_ms
        if written >= options.snapshot_bytes or (written and waited_ms >= options.snapshot_interval_ms):
            await self.snapshot()

    async def snapshot(self) -> None:
        started_ms = self._clock.monotonic_ms()
        self._snapshot_bytes = self._broker.store.log.bytes_written
        self._snapshot_ms = started_ms
        await self._broker.store.snapshot(self._broker.options.snapshot_slice_ms)
        events.debug("snapshot written", ms=self._clock.monotonic_ms() - started_ms)

    # --- retention -------------------------------------------------------------------------------

    async def _retention_if_due(self) -> None:
        now = self._clock.monotonic_ms()
        if now < self._next_retention_ms:
            return
        self._next_retention_ms = now + self._broker.options.retention_check_ms
        await self.retention()

    async def retention(self) -> int:
        """Trim what has expired; how many partitions were trimmed."""
        broker = self._broker
        partitions = list(broker.topics.partitions.values())
        due: list[tuple[int, int]] = await broker.store.in_reader(
            due_starts, broker.store.log, partitions, self._clock.now_ms()
        )
        for first in range(0, len(due), TRIMS_AT_ONCE):
            trims = [Trimmed(*pair) for pair in due[first : first + TRIMS_AT_ONCE]]
            for trim in trims:
                broker.topics.apply(trim)
            await broker.store.commit_together([(Section.TOPICS, trim) for trim in trims], essential=True)
        return len(due)
