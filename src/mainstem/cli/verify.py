"""`mainstem verify`: read every byte of a data folder or backup and say whether it is sound."""

from __future__ import annotations

from pathlib import Path

import click

from mainstem.cli.folders import hold_folder, progress_bytes
from mainstem.cli.groups import examples
from mainstem.cli.output import Column, emit_record, emit_rows, human_bytes, json_option
from mainstem.kernel.log.disk import OsDisk


@click.command(
    "verify", epilog=examples("mainstem verify mainstem-data", "mainstem verify /backups/monday --json")
)
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--files", "each", is_flag=True, help="Also show every file.")
@json_option
def command(folder: Path, each: bool, as_json: bool) -> None:
    """Check everything in FOLDER, a data folder that no broker serves or a backup. Exit code 1 if damaged.

    Every frame, batch and index is held against its checksum and against each other. Nothing is changed.
    """
    from mainstem.kernel.log.verify import verify

    instead = "stop it first, or verify a backup of it"
    with hold_folder(folder, instead), progress_bytes(f"Verifying {folder}") as progress:
        report = verify(OsDisk(), str(folder), progress)
    files = [
        {
            "file": one.name,
            "kind": one.kind,
            "bytes": one.bytes,
            "frames": one.frames,
            "batches": one.batches,
            "note": one.note,
            "damage": one.damage,
        }
        for one in report.files
    ]
    size = sum(one.bytes for one in report.files)
    batches = sum(one.batches for one in report.files)
    facts = {"folder": str(folder), "log_id": report.log_id, "sound": report.ok, "damage": report.damage}
    if as_json:
        emit_record({**facts, "bytes": size, "batches": batches, "files": files}, as_json=True)
    else:
        shown = [one for one in files if each or one["damage"] or one["note"]]
        if shown:
            columns = [Column("file", "file"), Column("bytes", "bytes", "right", human_bytes)]
            columns += [Column(key, key, "right", "{:,}".format) for key in ("frames", "batches")]
            columns += [Column(key, key, show=lambda value: value or "") for key in ("note", "damage")]
            emit_rows(shown, columns, as_json=False)
        verdict = "sound" if report.ok else "DAMAGED"
        click.echo(f"{folder}: {verdict}. {len(files)} files, {human_bytes(size)}, {batches:,} batches.")
    if not report.ok:
        raise click.exceptions.Exit(1)
