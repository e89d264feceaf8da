from __future__ import annotations

import os

import pytest
from merge_house import LOG_OPTIONS, House, OsDisk, records

from mainstem.kernel.log.jobs import MergeJob
from mainstem.kernel.log.plan import UpkeepOptions
from mainstem.kernel.log.sidecar import Sidecar
from mainstem.kernel.log.verify import verify
from mainstem.model.errors import InvalidRequest
from mainstem.model.records import encode_batch


@pytest.fixture
def house(tmp_path):
    """A folder with every kind of file: snapshots, a run, journals with and without sidecar, links."""
    found = House(str(tmp_path / "data"))
    body = found.append(1, count=3)
    for at in range(30):
        found.append(at % 4, count=2)
    found.fan_out([5, 6])
    found.settle()
    found.link(2, body, first=1)
    found.work()
    found.roll()
    found.work(1)
    found.roll()
    found.atomic(3)
    return found


def test_a_sound_folder_is_reported_file_by_file(house):
    seen = []
    report = verify(OsDisk(), house.folder, lambda done, total: seen.append((done, total)))
    assert report.ok, report.damage
    kinds = {file.kind for file in report.files}
    assert kinds == {"manifest", "snapshot", "run", "journal"}
    run = next(file for file in report.files if file.kind == "run")
    assert run.batches >= 31
    assert run.frames > 3
    assert seen[-1][0] == seen[-1][1]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_folder_without_a_log_is_an_error(tmp_path):
    with pytest.raises(InvalidRequest, match="no log"):
        verify(OsDisk(), str(tmp_path))


def test_every_flipped_byte_of_a_finished_file_or_snapshot_is_found(house):
    manifest = house.log.files.manifest
    files = [f"files/{run.file_id:010d}.run" for run in manifest.runs]
    files += [f"files/{entry.file_id:010d}.journal" for entry in manifest.journals if entry.size]
    files += [f"files/{run.file_id:010d}.places" for run in manifest.runs]
    files += [f"snapshots/{entry.number:010d}.state" for entry in manifest.snapshots]
    files.append("MANIFEST")
    for name in files:
        path = f"{house.folder}/{name}"
        with open(path, "rb") as file:
            good = file.read()
        for at in range(0, len(good), max(1, len(good) // 23)):
            with open(path, "r+b") as file:
                file.seek(at)
                file.write(bytes([good[at] ^ 0x10]))
            report = verify(OsDisk(), house.folder)
            assert not report.ok, (name, at)
            assert os.path.basename(name) in report.damage, (name, at, report.damage)
            with open(path, "r+b") as file:
                file.seek(at)
                file.write(good[at : at + 1])
    assert verify(OsDisk(), house.folder).ok


def test_a_missing_or_short_file_is_named(house):
    run = house.log.files.manifest.runs[0]
    path = f"{house.folder}/files/{run.file_id:010d}.run"
    os.truncate(path, run.size - 1)
    assert "should have" in verify(OsDisk(), house.folder).damage
    os.unlink(path)
    assert "missing" in verify(OsDisk(), house.folder).damage


def test_a_link_to_a_body_of_its_own_file_is_no_damage(tmp_path):
    house = House(str(tmp_path / "data"), UpkeepOptions(merge_after_ms=1 << 60))
    body = house.append(1, count=2)
    house.link(2, body)
    house.settle()
    house.plan()
    house.plan()
    (sidecar,) = [places for places in house.log.sealed if isinstance(places, Sidecar)]
    assert sidecar.links == []
    assert verify(OsDisk(), house.folder).damage is None


def test_a_link_that_went_to_the_next_file_is_no_damage_in_the_file_before(tmp_path):
    house = House(str(tmp_path / "data"), UpkeepOptions(merge_after_ms=1 << 60))
    body = house.append(1, count=2)
    house.settle()
    before = house.log.synced[0]
    while house.log.synced[1] < LOG_OPTIONS.file_bytes - 3000:
        house.append(3, size=1000)
    large = bytes(encode_batch(records(1, "large", 4000)))
    house.log.append_batch(4, large, 0, 0, 1000, None)
    house.link(2, body)
    assert house.log.synced[0] != before
    house.plan()
    house.plan()
    (sidecar,) = [places for places in house.log.sealed if places.file_id == before]
    assert isinstance(sidecar, Sidecar)
    assert sidecar.links == [body]
    assert verify(OsDisk(), house.folder).damage is None


def test_a_dead_link_in_a_retired_file_is_no_damage(tmp_path):
    options = UpkeepOptions(merge_after_ms=0, sealed_here_rows=0, survey_every_ms=1 << 60)
    house = House(str(tmp_path / "data"), options)
    first = house.append(1, count=2)
    house.settle()
    house.link(2, first)
    second = house.append(3, count=2)
    house.settle()
    while not isinstance(house.plan(), MergeJob):
        house.runner.work()
    house.link(4, second)
    house.runner.work()
    assert [entry.file_id for entry in house.log.files.manifest.retired] == [second[0]]
    house.check()
    assert verify(OsDisk(), house.folder).damage is None
