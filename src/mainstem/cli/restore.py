"""`mainstem restore`: make a data folder from a backup."""

from __future__ import annotations

from pathlib import Path

import click

from mainstem.cli.folders import hold_folder, progress_bytes
from mainstem.cli.groups import examples
from mainstem.cli.output import emit_record, json_option, remark
from mainstem.kernel.log.disk import OsDisk


@click.command(
    "restore",
    epilog=examples(
        "mainstem restore /backups/monday mainstem-data",
        "mainstem restore /backups/monday new-data && mainstem serve --data new-data",
    ),
)
@click.argument("backup", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def command(backup: Path, folder: Path, as_json: bool) -> None:
    """Copy BACKUP to FOLDER, which must be empty or not there yet, after checking every byte of it."""
    from mainstem.kernel.log.backup import restore

    with hold_folder(backup), progress_bytes(f"Restoring {folder}") as progress:
        restore(OsDisk(), str(backup), str(folder.absolute()), progress)
    if as_json:
        emit_record({"backup": str(backup), "data": str(folder)}, as_json=True)
    else:
        click.echo(f"{folder}: restored from {backup}")
        remark(f"Serve it with: mainstem serve --data {folder}")
