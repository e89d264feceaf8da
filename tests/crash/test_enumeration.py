"""Every state that a crash can leave behind, and the log recovers from each with all that was acknowledged.

A run is recorded on a disk in memory. At every point of it the power is cut, in every way the disk allows:
operations that were not synced are kept or lost in any combination, writes are torn at sectors. Where there
are too many combinations, chance picks some. Set MAINSTEM_LONG_TESTS=1 for every second cut after every first
kill (minutes).
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import random
from collections.abc import Callable, Iterator
from itertools import chain, combinations

import pytest
from msgspec.structs import replace

from mainstem.kernel.log import direct, stage
from mainstem.kernel.log.jobs import Input, MergeJob, SealJob
from mainstem.kernel.log.layout import FileKind, places_name
from mainstem.kernel.log.log import LogOptions
from mainstem.kernel.log.manifest import RunEntry
from mainstem.kernel.log.merge import merge
from mainstem.kernel.log.seal import seal_file
from mainstem.kernel.log.sidecar import open_sidecar
from mainstem.model.errors import CorruptFile
from mainstem.model.ports import BLOCK_BYTES
from mainstem.testing.log_model import LogModel, ModelledLog
from mainstem.testing.memory_disk import Extend, Mark, MemoryDisk, Name, Op, Write

LONG = bool(os.environ.get("MAINSTEM_LONG_TESTS"))
ALL_SUBSETS_UPTO = 10
SAMPLES = 1000  # of what chance decides, at each point
FOLDER = "/data"
OPTIONS = LogOptions(file_bytes=4096, file_frames=1000, reserve_bytes=512)


# --- the states of one moment ------------------------------------------------------------------


def kept_after_a_cut(pending: list[Op], chance: random.Random) -> Iterator[list[Op]]:
    """What may be left of operations that were not synced."""
    seen: set[tuple[Op, ...]] = set()  # chance often says the same again where there is little to decide
    for kept in chain(*(ways(pending, chance) for ways in (subsets, one_torn, torn_beside_losses))):
        if (key := tuple(kept)) not in seen:
            seen.add(key)
            yield kept


def subsets(pending: list[Op], chance: random.Random) -> Iterator[list[Op]]:
    if len(pending) <= ALL_SUBSETS_UPTO:
        for count in range(len(pending) + 1):
            yield from map(list, combinations(pending, count))
        return
    yield []
    yield pending
    for index in range(len(pending)):
        yield pending[:index] + pending[index + 1 :]
    for _ in range(SAMPLES):
        yield [op for op in pending if chance.random() < 0.5]


def one_torn(pending: list[Op], chance: random.Random) -> Iterator[list[Op]]:
    """Each write torn in turn, with everything else kept."""
    for index, op in enumerate(pending):
        if isinstance(op, Write):
            for torn in torn_writes(op, chance):
                yield pending[:index] + torn + pending[index + 1 :]


def torn_beside_losses(pending: list[Op], chance: random.Random) -> Iterator[list[Op]]:
    """Writes that reach the disk in part while other operations do not reach it at all."""
    if any(isinstance(op, Write) for op in pending):
        for _ in range(SAMPLES):
            yield [part for op in pending if chance.random() < 0.5 for part in whole_or_torn(op, chance)]


def whole_or_torn(op: Op, chance: random.Random) -> list[Op]:
    """A torn write leaves its size, and sectors of 512 bytes in any combination."""
    if not isinstance(op, Write) or chance.random() < 0.5:
        return [op]
    size = Extend(op.inode, op.position + len(op.data))
    return [size, *(part for part in op.sectors() if chance.random() < 0.5)]


def torn_writes(write: Write, chance: random.Random) -> Iterator[list[Op]]:
    """Parts of a write that may reach the disk: beginnings, ends, holes, or only the size that it gave."""
    parts: list[Op] = [*write.sectors()]
    size: Op = Extend(write.inode, write.position + len(write.data))
    yield [size]
    for cut in range(1, len(parts)):
        yield parts[:cut]
        yield [size, *parts[cut:]]
        yield [size, *parts[:cut], *parts[cut + 1 :]]
    if len(parts) > 2:
        for _ in range(SAMPLES):
            yield [size, *(part for part in parts if chance.random() < 0.5)]


def digest(disk: MemoryDisk) -> bytes:
    hashed = hashlib.blake2b(digest_size=16)
    for path in sorted(disk.seen.names):
        data = disk.seen.files[disk.seen.names[path]]
        hashed.update(b"%d:%b%d:" % (len(path), path.encode(), len(data)))
        hashed.update(data)
    for path in sorted(disk.seen.folders):
        hashed.update(path.encode())
    return hashed.digest()


def model_of(whole: LogModel, acked: int) -> LogModel:
    model = LogModel()
    model.units = list(whole.units)
    model.acked = acked
    return model


class Enumeration:
    """Replays a recorded run and starts a log from every state in which the power can go."""

    def __init__(
        self, model: LogModel, begin: MemoryDisk, seed: int = 1, *, only_a_few: bool = False
    ) -> None:
        self.model = model
        self._only_a_few = only_a_few
        self.disk = begin
        self.states = 0
        self._seen: set[tuple[bytes, int]] = set()
        self._chance = random.Random(seed)

    def run(self, tape: list[object], acked: int = 0) -> int:
        self.cut_here(acked)
        for recorded in tape:
            if isinstance(recorded, Mark):
                acked = recorded.value
                continue
            self.disk.play(recorded)
            self.cut_here(acked)
        # An acknowledgement may be the last thing that happened.
        self.cut_here(acked)
        return self.states

    def cut_here(self, acked: int) -> None:
        pending = self.disk.pending
        few = [[], pending, pending[-1:], pending[1:]]
        for kept in few if self._only_a_few else kept_after_a_cut(pending, self._chance):
            disk = self.disk.after_power_cut(kept)
            key = (digest(disk), acked)
            if key not in self._seen:
                self._seen.add(key)
                self.states += 1
                self.start_and_use(disk, acked)

    def start_and_use(self, disk: MemoryDisk, acked: int) -> None:
        """Recovery holds what it must, and what is appended then survives the next cut."""
        model = model_of(self.model, acked)
        log = ModelledLog(disk, FOLDER, OPTIONS, model)
        if self.states % 4 == 0:
            log.append_batch(5, value_bytes=700)
            log.append_delta(3, b"after the cut")
            log.turn()
            assert not log.hand.failures
            pending = disk.pending
            kept = [op for op in pending if self._chance.random() < 0.5]
            ModelledLog(disk.after_power_cut(kept), FOLDER, OPTIONS, model)


# --- runs --------------------------------------------------------------------------------------


def little_of_everything(log: ModelledLog) -> None:
    log.log.prepare()
    log.append_batch(1, records=3, value_bytes=30)
    log.append_delta(2, b"first")
    log.turn()
    log.append_fan_out([1, 2, 3])
    log.append_atomic([2, 4], b"together")
    log.turn()
    log.append_link(0, 4, 1, 1, (("x-death", b"rejected"),))
    log.append_batch(2, value_bytes=900)
    log.turn()


def several_files(log: ModelledLog) -> None:
    log.log.prepare()
    for number in range(9):
        log.append_batch(number % 3, value_bytes=1100)
        if number % 2:
            log.append_delta(1, b"%d" % number)
        log.turn()


def files_finished_before_they_are_full(log: ModelledLog) -> None:
    """By the next round, and where there is none."""
    for number in range(6):
        log.log.prepare()
        log.hand.housekeeper.run()
        log.append_batch(number % 2, value_bytes=300)
        log.turn()
        if number % 2:
            log.append_delta(1, b"%d" % number)
        assert log.log.finish_file()
        log.turn()
    assert log.log.synced[0] == 7


def files_made_on_the_spot(log: ModelledLog) -> None:
    """The housekeeper never comes by: the writer has to make its files itself."""
    for number in range(7):
        log.append_batch(number % 2, value_bytes=1500)
        log.log.run_pending()


def snapshots(log: ModelledLog) -> None:
    log.log.prepare()
    for number in range(8):
        log.append_batch(1, value_bytes=600)
        log.append_delta(1, b"%d" % number)
        log.turn()
        if number % 2:
            log.snapshot()


def a_round_larger_than_a_file(log: ModelledLog) -> None:
    log.append_delta(1, b"small")
    log.turn()
    log.append_batch(1, value_bytes=6000)
    log.append_delta(1, b"behind it")
    log.turn()
    log.append_delta(1, b"in the next file")
    log.turn()


def rounds_of_several_blocks(log: ModelledLog) -> None:
    log.log.prepare()
    for number in range(5):
        log.append_batch(1, value_bytes=3000)
        log.append_batch(2, value_bytes=1500)
        log.append_delta(1, b"%d" % number)
        log.turn()


def finished_files_are_merged(log: ModelledLog) -> None:
    """Sidecars are written, then two files become a run, and a link names a body that has moved."""
    log.append_batch(1, records=3, value_bytes=900)
    log.append_fan_out([1, 2])
    log.turn()
    for number in range(7):
        log.append_batch(number % 3, value_bytes=1500)
        log.turn()
    log.snapshot()
    log.append_link(0, 2, 0, 3, ())
    log.turn()
    log.snapshot()
    disk, files = log.hand.disk, log.log.files
    sealed = [Input(e.file_id, FileKind.JOURNAL, e.size) for e in files.manifest.journals if e.size]
    for entry in sealed:
        seal_file(disk, SealJob(FOLDER, entry), lambda _: None)
    inputs, outside = sealed[:2], sealed[2:]
    ids = files.new_file_ids(2)
    targets = sorted(log.log.active_table.targets)
    job = MergeJob(FOLDER, inputs, [], outside, targets, {}, {}, ids, now_ms=0)
    runs = merge(disk, job, lambda _: None).runs
    gone = {entry.file_id for entry in inputs}
    entries = tuple(RunEntry(run.file_id, run.size, 1, ids[0]) for run in runs)
    files.change(
        lambda now: replace(
            now, runs=entries, journals=tuple(e for e in now.journals if e.file_id not in gone)
        )
    )
    new = [open_sidecar(disk, files.path(places_name(run.file_id))) for run in runs]
    log.log.replace_sealed(gone, list(new))
    files.drop(gone)
    log.check_reads()
    log.append_link(0, 3, 1, 2, ())
    log.append_batch(1, value_bytes=1500)
    log.turn()


RUNS = [
    little_of_everything,
    several_files,
    files_finished_before_they_are_full,
    files_made_on_the_spot,
    snapshots,
    a_round_larger_than_a_file,
    finished_files_are_merged,
]


def record(run: Callable[[ModelledLog], None], disk: MemoryDisk, model: LogModel | None = None) -> LogModel:
    log = ModelledLog(disk, FOLDER, OPTIONS, model, on_ack=disk.mark)
    run(log)
    assert not log.hand.failures
    assert log.model.acked == len(log.model.units)
    return log.model


@pytest.mark.timeout(3600 if LONG else 300)
@pytest.mark.parametrize("run", RUNS)
def test_recovery_holds_everything_acknowledged_wherever_the_power_is_cut(run):
    disk = MemoryDisk(FOLDER)
    model = record(run, disk)
    states = Enumeration(model, MemoryDisk(FOLDER)).run(disk.tape)
    assert states > 50


@pytest.mark.timeout(3600 if LONG else 300)
@pytest.mark.parametrize("least_staged", [1, 1000, 1 << 62], ids=["all staged", "some staged", "none staged"])
@pytest.mark.parametrize(
    ("run", "file_bytes"),
    [
        (little_of_everything, 4096),
        (several_files, 4096),
        (a_round_larger_than_a_file, 4096),
        (rounds_of_several_blocks, 32768),
    ],
)
def test_recovery_holds_everything_that_went_past_the_page_cache(run, file_bytes, least_staged, monkeypatch):
    staged: list[bool] = []
    write_staged = direct.DirectWriter.write_staged

    def noted(*arguments):
        staged.append(write_staged(*arguments))
        return staged[-1]

    monkeypatch.setattr(direct.DirectWriter, "write_staged", noted)
    monkeypatch.setattr(direct, "LEAST_BYTES", 1)
    monkeypatch.setattr(stage, "LEAST_BATCH_BYTES", least_staged)
    options = dataclasses.replace(OPTIONS, cached_bytes=0, file_bytes=file_bytes)
    monkeypatch.setitem(globals(), "OPTIONS", options)
    disk = MemoryDisk(FOLDER)
    model = record(run, disk)
    blocks = [op for op in disk.tape if isinstance(op, Write) and len(op.data) % BLOCK_BYTES == 0]
    assert len(blocks) > 1
    if run is rounds_of_several_blocks:
        assert staged == ([] if least_staged == 1 << 62 else [True] * 4)
    assert Enumeration(model, MemoryDisk(FOLDER)).run(disk.tape) > 50


@pytest.mark.timeout(3600 if LONG else 300)
@pytest.mark.parametrize("run", RUNS)
def test_a_power_cut_after_a_killed_process_was_recovered_loses_nothing(run):
    """The second process finds what the first one wrote and did not sync; it must not trust that it stays."""
    disk = MemoryDisk(FOLDER)
    whole = record(run, disk)
    first = MemoryDisk(FOLDER)
    acked = 0
    for index, recorded in enumerate(disk.tape):
        first.play(recorded)
        if isinstance(recorded, Mark):
            acked = recorded.value
        elif first.pending and (LONG or index % 2 or isinstance(recorded, Name)):
            killed = first.after_kill()
            again = killed.after_kill()
            model = record(use_again, killed, model_of(whole, acked))
            Enumeration(model, again, seed=index, only_a_few=not LONG or index % 8 != 0).run(
                killed.tape, acked
            )


def use_again(log: ModelledLog) -> None:
    """Into the next file, before the housekeeper writes a manifest: that would put right what went wrong."""
    for _ in range(3):
        log.append_batch(1, value_bytes=1500)
        log.log.run_pending()
    log.turn()


def test_a_frame_behind_a_torn_one_does_not_come_back_when_a_later_round_ends_before_it():
    disk = MemoryDisk(FOLDER)
    log = ModelledLog(disk, FOLDER, OPTIONS)
    log.append_delta(1, b"a" * 1000)
    log.append_delta(1, b"never acknowledged")
    log.log.run_pending()
    # The round as the power cut leaves it: without the sector in the middle of the first frame.
    (round_,) = [op for op in disk.tape if isinstance(op, Write) and b"never" in op.data]
    cut = MemoryDisk(FOLDER)
    for recorded in disk.tape[: disk.tape.index(round_)]:
        cut.play(recorded)
    sectors = round_.sectors()
    cut = cut.after_power_cut([sectors[0], *sectors[2:]])
    log = ModelledLog(cut, FOLDER, OPTIONS, LogModel())
    assert log.model.units == []
    # With its own round's head, this frame ends exactly where the old second frame began.
    log.append_delta(1, b"b" * (1000 - 16 - 32))
    log.turn()
    again = ModelledLog(cut.after_power_cut(), FOLDER, OPTIONS, log.model)
    assert [event[2][:1] for event in again.hand.replayed] == [b"b"]


@pytest.mark.parametrize("ignored", ["fdatasync", "fsync", "sync_folder"])
def test_the_enumeration_notices_a_sync_that_is_left_out(ignored):
    disk = MemoryDisk(FOLDER, ignored={ignored})
    model = record(several_files, disk)
    with pytest.raises((AssertionError, CorruptFile, FileNotFoundError)):
        Enumeration(model, MemoryDisk(FOLDER)).run(disk.tape)
