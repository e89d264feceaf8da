from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from mainstem.config import load
from mainstem.config.before_start import check_before_start, check_data_folder
from mainstem.model.errors import InvalidConfig


def refuse(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As for a user who may not write it; who runs these tests may be allowed everything."""
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != name)


def test_a_data_folder_that_cannot_be_written_is_told_with_what_to_do(tmp_path, monkeypatch):
    refuse(monkeypatch, tmp_path.name)
    with pytest.raises(InvalidConfig, match=r"server\.data: .* cannot be written by user .*--data"):
        check_data_folder(tmp_path / "not" / "there" / "yet")


def test_a_read_only_file_system_is_called_that(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    refuse(monkeypatch, tmp_path.name)
    with pytest.raises(InvalidConfig, match=r"is on a read-only file system; .*--data"):
        check_data_folder(tmp_path)


def test_a_lock_of_another_user_is_told_with_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "LOCK").touch()
    refuse(monkeypatch, "LOCK")
    with pytest.raises(InvalidConfig, match=r"LOCK cannot be opened by user .*run as the owner"):
        check_data_folder(tmp_path)


def test_a_link_to_nothing_is_no_data_folder(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "none")
    with pytest.raises(InvalidConfig, match="link to nothing"):
        check_data_folder(tmp_path / "link")


def test_a_host_that_is_none_is_called_that(monkeypatch, tmp_path):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    config = load({"server.listen": "kafka=nohost.invalid:9092", "server.data": str(tmp_path)}, {})
    with pytest.raises(InvalidConfig, match=r"kafka=nohost\.invalid:9092: no such host"):
        check_before_start(config)
