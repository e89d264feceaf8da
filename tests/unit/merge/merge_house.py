"""A log with its upkeep on one thread, and a model of what it must read as."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from mainstem.kernel.log.disk import OsDisk
from mainstem.kernel.log.entries import BatchEntry, BodyEntry, DeltaEntry, LinkEntry
from mainstem.kernel.log.facts import CompactPolicy
from mainstem.kernel.log.jobs import Failed, Job, MergeJob, Outcome
from mainstem.kernel.log.journal import NewPlace
from mainstem.kernel.log.layout import Link, Overlay, pack_overlay, places_name, run_name
from mainstem.kernel.log.log import Log, LogOptions
from mainstem.kernel.log.mill import decode_job, decode_outcome, encode_job, run_job
from mainstem.kernel.log.plan import UpkeepOptions
from mainstem.kernel.log.recover import recover
from mainstem.kernel.log.upkeep import Upkeep
from mainstem.model.batch import read_header
from mainstem.model.meters import Meters
from mainstem.model.ports import Disk
from mainstem.model.records import Record, encode_batch

LOG_OPTIONS = LogOptions(file_bytes=16 << 10, file_frames=1000, reserve_bytes=1 << 10)
EAGER = UpkeepOptions(
    level0_files=2, merge_after_ms=0, fan_in=3, run_bytes=1 << 30, survey_every_ms=0, sealed_here_rows=0
)


class NowExecutor(Executor):
    """Runs what is submitted at once, on the same thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class LazyRunner:
    """Does a job in this process, when told to: so that a test can do other things first."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.jobs: deque[tuple[Job, Callable[[Outcome], None]]] = deque()
        self.outcomes: list[Outcome] = []
        self.held = False
        self.can_abandon = False
        self.abandoned = 0

    def start(self, job: Job, on_done: Callable[[Outcome], None]) -> None:
        self.jobs.append((job, on_done))

    def hold(self, held: bool) -> None:
        self.held = held

    def abandon(self) -> bool:
        """Not when first asked, as a child that is being started. What becomes of the job is heard later."""
        asked_before, self.can_abandon = self.can_abandon, True
        self.abandoned += asked_before
        return asked_before

    def die(self) -> None:
        """As a child that is killed in the middle of a merge: what it was writing stays."""
        job, on_done = self.jobs.popleft()
        assert isinstance(job, MergeJob)
        for name in (run_name(job.output_ids[0]), f"{places_name(job.output_ids[0])}.new"):
            with open(f"{job.folder}/{name}", "wb") as file:
                file.write(b"half")
        on_done(Failed("the child was ended"))

    def close(self) -> None:
        self.jobs.clear()

    def work(self) -> None:
        job, on_done = self.jobs.popleft()
        outcome = run_job(self._disk, decode_job(encode_job(job)), lambda count: None)
        self.outcomes.append(outcome)
        on_done(decode_outcome(encode_job(outcome)))


class Nothing:
    """A replay that only notes what it is told."""

    reached = None

    def __init__(self) -> None:
        self.deltas: list[bytes] = []

    def delta(self, section: int, payload: bytes) -> None:
        self.deltas.append(payload)

    def batch(self, partition: int, batch: memoryview) -> None: ...

    def link(self, partition: int, base: int, last: int) -> None: ...


class SimpleFacts:
    def __init__(self) -> None:
        self.wall_ms: Callable[[], int] = lambda: 0
        self.floors: dict[int, int | None] = {}
        self.policies: dict[int, CompactPolicy] = {}
        self.stable: dict[int, int] = {}
        self.held: set[tuple[int, int]] = set()

    def floor(self, partition: int) -> int | None:
        return self.floors.get(partition, 0)

    def compaction(self, partition: int) -> CompactPolicy | None:
        return self.policies.get(partition)

    def stable_offset(self, partition: int) -> int:
        return self.stable.get(partition, 1 << 60)

    def now_ms(self) -> int:
        return self.wall_ms()

    def bodies(self) -> set[tuple[int, int]]:
        return self.held


def post(function: Callable[[Any], None], argument: Any) -> None:
    function(argument)


def fail(error: BaseException) -> None:
    raise error


def records(count: int, tag: str, size: int = 40, timestamp_ms: int = 1000) -> list[Record]:
    return [
        Record(at, timestamp_ms + at, f"key-{tag}-{at}".encode(), f"{tag}-{at}-".encode().ljust(size, b"v"))
        for at in range(count)
    ]


class House:
    """The log, its upkeep and its model: partition -> the batches that a reader must get, in order."""

    def __init__(
        self,
        folder: str,
        options: UpkeepOptions = EAGER,
        log_options: LogOptions = LOG_OPTIONS,
        disk: Disk | None = None,
    ) -> None:
        self.folder = folder
        self.options = options
        self.log_options = log_options
        self.facts = SimpleFacts()
        self.facts.wall_ms = lambda: self.now_ms
        self.model: dict[int, list[bytes]] = {}
        self.ends: dict[int, int] = {}
        self.now_ms = 1_000_000
        self.disk = disk or OsDisk()
        self.disk.make_folder(folder)
        self.open()

    def open(self) -> None:
        self.replay = Nothing()
        self.runner = LazyRunner(self.disk)
        self.meters = Meters()
        recovered = recover(self.disk, self.folder, self.log_options.file_bytes, self.replay, lambda: "id")
        self.log = Log(recovered, self.log_options, post, fail, NowExecutor())
        self.log.prepare()
        self.upkeep = Upkeep(self.log, self.facts, self.runner, post, self.options, self.meters)

    def reopen(self) -> None:
        """As after a crash: nothing is told to end."""
        self.open()

    # --- appends ---------------------------------------------------------------------------------

    def append(self, partition: int, count: int = 1, size: int = 40, **fields: Any) -> tuple[int, int]:
        """A batch; returns where its body lies."""
        base = self.ends.get(partition, 0)
        batch = encode_batch(records(count, f"{partition}.{base}", size), base_offset=base, **fields)
        return self.append_batch(partition, bytes(batch))

    def append_batch(self, partition: int, batch: bytes) -> tuple[int, int]:
        header = read_header(batch)
        where: list[tuple[int, int]] = []
        self.log.append_batch(
            partition,
            batch,
            header.base_offset,
            header.last_offset,
            header.max_timestamp_ms,
            lambda done: where.append((done.file_id, done.position)),
        )
        self.log.run_pending()
        self._expect(partition, batch, header.last_offset + 1)
        return where[0]

    def fan_out(self, partitions: list[int], count: int = 2) -> None:
        """One body and a link to it in each partition, in one frame."""
        body = bytes(encode_batch(records(count, "fan")))
        entries: list[Any] = [BodyEntry(body)]
        for partition in partitions:
            entries.append(LinkEntry(partition, self._link(partition, (0, 0), body, 0, count, ()), body=0))
        self.log.append_atomic(entries, None)
        self.log.run_pending()
        self._read_back(partitions, [count] * len(partitions))

    def atomic(self, partition: int) -> None:
        """A batch and a delta in one frame."""
        base = self.ends.get(partition, 0)
        batch = bytes(encode_batch(records(1, f"atomic {base}"), base_offset=base))
        place = NewPlace(partition, base, base, read_header(batch).max_timestamp_ms, len(batch))
        self.log.append_atomic([BatchEntry(partition, batch, place), DeltaEntry(7, b"delta")], None)
        self.log.run_pending()
        self._expect(partition, batch, base + 1)

    def link(
        self,
        partition: int,
        body: tuple[int, int],
        first: int = 0,
        count: int = 1,
        overlay: tuple[Any, ...] = (),
    ) -> None:
        """A place for a body on disk; what it reads as right after is what it must read as for good."""
        file_id, position = self.log.reader.current(body)
        file = self.log.reader.file(file_id)
        data = file.pread(read_header(file.pread(61, position)).size, position)
        entry = LinkEntry(partition, self._link(partition, body, data, first, count, overlay))
        self.log.append_atomic([entry], None)
        self.log.run_pending()
        self._read_back([partition], [count])

    def _link(
        self,
        partition: int,
        body: tuple[int, int],
        data: bytes,
        first: int,
        count: int,
        overlay: tuple[Any, ...],
    ) -> Link:
        packed = pack_overlay(Overlay(overlay)) if overlay else b""
        base = self.ends.get(partition, 0)
        return Link(base, *body, len(data), first, count, read_header(data).max_timestamp_ms, packed)

    def _read_back(self, partitions: list[int], counts: list[int]) -> None:
        for partition, count in zip(partitions, counts, strict=True):
            base = self.ends.get(partition, 0)
            (batch,) = self.log.read(partition, base, 1, base + 1, wait=True)
            self._expect(partition, bytes(batch), base + count)

    def _expect(self, partition: int, batch: bytes, end: int) -> None:
        self.model.setdefault(partition, []).append(batch)
        self.ends[partition] = end

    def trim(self, partition: int, floor: int | None) -> None:
        """None deletes the partition."""
        self.facts.floors[partition] = floor
        if floor is None:
            self.model.pop(partition, None)
            return
        self.model[partition] = [
            batch for batch in self.model.get(partition, []) if read_header(batch).last_offset >= floor
        ]

    def roll(self) -> None:
        """Fill the active file, with a partition that no test looks at."""
        file_id = self.log.synced[0]
        while self.log.synced[0] == file_id:
            self.append(999, size=2000)

    def snapshot(self) -> None:
        writer, entry = self.log.new_snapshot()
        writer.write([(1, b"state")])
        self.log.add_snapshot(writer, entry)

    def settle(self) -> None:
        """Roll, and move both snapshots behind it: everything written so far may be merged."""
        self.roll()
        self.snapshot()
        self.snapshot()

    # --- upkeep ----------------------------------------------------------------------------------

    def plan(self) -> Job | None:
        """Tick until a job is wanted."""
        self.now_ms += 1
        while self.upkeep.tick(self.now_ms):
            pass
        return self.runner.jobs[0][0] if self.runner.jobs else None

    def work(self, jobs: int = 100) -> int:
        """Do what upkeep wants; how many jobs it were."""
        done = 0
        while done < jobs and self.plan() is not None:
            self.runner.work()
            done += 1
        return done

    # --- reads -----------------------------------------------------------------------------------

    def read(self, partition: int, max_bytes: int = 700) -> list[bytes]:
        offset = self.facts.floors.get(partition) or 0
        end = self.ends.get(partition, 0)
        found: list[bytes] = []
        while offset < end:
            part = self.log.read(partition, offset, max_bytes, end, wait=True)
            if not part:
                break
            found += [bytes(batch) for batch in part]
            offset = read_header(found[-1]).last_offset + 1
        return found

    def check(self) -> None:
        for partition, batches in self.model.items():
            assert self.read(partition) == batches, partition
