"""Damage to any file is noticed, with file and position, or does no harm: never wrong bytes or silence."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from fastcrc.crc32 import iscsi as crc32c
from msgspec.structs import replace
from test_enumeration import kept_after_a_cut

from mainstem.kernel.log.jobs import Input, MergeJob, SealJob
from mainstem.kernel.log.layout import ROUND_MAGIC, FileKind, journal_name, places_name, snapshot_name
from mainstem.kernel.log.log import LogOptions
from mainstem.kernel.log.manifest import (
    FIRST_BYTES,
    SPARE_BYTES,
    JournalEntry,
    Manifest,
    RunEntry,
    read_manifest,
    write_manifest,
)
from mainstem.kernel.log.merge import merge
from mainstem.kernel.log.seal import seal_file
from mainstem.model.batch import read_header
from mainstem.model.errors import CorruptFile, FormatTooNew
from mainstem.testing.log_by_hand import LogByHand
from mainstem.testing.log_model import EVERYTHING, LogModel, ModelledLog
from mainstem.testing.memory_disk import MemoryDisk

FOLDER = "/data"
OPTIONS = LogOptions(file_bytes=4096, file_frames=1000, reserve_bytes=512)
STEP = 5  # every so many bytes one is damaged
KINDS = ["active", "sealed", "run", "sidecar", "prepared", "manifest", "spare", "snapshot"]
HARMLESS = ("sidecar", "spare", "snapshot")  # made again, not needed, or there is the one before


def no_pace(_: int) -> None: ...


def build() -> tuple[MemoryDisk, LogModel]:
    """A folder with every kind of file: runs, sealed journals, sidecars, two snapshots, an active file.

    Behind it one that is prepared, and the space that is kept for the next manifest.
    """
    disk = MemoryDisk(FOLDER)
    log = ModelledLog(disk, FOLDER, OPTIONS)
    log.log.prepare()
    log.append_batch(1, records=3, value_bytes=60)
    log.append_fan_out([1, 2, 3])
    log.turn()
    for number in range(30):
        log.append_batch(number % 4, value_bytes=1200 if number % 3 == 0 else 500)  # the large: OWN_CRC
        log.append_delta(1, b"%d" % number)
        if number % 5 == 0:
            log.append_link(0, 3, 1, 1, (("x", b"y"),))
        log.turn()
        if number in (24, 27):
            log.snapshot()
    log.append_link(0, 2, 0, 3, ())
    log.turn()
    log.hand.close()
    seal_all(disk)
    merge_two(disk)
    # The spare is never synced; here it is, so that it can be damaged like any other file.
    disk.open(f"{FOLDER}/MANIFEST.new").fsync()
    disk.sync_folder(FOLDER)
    return disk, log.model


def sealed_inputs(manifest: Manifest) -> list[Input]:
    return [Input(entry.file_id, FileKind.JOURNAL, entry.size) for entry in manifest.journals if entry.size]


def seal_all(disk: MemoryDisk) -> None:
    manifest = read_manifest(disk, FOLDER)
    assert manifest is not None
    for entry in sealed_inputs(manifest):
        seal_file(disk, SealJob(FOLDER, entry), no_pace)


def merge_two(disk: MemoryDisk) -> None:
    manifest = read_manifest(disk, FOLDER)
    assert manifest is not None
    inputs = sealed_inputs(manifest)
    assert len(inputs) > 2
    active = opened(disk).log.active_table
    ids = [manifest.next_file_id + at for at in range(4)]
    job = MergeJob(FOLDER, inputs[:2], [], inputs[2:], sorted(active.targets), {}, {}, ids, now_ms=0)
    runs = tuple(
        RunEntry(run.file_id, run.size, 1, ids[0], run.keyed, run.body_bytes)
        for run in merge(disk, job, no_pace).runs
    )
    merged = {entry.file_id for entry in inputs[:2]}
    kept = tuple(entry for entry in manifest.journals if entry.file_id not in merged)
    write_manifest(
        disk, FOLDER, replace(manifest, next_file_id=ids[-1] + 1, runs=runs, journals=kept, retired=())
    )
    for file_id in merged:
        disk.remove(f"{FOLDER}/{journal_name(file_id)}")
        disk.remove(f"{FOLDER}/{places_name(file_id)}")


def opened(disk: MemoryDisk) -> LogByHand:
    return LogByHand(disk.after_kill(), FOLDER, OPTIONS)


Contents = tuple[int, dict[int, list[bytes]]]


def contents(disk: MemoryDisk, model: LogModel) -> Contents:
    """How much of the model a log on this disk holds, and what its partitions read as."""
    hand = opened(disk)
    reads = {partition: read_whole(hand, partition) for partition in range(5)}
    return model.held_by(hand.replayed), {p: batches for p, batches in reads.items() if batches}


def read_whole(hand: LogByHand, partition: int) -> list[bytes]:
    """A read ends before what is damaged; the one that begins there raises."""
    found: list[bytes] = []
    offset = 0
    while more := hand.log.read(partition, offset, EVERYTHING, EVERYTHING, wait=True):
        found += map(bytes, more)
        offset = read_header(more[-1]).last_offset + 1
    return found


def all_of(model: LogModel) -> Contents:
    return model.acked, model.reads(model.acked)


@pytest.fixture(scope="module")
def world() -> tuple[MemoryDisk, LogModel]:
    disk, model = build()
    assert contents(disk, model) == all_of(model)
    return disk, model


def files_of(disk: MemoryDisk) -> dict[str, list[str]]:
    """Paths by kind of file; only those that the manifest names, the manifest and the next one's space."""
    manifest = read_manifest(disk, FOLDER)
    assert manifest is not None
    *sealed, active = [entry for entry in manifest.journals if has_frames(disk, entry.file_id)]
    prepared = [entry for entry in manifest.journals if not has_frames(disk, entry.file_id)]
    finished = [*sealed, *manifest.runs]
    return {
        "active": [f"{FOLDER}/{journal_name(active.file_id)}"],
        "sealed": [f"{FOLDER}/{journal_name(entry.file_id)}" for entry in sealed],
        "run": [f"{FOLDER}/files/{entry.file_id:010d}.run" for entry in manifest.runs],
        "sidecar": [f"{FOLDER}/{places_name(entry.file_id)}" for entry in finished],
        "prepared": [f"{FOLDER}/{journal_name(entry.file_id)}" for entry in prepared],
        "manifest": [f"{FOLDER}/MANIFEST"],
        "spare": [f"{FOLDER}/MANIFEST.new"],
        "snapshot": [f"{FOLDER}/{snapshot_name(entry.number)}" for entry in manifest.snapshots],
    }


def has_frames(disk: MemoryDisk, file_id: int) -> bool:
    return ROUND_MAGIC in disk.seen.files[disk.seen.names[f"{FOLDER}/{journal_name(file_id)}"]]


def flipped(at: int) -> Callable[[bytearray], None]:
    def edit(data: bytearray) -> None:
        data[at] ^= 1 << (at % 8)

    return edit


def zeroed(at: int) -> Callable[[bytearray], None]:
    def edit(data: bytearray) -> None:
        end = min(at // 512 * 512 + 512, len(data))
        data[at // 512 * 512 : end] = bytes(end - at // 512 * 512)

    return edit


def cut(at: int) -> Callable[[bytearray], None]:
    def edit(data: bytearray) -> None:
        del data[at:]

    return edit


def damages(size: int, end: int) -> Iterator[tuple[str, int, Callable[[bytearray], None]]]:
    chance = random.Random(size)
    for at in range(0, end, max(STEP, size // 1000)):
        yield "flip", at, flipped(at)
    for at in range(0, end if end == size else end - 512, 512):
        yield "zero", at, zeroed(at)
    for at in [0, 1, 31, 32, *(chance.randrange(end) for _ in range(20)), end - 1]:
        yield "cut", at, cut(at)


def last_round(data: bytes) -> int:
    """Where the last round of the active file begins: nothing says yet that it was on disk."""
    return data.rindex(ROUND_MAGIC) - 16


def frames_end(data: bytes) -> int:
    return len(data.rstrip(b"\0"))


def outcome(disk: MemoryDisk, model: LogModel) -> Contents | CorruptFile:
    try:
        return contents(disk, model)
    except CorruptFile as error:
        return error


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_named_with_file_and_position_or_does_no_harm(world, kind):
    disk, model = world
    found = 0
    for path in files_of(disk)[kind]:
        data = bytes(disk.seen.files[disk.seen.names[path]])
        end = last_round(data) if kind == "active" else len(data)
        for what, at, edit in damages(len(data), end):
            damaged = disk.after_kill()
            damaged.change(path, edit)
            got = outcome(damaged, model)
            if isinstance(got, CorruptFile):
                assert got.path == path, f"{what} at {at} of {path} was blamed on {got}"
                assert 0 <= got.position <= len(data)
                found += 1
            else:
                assert got == all_of(model), f"{what} at {at} of {path} was not noticed"
    assert found or kind in HARMLESS


@pytest.mark.parametrize("kind", KINDS)
def test_a_deleted_file_is_named_or_not_missed(world, kind):
    disk, model = world
    for path in files_of(disk)[kind]:
        damaged = disk.after_kill()
        damaged.remove(path)
        got = outcome(damaged, model)
        if isinstance(got, CorruptFile):
            assert got.path == path
        else:
            assert kind in HARMLESS, f"nobody missed {path}"
            assert got == all_of(model)


def test_without_its_newest_snapshot_the_log_replays_from_the_one_before(world):
    disk, model = world
    newest = files_of(disk)["snapshot"][-1]
    damaged = disk.after_kill()
    damaged.change(newest, flipped(50))
    hand = opened(damaged)
    assert model.held_by(hand.replayed) == model.acked
    assert newest in hand.log.warnings[0]


def test_without_any_good_snapshot_the_log_does_not_open(world):
    disk, _ = world
    damaged = disk.after_kill()
    for path in files_of(disk)["snapshot"]:
        damaged.change(path, flipped(50))
    with pytest.raises(CorruptFile, match="snapshot"):
        opened(damaged)


def test_a_folder_without_its_manifest_is_not_a_new_one(world):
    disk, _ = world
    damaged = disk.after_kill()
    damaged.remove(f"{FOLDER}/MANIFEST")
    with pytest.raises(CorruptFile, match="manifest is missing"):
        opened(damaged)


# --- a manifest that is missing, and one that is left beside it ----------------------------------


def contents_of(manifest: Manifest) -> bytes:
    disk = MemoryDisk(FOLDER)
    write_manifest(disk, FOLDER, manifest)
    return bytes(disk.seen.files[disk.seen.names[f"{FOLDER}/MANIFEST"]])


FIRST = contents_of(Manifest(log_id="x" * 22, next_file_id=1))
LATER = contents_of(Manifest(log_id="x" * 22, next_file_id=2, journals=(JournalEntry(1, capacity=4096),)))


def only_left(new: bytes, *folders: str) -> MemoryDisk:
    """A folder in which everything is gone but LOCK and MANIFEST.new, and perhaps empty folders."""
    disk = MemoryDisk(FOLDER)
    for name in folders:
        disk.make_folder(f"{FOLDER}/{name}")
    disk.open(f"{FOLDER}/LOCK", create=True)
    disk.open(f"{FOLDER}/MANIFEST.new", create=True).pwritev([new], 0)
    return disk


@pytest.mark.parametrize("folders", [(), ("files",), ("snapshots",)])
@pytest.mark.parametrize("new", [b"", FIRST[:100], FIRST, LATER, bytes(SPARE_BYTES)])
def test_a_next_manifest_without_both_folders_is_of_a_former_log(new, folders):
    with pytest.raises(CorruptFile, match=r"the manifest is missing but MANIFEST.new is of a former log"):
        opened(only_left(new, *folders))


@pytest.mark.parametrize("new", [LATER, bytes(SPARE_BYTES), LATER + bytes(SPARE_BYTES - len(LATER))])
def test_a_next_manifest_that_no_first_start_writes_is_of_a_former_log(new):
    with pytest.raises(CorruptFile, match=r"the manifest is missing but MANIFEST.new is of a former log"):
        opened(only_left(new, "files", "snapshots"))


def test_a_first_start_that_was_cut_short_is_begun_again():
    begun = MemoryDisk(FOLDER)
    LogByHand(begun, FOLDER, OPTIONS)
    disk, chance = MemoryDisk(FOLDER), random.Random(1)
    left_alone = set()
    for recorded in begun.tape:
        disk.play(recorded)
        for left in (disk.after_kill(), *map(disk.after_power_cut, kept_after_a_cut(disk.pending, chance))):
            names = left.seen.names
            if f"{FOLDER}/MANIFEST.new" in names and f"{FOLDER}/MANIFEST" not in names:
                left_alone.add(bytes(left.seen.files[names[f"{FOLDER}/MANIFEST.new"]]))
            assert LogByHand(left, FOLDER, OPTIONS).replayed == []
    assert len(left_alone) > 2  # nothing, part and all of it
    assert max(map(len, left_alone)) < FIRST_BYTES


@pytest.mark.parametrize("kind", ["prepared", "spare"])
def test_a_log_goes_on_into_what_was_damaged_ahead_of_it_if_it_opens(world, kind):
    disk, model = world
    (path,) = files_of(disk)[kind]
    data = bytes(disk.seen.files[disk.seen.names[path]])
    for what, at, edit in list(damages(len(data), len(data)))[:: 20 if kind == "spare" else 10]:
        damaged = disk.after_kill()
        damaged.change(path, edit)
        ours = LogModel()
        ours.units, ours.acked = list(model.units), model.acked
        try:
            log = ModelledLog(damaged, FOLDER, OPTIONS, ours)
        except CorruptFile:  # the test of damage looks at what it says
            continue
        for _ in range(4):
            log.append_batch(1, value_bytes=1500)
            log.turn()
        assert not log.hand.failures, f"{what} at {at}"
        assert len(log.log.sealed) > len(opened(disk).log.sealed), "it never came to the next file"
        ModelledLog(damaged.after_power_cut(), FOLDER, OPTIONS, ours)


def test_a_torn_last_round_is_cut_off(world):
    disk, model = world
    (path,) = files_of(disk)["active"]
    data = bytes(disk.seen.files[disk.seen.names[path]])
    for at in range(last_round(data), frames_end(data)):
        damaged = disk.after_kill()
        damaged.change(path, flipped(at))
        held, reads = contents(damaged, model)
        assert model.acked - 2 <= held <= model.acked
        assert reads == model.reads(held)


def test_a_zeroed_block_with_later_rounds_behind_it_is_damage():
    disk = MemoryDisk(FOLDER)
    log = ModelledLog(disk, FOLDER, OPTIONS)
    for _ in range(3):
        log.append_batch(1, value_bytes=700)
        log.turn()
    (path,) = files_of(disk)["active"]
    disk.change(path, zeroed(512))
    with pytest.raises(CorruptFile, match="says it was on disk") as raised:
        opened(disk)
    assert raised.value.path == path
    assert raised.value.position < 512


def test_a_file_of_a_later_format_is_refused_with_its_version(world):
    disk, _ = world
    for kind, paths in files_of(disk).items():
        if kind == "spare":  # it is not read
            continue
        damaged = disk.after_kill()
        damaged.change(paths[-1], of_format_99)
        with pytest.raises(FormatTooNew, match=f"{paths[-1]} has format 99"):
            opened(damaged)


def of_format_99(data: bytearray) -> None:
    data[8:10] = (99).to_bytes(2, "big")
    data[28:32] = crc32c(bytes(data[:28])).to_bytes(4, "big")
