from __future__ import annotations

import os

import pytest
from merge_house import LOG_OPTIONS, House, Nothing, NowExecutor, OsDisk, fail, post, records

from mainstem.kernel.log.backup import Backup, restore
from mainstem.kernel.log.log import Log, LogOptions
from mainstem.kernel.log.recover import recover
from mainstem.kernel.log.verify import verify
from mainstem.model.errors import InvalidRequest, StorageError
from mainstem.model.records import encode_batch
from mainstem.testing.log_by_hand import LogByHand


class NoLinks(OsDisk):
    """A disk whose target is another file system."""

    def link(self, old: str, new: str) -> None:
        raise OSError(18, "Invalid cross-device link")


@pytest.fixture
def house(tmp_path):
    found = House(str(tmp_path / "data"))
    body = found.append(1, count=3)
    for at in range(30):
        found.append(at % 4, count=2)
    found.settle()
    found.link(2, body, first=1)
    found.work()
    found.roll()
    found.append(1)
    return found


def reads_as(house: House, folder: str) -> None:
    """A log recovered from the folder has exactly what the model has."""
    recovered = recover(OsDisk(), folder, LOG_OPTIONS.file_bytes, Nothing(), lambda: "new")
    log, house.log = house.log, Log(recovered, LOG_OPTIONS, post, fail, NowExecutor())
    house.check()
    house.log = log


@pytest.mark.parametrize("disk", [OsDisk(), NoLinks()])
def test_a_backup_recovers_to_what_was_there_when_it_began(house, tmp_path, disk):
    target = str(tmp_path / "copy")
    seen = []
    backup = Backup(house.log, disk)
    backup.run(target, lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 0
    assert verify(OsDisk(), target).ok
    reads_as(house, target)


def test_a_file_may_be_cut_while_it_is_copied(house, tmp_path, monkeypatch):
    """It was finished just before the backup began, and the space behind its end is given back meanwhile."""
    files, late = house.log.files, []
    cut = files._cut
    monkeypatch.setattr(files, "_cut", lambda *file: late.append(file))
    house.roll()
    house.append(1)
    assert late
    backup = Backup(house.log, NoLinks())

    def cut_now(done: int, total: int) -> None:
        while late:
            cut(*late.pop())

    backup.run(str(tmp_path / "copy"), cut_now)
    assert not late
    assert verify(OsDisk(), str(tmp_path / "copy")).ok
    reads_as(house, str(tmp_path / "copy"))


def test_merges_snapshots_and_rolls_during_a_backup_do_not_disturb_it(house, tmp_path):
    target = str(tmp_path / "copy")
    backup = Backup(house.log, NoLinks())
    before = {partition: list(batches) for partition, batches in house.model.items()}
    ends = dict(house.ends)
    house.append(1)
    house.settle()
    house.work()
    after, house.model = house.model, before
    now, house.ends = house.ends, ends
    backup.run(target)
    reads_as(house, target)
    house.model, house.ends = after, now
    house.check()
    kept = {entry.file_id for entry in (*house.log.files.manifest.journals, *house.log.files.manifest.runs)}
    files = [name for name in os.listdir(f"{house.folder}/files") if not name.endswith(".places")]
    assert {int(name[:10]) for name in files} == kept  # what was pinned is gone now


def test_a_file_that_is_finished_but_not_yet_named_so_is_copied_whole(house, tmp_path, monkeypatch):
    monkeypatch.setattr(house.log.files, "seal", lambda file_id, size: None)
    house.roll()
    house.append(1)
    target = str(tmp_path / "copy")
    Backup(house.log, OsDisk()).run(target)
    reads_as(house, target)


def test_restore_checks_the_backup_and_wants_an_empty_folder(house, tmp_path):
    target, back = str(tmp_path / "copy"), str(tmp_path / "back")
    manifest = Backup(house.log, OsDisk()).run(target)
    with pytest.raises(InvalidRequest, match="not empty"):
        restore(OsDisk(), target, house.folder)
    seen = []
    restore(OsDisk(), target, back, lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    reads_as(house, back)
    run = manifest.runs[0]
    path = f"{target}/files/{run.file_id:010d}.run"
    os.truncate(path, run.size - 5)
    with pytest.raises(StorageError, match="backup is damaged"):
        restore(OsDisk(), target, str(tmp_path / "again"))


def test_a_restored_log_goes_on_without_touching_the_backup(house, tmp_path):
    target, back = str(tmp_path / "copy"), str(tmp_path / "back")
    Backup(house.log, OsDisk()).run(target)
    restore(OsDisk(), target, back)
    restored = House(back)
    restored.model, restored.ends = house.model, house.ends
    restored.append(1)
    restored.settle()
    restored.work()
    restored.check()
    assert verify(OsDisk(), target).ok


@pytest.mark.parametrize("when", ["before it is looked at", "while it is copied"])
def test_a_file_that_is_named_finished_during_a_backup_can_be_restored(tmp_path, when):
    options = LogOptions(file_bytes=64 << 10, reserve_bytes=1 << 10)
    hand = LogByHand(OsDisk(), str(tmp_path / "data"), options)
    hand.log.prepare()
    hand.housekeeper.run()
    for base in range(40):
        batch = bytes(encode_batch(records(1, "x", 2000), base_offset=base))
        hand.log.append_batch(1, batch, base, base, 1000, None)
        hand.log.run_pending()
    end, position = hand.log.synced
    assert end == 2
    assert 40 * 2000 - position < options.file_bytes - 4000  # it has space behind it that was given back
    backup = Backup(hand.log, NoLinks())
    target, back = str(tmp_path / "copy"), str(tmp_path / "back")
    if when == "before it is looked at":
        hand.housekeeper.run()
    backup.run(target, lambda done, total: hand.housekeeper.run())
    assert verify(OsDisk(), target).damage is None
    restore(OsDisk(), target, back)
    assert LogByHand(OsDisk(), back, options).log.next_offset(1) == 40
    assert os.path.getsize(tmp_path / "data/files/0000000001.journal") < options.file_bytes
