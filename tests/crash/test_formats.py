"""Logs that earlier versions wrote can be opened, read and written on. See write_format_data.py."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from mainstem.kernel.log.disk import OsDisk
from mainstem.kernel.log.layout import VERSION
from mainstem.kernel.log.log import LogOptions
from mainstem.kernel.log.manifest import written_version
from mainstem.model.records import Record, encode_batch
from mainstem.testing.log_by_hand import LogByHand

DATA = Path(__file__).parent / "data"
OPTIONS = LogOptions(file_bytes=4096, file_frames=1000, reserve_bytes=512)
SNAPSHOT_SECTION = 9999
EVERYTHING = 1 << 60


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.iterdir() if path.is_dir()))
def test_folders_written_by_earlier_versions_open(name, tmp_path):
    folder = tmp_path / name
    shutil.copytree(DATA / name, folder)
    expected = json.loads((folder / "expected.json").read_text())
    for _ in range(2):  # the second time, as this version left it
        hand = LogByHand(OsDisk(), str(folder), OPTIONS)
        assert hand.log.warnings == []
        for partition, digests in expected["partitions"].items():
            batches = hand.log.read(int(partition), 0, EVERYTHING, EVERYTHING, wait=True)
            assert [hashlib.sha256(batch).hexdigest() for batch in batches] == digests
        deltas = [[event[1], event[2].hex()] for event in hand.replayed if event[0] == "delta"]
        assert deltas[0][0] == SNAPSHOT_SECTION
        assert deltas[1:] == expected["deltas"][-len(deltas) + 1 :]
        assert written_version(OsDisk(), str(folder)) == VERSION  # so that no earlier one opens it any more
        hand.log.append_delta(3, b"written by this version", None)
        base = len(expected["partitions"].get("77", ()))
        batch = encode_batch([Record(0, 1, None, b"v" * 3000)], base_offset=base)
        hand.log.append_batch(77, batch, base, base, 1, None)
        hand.turn()
        hand.close()
        expected["partitions"].setdefault("77", []).append(hashlib.sha256(batch).hexdigest())
        expected["deltas"].append([3, b"written by this version".hex()])
        assert not hand.failures
