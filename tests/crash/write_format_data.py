"""Writes a small data folder with every kind of file, for later versions to open:

    python tests/crash/write_format_data.py tests/crash/data/NAME

Run it when the format gets a new version, with a new NAME; folders that are there already stay as they are.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from test_corruption import FOLDER, build, contents


def main(target: Path) -> None:
    disk, model = build()
    held, reads = contents(disk, model)
    assert held == model.acked
    for path, inode in sorted(disk.seen.names.items()):
        if not path.endswith(".new"):
            place = target / path.removeprefix(f"{FOLDER}/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(disk.seen.files[inode])
    events = [event for unit in model.units for event in unit.replayed if event[0] == "delta"]
    expected = {
        "partitions": {
            str(partition): [hashlib.sha256(batch).hexdigest() for batch in batches]
            for partition, batches in sorted(reads.items())
        },
        "deltas": [[section, payload.hex()] for _, section, payload in events],
    }
    (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
