"""`mainstem doctor`: is this machine fit for a broker? Looks, measures the disk a little, changes nothing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import shutil
import socket
import statistics
import tempfile
import time
import timeit
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
from fastcrc.crc32 import iscsi as crc32c

from mainstem import __version__
from mainstem.cli.groups import examples
from mainstem.cli.output import Column, emit_rows, human_bytes, human_ms, json_option
from mainstem.cli.settings import settings_options
from mainstem.config import Config, Endpoint, before_start, folder_holder, listen_flags
from mainstem.model.errors import InvalidConfig
from mainstem.model.hot import compiled_modules
from mainstem.net.open_files import SPARE_FILES
from mainstem.observe.ports import port_holder

PACKAGES = ("click", "cramjam", "fastcrc", "h11", "lz4", "msgspec", "pamqp", "rich", "zstandard")
CHECKSUM_BYTES, CHECKSUM_S = 4 << 20, 0.002  # with a table it would take about ten times as long
SYNC_WRITES = 64
SYNC_BYTES = 4096
SLOW_SYNC_MS = 20.0
VOLATILE = ("tmpfs", "ramfs", "overlay")
MARKS = {"ok": "ok", "warn": "WARN", "fail": "FAIL"}


@dataclass(frozen=True)
class Finding:
    check: str
    state: str  # ok, warn: works but worse than it could, fail: will not work
    found: str
    advice: str = ""


@click.command("doctor", epilog=examples("mainstem doctor", "mainstem doctor --data /srv/mainstem --json"))
@json_option
@settings_options
def command(as_json: bool, config: Config) -> None:
    """Check this machine: versions, compiled parts, disk, limits, ports. Exit code 1 if something fails."""
    findings = list(examine(config))
    columns = [
        Column("state", "", show=lambda state: MARKS[state]),
        Column("check", "check"),
        Column("found", "found"),
        Column("advice", "advice"),
    ]
    emit_rows([asdict(finding) for finding in findings], columns, as_json=as_json)
    if any(finding.state == "fail" for finding in findings):
        raise click.exceptions.Exit(1)


def examine(config: Config) -> Iterator[Finding]:
    yield Finding("mainstem", "ok", f"{__version__} on Python {platform.python_version()}")
    yield Finding("system", "ok", f"{platform.system()} {platform.release()} {platform.machine()}")
    yield from check_packages()
    yield check_compiled()
    yield check_checksum()
    yield from check_data_folder(config)
    yield check_open_files(config.server.max_connections)
    server = folder_holder(config.server.data)
    findings = [check_port(name, endpoint, server) for name, endpoint in config.listeners().items()]
    busy = [
        name for name, finding in zip(config.listeners(), findings, strict=True) if finding.state == "fail"
    ]
    for finding in findings:
        wrong = finding.state == "fail"
        yield (
            replace(finding, advice=f"choose another with {listen_flags(config, busy)}") if wrong else finding
        )


def needed_bytes(config: Config) -> int:
    """The active journal file, the next one, and the reserve."""
    return 2 * config.journal.file_bytes + config.journal.reserve_bytes


def check_packages() -> Iterator[Finding]:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            yield Finding(package, "fail", "missing", "install Mainstem again")
    yield Finding("packages", "ok", ", ".join(found))


def check_compiled() -> Finding:
    compiled = compiled_modules()
    plain = sorted(name for name, is_compiled in compiled.items() if not is_compiled)
    if plain:
        advice = "works, slower: install a C compiler and install Mainstem again"
        none = f"none of the {len(compiled)} is compiled"
        found = f"not compiled: {', '.join(plain)}" if len(plain) < len(compiled) else none
        return Finding("hot modules", "warn", found, advice)
    return Finding("hot modules", "ok", f"all {len(compiled)} compiled")


def check_checksum() -> Finding:
    """By what it does: the library does not say whether the processor helps it."""
    data = memoryview(bytes(CHECKSUM_BYTES))
    fastest_s = min(timeit.repeat(lambda: crc32c(data), number=1, repeat=5))
    found = f"{CHECKSUM_BYTES / fastest_s / 1e9:.1f} GB/s"
    if fastest_s <= CHECKSUM_S:
        return Finding("crc32c", "ok", found)
    return Finding("crc32c", "warn", found, "works, slower: this processor has no help for it, or is busy")


def check_data_folder(config: Config) -> Iterator[Finding]:
    folder, needed = config.server.data, needed_bytes(config)
    try:
        before_start.check_data_folder(folder)
        before_start.check_no_strangers(config)
    except InvalidConfig as error:
        found, _, advice = str(error).removeprefix("server.data: ").partition("; ")
        yield Finding("data folder", "fail", found, advice)
        return
    place = existing_parent(folder)
    exists = "" if folder.exists() else " (will be made)"
    holder = folder_holder(folder)
    if holder:
        yield Finding("data folder", "ok", f"{folder.absolute()} is served by process {holder}")
    else:
        yield Finding("data folder", "ok", f"{folder.absolute()}{exists}")
    yield check_filesystem(place)
    free = shutil.disk_usage(place).free
    if free < needed:
        yield Finding("free space", "fail", human_bytes(free), f"a start needs {human_bytes(needed)}")
    else:
        yield Finding("free space", "ok", human_bytes(free))
    yield check_sync(place)


def existing_parent(folder: Path) -> Path:
    folder = folder.absolute()
    return next(path for path in (folder, *folder.parents) if path.is_dir())


def check_filesystem(place: Path, mounts: Path = Path("/proc/mounts")) -> Finding:
    try:
        rows = [row.split()[1:3] for row in mounts.read_text().splitlines()]
    except OSError:
        return Finding("file system", "ok", "unknown here")
    holding = [(point, kind) for point, kind in rows if place.is_relative_to(point)]
    kind = max(holding, key=lambda row: len(row[0]))[1] if holding else "unknown"
    if kind in VOLATILE:
        return Finding("file system", "warn", kind, "gone with the machine or container: use a real disk")
    return Finding("file system", "ok", kind)


def check_sync(place: Path) -> Finding:
    """Time what the journal waits for: small writes into space that is already there, and a sync."""
    try:
        took_ms = sorted(sync_times_ms(place))
    except OSError as error:
        return Finding("fdatasync", "fail", str(error), "the disk must be able to sync")
    typical, worst = statistics.median(took_ms), took_ms[-1]
    found = f"{human_ms(typical)} typical, {human_ms(worst)} worst of {len(took_ms)}"
    if typical > SLOW_SYNC_MS:
        return Finding("fdatasync", "warn", found, "every acknowledgement waits for this: use a faster disk")
    return Finding("fdatasync", "ok", found)


def sync_times_ms(place: Path) -> Iterator[float]:
    with tempfile.TemporaryFile(dir=place) as file:
        file.write(bytes(SYNC_WRITES * SYNC_BYTES))
        file.flush()
        os.fsync(file.fileno())
        for number in range(SYNC_WRITES):
            os.pwrite(file.fileno(), b"x" * SYNC_BYTES, number * SYNC_BYTES)
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            yield (time.perf_counter() - start) * 1000


def check_open_files(max_connections: int) -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max_connections + SPARE_FILES
    unlimited = resource.RLIM_INFINITY
    found = "no limit" if soft == unlimited else f"{soft} (the broker raises it to {hard})"
    if unlimited not in (soft, hard) and hard < wanted:
        advice = f"raise it to {wanted}: until then not all of server.max_connections are taken"
        return Finding("open files", "warn", found, advice)
    return Finding("open files", "ok", found)


def check_port(name: str, endpoint: Endpoint, server: str | None = None) -> Finding:
    """`server`: the process that serves the data folder, and may hold its own ports."""
    check = f"port {name}"
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((endpoint.host, endpoint.port))
        except OSError as error:
            holder = port_holder(endpoint.port)
            if holder and server and holder.endswith(f"(process {server})"):
                return Finding(check, "ok", f"{endpoint} is served by process {server}")
            why = f"{endpoint} is held by {holder}" if holder else f"{endpoint}: {error.strerror or error}"
            return Finding(check, "fail", why)
    return Finding(check, "ok", f"{endpoint} is free")
