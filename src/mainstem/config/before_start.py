"""What would keep a broker from starting, said before it has made or changed anything on disk."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pwd
import socket
from collections.abc import Callable, Collection
from functools import partial
from itertools import chain
from pathlib import Path

from mainstem.config.exposure import check_exposure, has_tls
from mainstem.config.kinds import MAX_PORT, Endpoint
from mainstem.config.load import USUAL_FILE
from mainstem.config.secret_files import read_token, read_users
from mainstem.config.sections import Config
from mainstem.config.tls import server_context
from mainstem.model.errors import DataFolderLocked, InvalidConfig
from mainstem.observe.ports import port_holder

MANIFEST = "MANIFEST"
# What a start makes in a data folder, what is made in it anyhow, and the settings beside which it runs.
_OWN_NAMES = {"LOCK", MANIFEST, f"{MANIFEST}.new", "files", "snapshots", "lost+found", USUAL_FILE}
NAMES_SHOWN = 3


def check_before_start(config: Config) -> None:
    """Listeners, the data folder and the files that settings name."""
    check_hosts(config)
    check_exposure(config)
    check_named_files(config)
    check_data_folder(config.server.data)
    check_no_strangers(config)
    _check_ready_file(config.server.ready_file)
    _check_ports(config)


def check_named_files(config: Config) -> None:
    """That what a start reads can be read. All that is wrong is told at once."""
    security = config.security
    reads: list[Callable[[], object]] = []
    if security.users_file is not None:
        reads.append(partial(read_users, security.users_file))
    if security.http_token_file is not None:
        reads.append(partial(read_token, security.http_token_file))
    if any(map(has_tls, config.listeners())):
        files = (security.tls_cert_file, security.tls_key_file, security.tls_ca_file)
        reads.append(partial(server_context, *files, security.tls_client_auth))
    wrong = []
    for read in reads:
        try:
            read()
        except InvalidConfig as error:
            wrong.append(str(error))
    if wrong:
        raise InvalidConfig("\n".join(wrong))


def check_data_folder(folder: Path) -> None:
    """That it can be written, or made."""
    folder = folder.absolute()
    place = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not place.is_dir():
        what = "is not a folder" if place.exists() else "is a link to nothing"
        raise InvalidConfig(f"server.data: {place} {what}; choose another with --data")
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        raise InvalidConfig(
            f"server.data: {place} is on a read-only file system; mount it for writing, "
            "or choose another with --data"
        )
    if not os.access(place, os.W_OK | os.X_OK | os.R_OK):
        raise InvalidConfig(
            f"server.data: {place} cannot be written by {_me()}; "
            "change its owner, or choose another with --data"
        )
    lock = folder / "LOCK"
    if lock.exists() and not os.access(lock, os.W_OK | os.R_OK):
        raise InvalidConfig(
            f"server.data: {lock} cannot be opened by {_me()}; run as the owner of {folder}, "
            "or choose another with --data"
        )


def check_no_strangers(config: Config) -> None:
    """That a folder which is to become a data folder holds nothing else: a slip of --data is hard to undo.

    With a manifest it is one, whatever has come to it since. What an interrupted first start has left is no
    stranger, nor are the files that settings name.
    """
    folder = config.server.data.absolute()
    if not folder.is_dir() or (folder / MANIFEST).exists():
        return
    security = config.security
    named = (
        config.server.ready_file,
        security.users_file,
        security.http_token_file,
        security.tls_cert_file,
        security.tls_key_file,
        security.tls_ca_file,
    )
    # Also a folder that such a file lies in.
    expected = {above for path in named if path is not None for above in _at_and_above(path)}
    found = sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.name not in _OWN_NAMES and not entry.name.startswith(".") and entry not in expected
    )
    if found:
        more = f" and {len(found) - NAMES_SHOWN} more" if len(found) > NAMES_SHOWN else ""
        raise InvalidConfig(
            f"server.data: {folder} is no data folder yet (it has no {MANIFEST}) and holds "
            f"{', '.join(map(repr, found[:NAMES_SHOWN]))}{more}; choose a new or empty folder with --data"
        )


def _at_and_above(path: Path) -> tuple[Path, ...]:
    return (path.absolute(), *path.absolute().parents)


def folder_holder(folder: Path) -> str | None:
    """Who serves it now, if anybody; looks without making or changing the lock."""
    lock = folder / "LOCK"
    if not lock.exists():
        return None
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return file.read(64).decode("ascii", "replace").strip() or "unknown"
    return None


def _check_ready_file(path: Path | None) -> None:
    if path is None:
        return
    folder = path.absolute().parent
    if path.is_dir():
        raise InvalidConfig(f"server.ready_file: {path} is a folder; name a file with --ready-file")
    if not folder.is_dir():
        raise InvalidConfig(f"server.ready_file: there is no folder {folder}; make it, or name another file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidConfig(f"server.ready_file: {folder} cannot be written by {_me()}; name another file")


def check_hosts(config: Config) -> None:
    """That their names mean something, before it is said what they mean."""
    for name, endpoint in config.listeners().items():
        try:
            socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise InvalidConfig(
                f"server.listen: {name}={endpoint}: no such host ({error.strerror or error})"
            ) from None


def _check_ports(config: Config) -> None:
    """All that are taken are told at once."""
    busy = []
    for name, endpoint in config.listeners().items():
        try:
            _try_port(endpoint)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise cannot_listen(config, name, endpoint, error) from None
            busy.append(name)
    if busy and (server := folder_holder(config.server.data)):
        # Other ports would only lead to this.
        raise DataFolderLocked(
            f"server.data: {config.server.data.absolute()} is already served by process {server}; "
            "stop it first, or choose another folder with --data and other ports with --listen"
        )
    if busy:
        raise PortsTaken(config, busy)


def _try_port(endpoint: Endpoint) -> None:
    """Bound for a moment, as the listener will be."""
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, kind, protocol, _, address in dict.fromkeys(found):
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(address)


class PortsTaken(InvalidConfig):
    """Somebody else listens where we are to. `flags` name ports that are free."""

    def __init__(self, config: Config, names: Collection[str]) -> None:
        listeners = config.listeners()
        taken = [
            f"port {listeners[name].port} for {name} is taken by {_holder(listeners[name])}" for name in names
        ]
        self.taken = ", ".join(taken)
        self.flags = listen_flags(config, names)
        super().__init__(
            f"{self.taken}; choose {'others' if len(names) > 1 else 'another'} with {self.flags}"
        )


def _holder(endpoint: Endpoint) -> str:
    return port_holder(endpoint.port) or "another process"


def cannot_listen(config: Config, name: str, endpoint: Endpoint, error: OSError) -> InvalidConfig:
    if error.errno != errno.EADDRINUSE:
        return InvalidConfig(f"server.listen: cannot listen on {name}={endpoint}: {error.strerror or error}")
    return PortsTaken(config, [name])


def listen_flags(config: Config, busy: Collection[str]) -> str:
    """All listeners as flags, for naming only one would turn the others off; the busy ones go elsewhere."""
    used = {where.port for where in config.listeners().values()}
    flags = []
    for name, where in config.listeners().items():
        port = _free_port(where, used) if name in busy else where.port
        used.add(port)
        flags.append(f"--listen {name}={Endpoint(where.host, port)}")
    return " ".join(flags)


def _free_port(near: Endpoint, used: Collection[int]) -> int:
    """One that is easy to remember; 0, for any, if none of those is free."""
    for port in chain(range(near.port + 10_000, MAX_PORT, 10_000), range(near.port + 1, MAX_PORT)[:100]):
        if port not in used:
            with contextlib.suppress(OSError):
                _try_port(Endpoint(near.host, port))
                return port
    return 0


def _me() -> str:
    try:
        return f"user {pwd.getpwuid(os.geteuid()).pw_name}"
    except KeyError:  # in a container there may be no name for it
        return f"user {os.geteuid()}"
