"""What a broker does by itself, once a second: time-outs, snapshots, retention, care for its files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mainstem.broker.broker import Broker
from mainstem.broker.facts import PartitionFacts
from mainstem.broker.file_age import FileAge
from mainstem.broker.partition import Partition
from mainstem.broker.retention import allowed_start, due_starts
from mainstem.broker.store import Section
from mainstem.broker.topics import Trimmed
from mainstem.kernel.log.miller import Miller
from mainstem.kernel.log.plan import UpkeepOptions
from mainstem.kernel.log.upkeep import Upkeep
from mainstem.model.errors import CorruptFile, MainstemError
from mainstem.model.logs import Seldom, get_log

events = get_log(__name__)

TICK_S = 1.0
# Trims journalled in one frame: a slice of the loop, not a long hold.
TRIMS_AT_ONCE = 500
# Partitions asked for open transactions in one: half a millisecond.
PARTITIONS_AT_ONCE = 1000


class Chores:
    """One task. A chore that fails is reported and tried again; the others go on."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._seldom = Seldom(events)
        self._clock = broker.clock
        self._next_retention_ms = self._clock.monotonic_ms() + broker.options.retention_check_ms
        self._snapshot_ms = self._clock.monotonic_ms()
        self._snapshot_bytes = broker.store.log.bytes_written
        self._file_age = FileAge(broker.store.log, broker.topics, broker.options.file_age_ms)
        self._upkeep = _upkeep(broker) if broker.options.merge else None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._upkeep is not None:
            self._upkeep.close()

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
        await self._try("the age of a journal file", self._look_at_age)
        await self._try("care for files", self._care_for_files)

    async def _try(self, name: str, chore: Callable[[], Awaitable[None]]) -> None:
        try:
            await chore()
        except MainstemError as error:
            self._seldom.warning("a chore has to wait", about=name, chore=name, why=str(error))
        except Exception as error:  # a bug in one chore must not end the others
            events.error("a chore failed", chore=name, error=error)

    async def _prepare(self) -> None:
        self._broker.store.log.prepare()

    async def _look_at_age(self) -> None:
        await self._file_age.look(self._clock.monotonic_ms())

    async def _care_for_files(self) -> None:
        """In slices, with everyone else's turns in between."""
        while self._upkeep is not None and self._upkeep.tick(self._clock.monotonic_ms()):
            await asyncio.sleep(0)

    # --- snapshots -------------------------------------------------------------------------------

    async def _snapshot_if_due(self) -> None:
        options, log = self._broker.options, self._broker.store.log
        written = log.bytes_written - self._snapshot_bytes
        waited_ms = self._clock.monotonic_ms() - self._snapshot_ms
        much = written >= options.snapshot_bytes
        long_ago = written > 0 and waited_ms >= options.snapshot_interval_ms
        if much or long_ago or (waited_ms >= options.snapshot_gap_ms and self._a_merge_waits()):
            await self.snapshot()

    def _a_merge_waits(self) -> bool:
        """A finished journal file is merged once two snapshots make replay independent of it."""
        manifest = self._broker.store.log.files.manifest
        covered = manifest.snapshots[0].file_id if len(manifest.snapshots) > 1 else 0
        return any(entry.size and entry.file_id >= covered for entry in manifest.journals)

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

    def _tell_damage(self, partition: Partition, error: CorruptFile) -> None:
        topic, why = partition.topic.name, str(error)
        self._seldom.warning(
            "retention comes upon damage",
            about=str(partition),
            topic=topic,
            partition=partition.index,
            why=why,
        )

    async def retention(self) -> int:
        """Trim what has expired; how many partitions were trimmed."""
        broker = self._broker
        partitions = list(broker.topics.partitions.values())
        held: dict[int, int] = {}  # what no start can pass now need not be looked at
        for count, partition in enumerate(partitions, 1):
            stable = partition.last_stable_offset()
            if stable < partition.high_watermark:
                held[partition.id] = stable
            if count % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
        found: list[tuple[Partition, int]] = await broker.store.in_reader(
            due_starts, broker.store.log, partitions, self._clock.now_ms(), self._tell_damage, held
        )
        wanted = [(partition, allowed_start(partition, start)) for partition, start in found]
        due = [Trimmed(partition.id, start) for partition, start in wanted if start > partition.log_start]
        for first in range(0, len(due), TRIMS_AT_ONCE):
            trims = due[first : first + TRIMS_AT_ONCE]
            # Journalled before applied: a merge must not drop what a restart would still count as there.
            done = broker.store.commit_together([(Section.TOPICS, trim) for trim in trims], frees_space=True)
            for trim in trims:
                broker.topics.apply(trim)
            await done
        return len(due)


def _upkeep(broker: Broker) -> Upkeep:
    loop = asyncio.get_running_loop()
    options = broker.options
    return Upkeep(
        broker.store.log,
        PartitionFacts(broker.topics, broker.clock),
        Miller(loop.call_soon_threadsafe, options.merge_bytes_per_second),
        loop.call_soon_threadsafe,
        UpkeepOptions(
            level0_files=options.merge_level0_files,
            merge_after_ms=options.merge_after_ms,
            dirty_ratio=options.merge_dirty_ratio,
        ),
        broker.meters,
    )
