"""What would keep a broker from starting, said before it has made or changed anything on disk."""

from __future__ import annotations

import errno
import os
import pwd
import socket
from pathlib import Path

from mainstem.config.exposure import check_exposure
from mainstem.config.kinds import Endpoint
from mainstem.config.secret_files import read_token, read_users
from mainstem.config.sections import USUAL_PORTS, Config
from mainstem.model.errors import InvalidConfig
from mainstem.observe.ports import port_holder


def check_before_start(config: Config) -> None:
    """Listeners, the data folder and the files that settings name; certificates are the caller's."""
    check_exposure(config)
    security = config.security
    if security.users_file is not None:
        read_users(security.users_file)
    if security.http_token_file is not None:
        read_token(security.http_token_file)
    check_data_folder(config.server.data)
    _check_ready_file(config.server.ready_file)
    for name, endpoint in config.listeners().items():
        protocol = name.partition("+")[0]
        if protocol not in USUAL_PORTS:
            known = " or ".join(USUAL_PORTS)
            raise InvalidConfig(f"server.listen: there is no protocol {protocol!r}; use {known}")
        _check_port(config, name, endpoint)


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


def _check_port(config: Config, name: str, endpoint: Endpoint) -> None:
    """Bound for a moment, as the listener will be."""
    try:
        found = socket.getaddrinfo(
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, address in dict.fromkeys(found):
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
    except OSError as error:
        raise cannot_listen(config, name, endpoint, error) from None


def cannot_listen(config: Config, name: str, endpoint: Endpoint, error: OSError) -> InvalidConfig:
    if error.errno != errno.EADDRINUSE:
        return InvalidConfig(f"server.listen: cannot listen on {name}={endpoint}: {error.strerror or error}")
    holder = port_holder(endpoint.port) or "another process"
    return InvalidConfig(
        f"port {endpoint.port} for {name} is taken by {holder}; "
        f"choose another with {listen_flags(config, name)}"
    )


def listen_flags(config: Config, changed: str) -> str:
    """All listeners as flags: naming only one of them would turn the others off."""
    return " ".join(
        f"--listen {name}={where.host if ':' not in where.host else f'[{where.host}]'}:"
        f"{'PORT' if name == changed else where.port}"
        for name, where in config.listeners().items()
    )


def _me() -> str:
    try:
        return f"user {pwd.getpwuid(os.geteuid()).pw_name}"
    except KeyError:  # in a container there may be no name for it
        return f"user {os.geteuid()}"
