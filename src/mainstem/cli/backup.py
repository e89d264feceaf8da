"""`mainstem backup`: copy a broker's data, while it serves or while it is stopped."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import click

from mainstem.cli.door import Door, late_door_options
from mainstem.cli.folders import hold_folder, progress_bytes
from mainstem.cli.groups import examples
from mainstem.cli.output import emit_record, human_bytes, human_ms, json_option, remark
from mainstem.kernel.log.disk import OsDisk
from mainstem.model.errors import BrokerUnreachable, StorageError

ANSWER_S = 300.0  # a broker that copies says how far it is several times a second


@click.command(
    "backup",
    epilog=examples(
        "mainstem backup /backups/monday                        # of the broker at 127.0.0.1:9640",
        "mainstem backup /backups/monday --http 127.0.0.1:9641 --token-file token",
        "mainstem backup /backups/monday --data mainstem-data   # of a broker that is stopped",
        "mainstem restore /backups/monday new-data",
    ),
)
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Copy this folder, which no broker serves, instead of asking one.",
)
@click.option(
    "--verify/--no-verify", "check", default=True, help="Read the copy again and check it. [verify]"
)
@json_option
@late_door_options(ANSWER_S)
def command(
    target: Path, data: Path | None, check: bool, as_json: bool, open_door: Callable[[], Door]
) -> None:
    """Copy everything to the folder TARGET, which must be empty or not there yet.

    A serving broker writes the copy itself, so TARGET is a path on its machine. The copy holds everything
    that was acknowledged when it began, and is a data folder of its own. Finished files are shared with the
    original where both are on one file system (hard links): such a copy is quick and takes no space, and does
    not protect against a broken disk.
    """
    from mainstem.kernel.log.verify import verify

    started_s = time.monotonic()
    folder = Path(os.path.abspath(target))
    if data is not None:
        size = _copy_stopped(data, folder)
    else:
        size = _ask(open_door(), folder)
    checked = check and folder.is_dir()
    if checked:
        with progress_bytes(f"Verifying {folder}") as progress:
            report = verify(OsDisk(), str(folder), progress)
        if report.damage is not None:
            raise StorageError(f"the copy in {folder} is damaged: {report.damage}")
    elif check:
        remark(f"{folder} is not on this machine: verify it there with `mainstem verify`")
    past_ms = round((time.monotonic() - started_s) * 1000)
    if as_json:
        emit_record(
            {"backup": str(folder), "bytes": size, "verified": checked, "took_ms": past_ms}, as_json=True
        )
    else:
        verified = ", verified" if checked else ""
        click.echo(f"{folder}: {human_bytes(size)} in {human_ms(past_ms)}{verified}")


def _copy_stopped(data: Path, target: Path) -> int:
    from mainstem.kernel.log.backup import copy_stopped

    disk, total = OsDisk(), [0]
    instead = "leave --data out: a broker that serves makes the backup itself"
    with hold_folder(data, instead), progress_bytes(f"Copying {data}") as progress:

        def report(done: int, whole: int) -> None:
            total[0] = whole
            progress(done, whole)

        copy_stopped(disk, str(data), str(target), report)
    return total[0]


def _ask(door: Door, target: Path) -> int:
    """Have a serving broker make the copy, and show how far it is; the bytes it holds."""
    try:
        with progress_bytes(f"Copying to {target}") as progress:
            for fact in door.post_rows("/admin/backup", target=str(target)):
                if "error" in fact:
                    raise StorageError(f"{door.url}: {fact['error']}")
                if "ok" in fact:
                    return int(fact["bytes"])
                progress(fact["done"], fact["total"])
    except BrokerUnreachable as error:
        raise BrokerUnreachable(
            f"{error}; a broker that serves without one makes no backup until it is started with "
            "--listen http=HOST:PORT; for one that is stopped use --data"
        ) from None
    raise StorageError(f"{door.url} hung up before the backup was whole")
