"""The log as its owner sees it: rounds, rolls, atomic frames, recovery, look-up by time."""

from __future__ import annotations

import queue
import threading

import pytest

from mainstem.kernel.log import journal
from mainstem.kernel.log.disk import OsDisk
from mainstem.kernel.log.entries import DeltaEntry
from mainstem.kernel.log.journal import Append
from mainstem.kernel.log.layout import FILE_HEAD, MAX_ATOMIC_BYTES, FrameKind, frame_head, journal_name
from mainstem.kernel.log.log import Log, LogOptions
from mainstem.kernel.log.manifest import read_manifest
from mainstem.kernel.log.scan import WINDOW_BYTES
from mainstem.kernel.log.sound import LARGE_SLICE
from mainstem.model.batch import read_header
from mainstem.model.errors import CorruptFile, DataFolderLocked, FormatTooNew, RequestTooLarge
from mainstem.model.records import Record, encode_batch
from mainstem.model.slices import FileSlice
from mainstem.testing.log_by_hand import LogByHand, Replays
from mainstem.testing.log_model import EVERYTHING, ModelledLog
from mainstem.testing.memory_disk import MemoryDisk, MemoryFile, Write

FOLDER = "/data"
OPTIONS = LogOptions(file_bytes=4096, file_frames=1000, reserve_bytes=512)


def new_log(options: LogOptions = OPTIONS) -> tuple[MemoryDisk, ModelledLog]:
    disk = MemoryDisk(FOLDER)
    return disk, ModelledLog(disk, FOLDER, options)


def journal_writes(disk: MemoryDisk) -> list[Write]:
    return [op for op in disk.tape if isinstance(op, Write) and b"~ROUND~" in op.data]


# --- rounds ------------------------------------------------------------------------------------


def test_what_is_pending_is_one_round_with_one_write():
    disk, log = new_log()
    for number in range(5):
        log.append_delta(1, b"%d" % number)
    before = len(disk.tape)
    log.log.run_pending()
    assert len(journal_writes(disk)) == 1
    assert len([op for op in disk.tape[before:] if not hasattr(op, "value")]) == 2  # the write and its sync


def test_what_was_told_early_is_on_disk_with_the_next_durable_round():
    disk, log = new_log()
    early = encode_batch([Record(0, 1, None, b"early")], base_offset=0)
    log.log.append_batch(1, early, 0, 0, 1, None, early=True)
    log.log.run_pending()
    durable = encode_batch([Record(0, 1, None, b"durable")], base_offset=1)
    log.log.append_batch(1, durable, 1, 1, 1, None)
    log.log.run_pending()
    found = LogByHand(disk.after_power_cut(), FOLDER, OPTIONS).log.read(1, 0, EVERYTHING, EVERYTHING)
    assert [bytes(batch) for batch in found] == [bytes(early), bytes(durable)]


def test_nothing_is_read_before_it_is_on_disk():
    _, log = new_log()
    log.append_batch(1)
    assert log.log.read(1, 0, EVERYTHING, EVERYTHING) == []
    log.turn()
    assert len(log.log.read(1, 0, EVERYTHING, EVERYTHING)) == 1


def test_the_synced_position_is_that_of_the_round_that_was_told_not_of_a_later_one():
    """The writer may be rounds ahead of its owner; a snapshot must not cover what the owner has not seen."""
    disk = MemoryDisk(FOLDER)
    posted = []
    log = LogByHand(disk, FOLDER, OPTIONS).log
    log._writer._post = lambda function, done: posted.append((function, done))
    ends = []
    for number in range(3):
        log.append_delta(1, b"%d" % number, None)
        log.run_pending()
        ends.append(log._writer._active.position)
    for (function, done), end in zip(posted, ends, strict=True):
        function(done)
        assert log.synced == (1, end)


def test_a_snapshot_begun_while_a_round_is_told_covers_only_the_rounds_before():
    _, log = new_log()
    before = log.log.synced
    seen = []
    log.log.append_delta(1, b"x", lambda append: seen.append(log.log.new_snapshot()[1]))
    log.log.run_pending()
    assert (seen[0].file_id, seen[0].position) == before


# --- files -------------------------------------------------------------------------------------


def test_a_full_file_is_sealed_and_the_next_one_goes_on():
    disk, log = new_log()
    for _ in range(12):
        log.append_batch(1, value_bytes=1000)
        log.turn()
    manifest = read_manifest(disk, FOLDER)
    assert [bool(entry.size) for entry in manifest.journals] == [True, True, False, False]
    assert len(log.log.sealed) == 2
    log.check_reads()
    ModelledLog(disk.after_power_cut(), FOLDER, OPTIONS, log.model)


def test_a_file_is_sealed_by_its_number_of_frames_only_if_the_next_is_ready():
    options = LogOptions(file_bytes=1 << 20, file_frames=5)
    _, log = new_log(options)
    for number in range(10):
        log.append_delta(1, b"%d" % number)
        log.log.run_pending()
    assert log.log.sealed == ()
    log.log.prepare()
    log.turn()
    for number in range(10):
        log.append_delta(1, b"%d" % number)
        log.turn()
    assert len(log.log.sealed) >= 2


def test_a_round_larger_than_a_file_has_a_file_that_grows():
    disk, log = new_log()
    log.append_batch(1, value_bytes=20_000)
    log.append_batch(2, value_bytes=10)
    log.turn()
    log.append_batch(1, value_bytes=10)
    log.turn()
    assert not log.hand.failures
    ModelledLog(disk.after_power_cut(), FOLDER, OPTIONS, log.model)


def test_a_prepared_file_is_adopted_and_used_by_the_next_start():
    disk, log = new_log()
    log.append_batch(1, value_bytes=1000)
    log.log.prepare()
    log.turn()
    again = ModelledLog(disk.after_power_cut(), FOLDER, OPTIONS, log.model)
    assert again.log.files.next_capacity == 4096
    for _ in range(5):
        again.append_batch(1, value_bytes=1000)
        again.turn()
    assert [places.file_id for places in again.log.sealed] == [1]
    assert again.log.active_table.file_id == 2


def test_a_file_that_was_full_is_opened_with_smaller_files_configured():
    disk, log = new_log()
    for _ in range(3):
        log.append_batch(1, value_bytes=1000)
        log.turn()
    small = LogOptions(file_bytes=1024, file_frames=1000, reserve_bytes=256)
    again = ModelledLog(disk.after_power_cut(), FOLDER, small, log.model)
    for _ in range(3):
        again.append_batch(1, value_bytes=500)
        again.turn()
    assert not again.hand.failures


def test_frames_in_a_file_behind_one_that_is_not_finished_are_damage():
    disk, log = new_log()
    log.log.prepare()
    for _ in range(6):
        log.append_batch(1, value_bytes=1000)
        log.log.run_pending()
    assert log.log.sealed
    first = f"{FOLDER}/files/0000000001.journal"

    def unseal(data: bytearray) -> None:
        end = len(data.rstrip(b"\0"))
        data[end - 40 :] = bytes(len(data) - end + 40)

    disk.change(first, unseal)
    as_it_was = disk.open(first).pread(4096, 0)
    with pytest.raises(CorruptFile, match="goes on behind it"):
        LogByHand(disk, FOLDER, OPTIONS)
    assert disk.open(first).pread(4096, 0) == as_it_was


def test_a_kind_of_frame_from_the_future_is_refused():
    disk, _ = new_log()
    path = f"{FOLDER}/files/0000000001.journal"
    frame = frame_head(1, FILE_HEAD.size, 200, 0, b"from the future") + b"from the future"
    disk.open(path).pwritev([frame], FILE_HEAD.size)
    with pytest.raises(FormatTooNew, match="kind 200"):
        LogByHand(disk, FOLDER, OPTIONS)


# --- atomic frames -----------------------------------------------------------------------------


def test_an_atomic_frame_is_there_as_a_whole_or_not_at_all():
    disk, log = new_log()
    log.append_atomic([1, 2, 3], b"delta")
    log.turn()
    (write,) = journal_writes(disk)
    for size in range(len(write.data.rstrip(b"\0"))):  # the file behind it is zeros already
        cut = MemoryDisk(FOLDER)
        for recorded in disk.tape[: disk.tape.index(write)]:
            cut.play(recorded)
        part = Write(write.inode, write.position, write.data[:size])
        assert LogByHand(cut.after_power_cut([part]), FOLDER, OPTIONS).replayed == []


def test_an_atomic_frame_larger_than_a_window_of_recovery_is_all_or_none_too():
    options = LogOptions(file_bytes=32 << 20, file_frames=1000, reserve_bytes=512)
    disk, log = new_log(options)
    payloads = [bytes([number + 1]) * (1 << 20) for number in range(2 * WINDOW_BYTES >> 20)]
    log.log.append_atomic([DeltaEntry(1, payload) for payload in payloads], None)
    log.log.run_pending()
    (write,) = journal_writes(disk)
    for size in (len(payloads[0]), len(write.data) // 2, len(write.data) - 1):
        cut = MemoryDisk(FOLDER)
        for recorded in disk.tape[: disk.tape.index(write)]:
            cut.play(recorded)
        part = Write(write.inode, write.position, write.data[:size].rstrip(b"\0"))
        assert LogByHand(cut.after_power_cut([part]), FOLDER, options).replayed == []
    found = LogByHand(disk.after_power_cut(), FOLDER, options).replayed
    assert [payload for _, _, payload in found] == payloads


def test_an_atomic_frame_above_the_limit_is_refused():
    _, log = new_log()
    with pytest.raises(RequestTooLarge):
        log.log.append_atomic([DeltaEntry(1, bytes(MAX_ATOMIC_BYTES))], None)


# --- time --------------------------------------------------------------------------------------


def test_the_first_batch_at_or_after_a_time_is_exact_across_files_with_unsorted_times():
    _, log = new_log()
    times = [50, 10, 70, 20, 60, 90, 5, 80]
    for offset, timestamp_ms in enumerate(times):
        batch = encode_batch([Record(0, timestamp_ms, None, b"v" * 1000)], base_offset=offset)
        log.log.append_batch(1, batch, offset, offset, timestamp_ms, None)
        log.turn()
    assert log.log.sealed
    for timestamp_ms in range(0, 100, 5):
        place = log.log.first_at_or_after(1, timestamp_ms)
        expected = next((at for at, ms in enumerate(times) if ms >= timestamp_ms), None)
        assert (place.base if place else None) == expected
    assert log.log.max_timestamp_ms(1) == 90
    assert log.log.max_timestamp_ms(2) is None


def test_a_read_stops_below_the_offset_that_may_be_seen():
    _, log = new_log()
    for _ in range(6):
        log.append_batch(1, records=2, value_bytes=700)
        log.turn()
    found = log.log.read(1, 3, EVERYTHING, upto=8)
    assert [read_header(batch).base_offset for batch in found] == [2, 4, 6]


@pytest.mark.parametrize("max_bytes", [1, 1000, 1200, 2500, 5000, 9000])
def test_a_read_is_no_more_than_asked_for_unless_its_first_batch_is(max_bytes):
    """Across files too: these batches fill several."""
    _, log = new_log()
    sizes = [100, 1000, 100, 2000, 100, 1000, 2000, 100]
    for size in sizes:
        log.append_batch(1, value_bytes=size)
        log.turn()
    for offset in range(len(sizes)):
        found = log.log.read(1, offset, max_bytes, EVERYTHING, wait=True)
        follow = log.log.read(1, offset, EVERYTHING, EVERYTHING, wait=True)
        assert len(found) == 1 or sum(map(len, found)) <= max_bytes
        assert len(found) == len(follow) or sum(map(len, follow[: len(found) + 1])) > max_bytes


# --- with threads and a real disk --------------------------------------------------------------


def open_on_disk(folder, replay, posted, failures, cached_bytes=1 << 30) -> Log:
    options = LogOptions(file_bytes=64 << 10, file_frames=1000, cached_bytes=cached_bytes)
    OsDisk().make_folder(str(folder))
    return Log.open(
        OsDisk(),
        str(folder),
        options,
        replay,
        lambda function, done: posted.put((function, done)),
        failures.append,
        lambda: "log",
    )


def test_the_writers_own_thread_tells_everyone_in_order_and_close_leaves_nothing_behind(tmp_path):
    posted: queue.SimpleQueue = queue.SimpleQueue()
    failures: list[BaseException] = []
    log = open_on_disk(tmp_path / "a" / "b", Replays(), posted, failures)
    log.start()
    told: list[bytes] = []

    def done(append: Append) -> None:
        told.append(bytes(append.payload))

    sent = [b"%d" % number * 50 for number in range(2000)]
    for payload in sent:
        log.append_delta(1, payload, done)
        while not posted.empty():
            function, round_ = posted.get()
            function(round_)
    log.close()
    while not posted.empty():
        function, round_ = posted.get()
        function(round_)
    assert told == sent
    assert not failures
    replays = Replays()
    open_on_disk(tmp_path / "a" / "b", replays, posted, failures)
    assert [event[2] for event in replays.events] == sent


def test_readers_on_other_threads_see_a_growing_log_without_gaps(tmp_path):
    posted: queue.SimpleQueue = queue.SimpleQueue()
    failures: list[BaseException] = []
    log = open_on_disk(tmp_path / "data", Replays(), posted, failures)
    log.start()
    wrong: list[object] = []
    over = threading.Event()

    def read_all() -> None:
        while not over.is_set():
            bases = [
                read_header(batch).base_offset for batch in log.read(1, 0, EVERYTHING, EVERYTHING, wait=True)
            ]
            if bases != list(range(len(bases))):
                wrong.append(bases)

    readers = [threading.Thread(target=read_all) for _ in range(2)]
    for reader in readers:
        reader.start()
    for offset in range(250):
        batch = encode_batch([Record(0, offset, None, b"v" * 800)], base_offset=offset)
        log.append_batch(1, batch, offset, offset, offset, None)
        function, round_ = posted.get()
        function(round_)
    over.set()
    for reader in readers:
        reader.join()
    log.close()
    assert not wrong
    assert not failures
    assert len(log.sealed) > 1


def test_only_the_newest_files_stay_in_the_page_cache(tmp_path):
    posted: queue.SimpleQueue = queue.SimpleQueue()
    log = open_on_disk(tmp_path / "data", Replays(), posted, [], cached_bytes=200 << 10)
    log.start()
    for offset in range(500):
        batch = encode_batch([Record(0, offset, None, b"v" * 800)], base_offset=offset)
        log.append_batch(1, batch, offset, offset, offset, None)
        while log.settled <= offset:
            function, argument = posted.get()
            function(argument)
    log.background(lambda: None).result()
    cached = [
        OsDisk().open(log.files.path(journal_name(places.file_id))).pread_cached(100, 0) is not None
        for places in log.sealed
    ]
    log.close()
    assert len(cached) > 5
    newest = sum(cached)
    assert cached == [False] * (len(cached) - newest) + [True] * newest
    assert 1 <= newest <= len(cached) // 2


def test_what_was_checked_before_its_pages_left_memory_is_checked_again(monkeypatch):
    options = LogOptions(file_bytes=1 << 20, file_frames=1000, reserve_bytes=512, cached_bytes=0, lag_bytes=0)
    _, modelled = new_log(options)
    log, posted, left = modelled.log, [], []
    monkeypatch.setattr(log, "_post", lambda *call: posted.append((len(left), *call)))

    def is_believed() -> bool:
        (chunk,), _ = log.chunks(1, 0, 1, EVERYTHING)  # where it is not, this checks it
        return isinstance(chunk, FileSlice)

    # As late as can be: a consumer's read still finds the pages, and then they go.
    monkeypatch.setattr(MemoryFile, "uncache", lambda *_: left.append(is_believed()))
    modelled.append_batch(1, value_bytes=2 * LARGE_SLICE)
    log.run_pending()
    assert is_believed()  # written by this process
    while not log.sealed:
        modelled.append_batch(2, value_bytes=100 << 10)
        log.run_pending()
    modelled.hand.housekeeper.run()
    assert left[:2] == [False, True]
    assert [steps for steps, *_ in posted] == list(range(1, len(left) + 1))  # each after its step
    assert not modelled.hand.failures
    assert is_believed()  # the owner has not heard of it yet
    for _, function, argument in posted:
        function(argument)
    assert not is_believed()


def test_the_first_file_is_left_once_the_next_one_is_filled_if_that_is_not_smaller(monkeypatch):
    monkeypatch.setattr(journal, "WORTH_LEAVING_BYTES", 1000)
    disk, log = new_log()
    log.log.prepare()
    log.append_batch(1)
    log.turn()
    assert len(log.log.sealed) == 0
    assert log.log.files.next_filled
    log.append_batch(1)
    log.turn()
    assert len(log.log.sealed) == 1
    log.append_batch(1)
    log.turn()
    assert len(log.log.sealed) == 1, "a filled file is worth staying in"
    log.hand.close()
    # Larger files from now on: the one in use grows, and the one that was prepared is small.
    larger = ModelledLog(
        disk, FOLDER, LogOptions(file_bytes=8192, file_frames=1000, reserve_bytes=512), log.model
    )
    for _ in range(3):
        larger.log.prepare()
        larger.append_batch(1)
        larger.turn()
    assert larger.log.files.next_filled
    assert larger.log.files.next_capacity == 4096
    assert len(larger.log.sealed) == 1


def test_a_file_is_taken_for_writing_under_the_lock_that_filling_holds(tmp_path):
    """Or zeros might be written over rounds that were acknowledged."""
    log = open_on_disk(tmp_path / "data", Replays(), queue.SimpleQueue(), [])
    files = log.files
    files.prepare_next(zero=False)
    taken: list[object] = []
    files._preparing.acquire()
    writer = threading.Thread(target=lambda: taken.append(files.take_next()))
    writer.start()
    writer.join(0.05)
    assert not taken
    files._preparing.release()
    writer.join()
    assert len(taken) == 1
    assert files.next_capacity == 0
    log.close()


def test_a_data_folder_has_one_holder(tmp_path):
    held = OsDisk().lock(str(tmp_path / "LOCK"))
    with pytest.raises(DataFolderLocked, match="in use by process"):
        OsDisk().lock(str(tmp_path / "LOCK"))
    del held
    OsDisk().lock(str(tmp_path / "LOCK"))


def test_frame_kinds_keep_their_numbers():
    """They are on disk."""
    numbers = {kind.name: int(kind) for kind in FrameKind}
    assert numbers["ROUND"] == 1
    assert [numbers[name] for name in ("BATCH", "BODY", "LINK", "DELTA", "ATOMIC", "SEAL")] == list(
        range(2, 8)
    )


# --- files that are finished before they are full ----------------------------------------------


def ready_for_the_next_file(options: LogOptions = OPTIONS) -> tuple[MemoryDisk, ModelledLog]:
    disk, log = new_log(options)
    log.log.prepare()
    log.hand.housekeeper.run()
    return disk, log


def test_a_file_is_finished_without_anything_more_to_write():
    disk, log = ready_for_the_next_file()
    log.append_batch(1, value_bytes=100)
    log.turn()
    assert log.log.finish_file()
    log.turn()
    finished, *others = log.log.files.manifest.journals
    assert finished.size > 0
    assert not any(entry.size for entry in others)
    assert log.log.synced[0] == 2
    log.check_reads()
    again = ModelledLog(disk.after_power_cut(), FOLDER, OPTIONS, log.model)
    again.check_reads()
    assert again.log.synced[0] == 2


def test_a_file_with_nothing_in_it_is_not_finished():
    _, log = ready_for_the_next_file()
    assert not log.log.finish_file()
    log.append_batch(1, value_bytes=100)
    log.turn()
    log.log.finish_file()
    log.turn()
    log.log.prepare()
    log.hand.housekeeper.run()
    for _ in range(3):
        assert not log.log.finish_file()
        log.turn()
    assert log.log.synced[0] == 2


def test_a_file_is_not_finished_while_no_other_is_ready():
    _, log = new_log()
    log.append_batch(1, value_bytes=100)
    log.turn()
    log.log.files._ready.clear()
    log.log.finish_file()
    log.log.run_pending()
    assert log.log.synced[0] == 1
    log.append_batch(1, value_bytes=100)
    log.turn()
    log.check_reads()


def test_a_writer_that_sleeps_finishes_its_file_when_told_to(tmp_path):
    done = queue.SimpleQueue()
    folder = str(tmp_path)
    log = Log.open(
        OsDisk(),
        folder,
        LogOptions(file_bytes=1 << 20, reserve_bytes=1024),
        Replays(),
        lambda function, argument: done.put((function, argument)),
        lambda error: done.put((print, error)),
        lambda: "id",
    )
    log.start()

    def until(reached) -> None:
        while not reached():
            function, argument = done.get(timeout=10)
            function(argument)

    log.append_delta(1, b"x", None)
    until(lambda: log.settled == 1)
    while not log.files.next_capacity:
        log._preparing.result(10)
    assert log.finish_file()
    until(lambda: log.synced[0] == 2)
    log.append_delta(1, b"y", None)
    until(lambda: log.settled == 2)
    assert log.synced[0] == 2
    log.close()
