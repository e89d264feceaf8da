from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from mainstem.config import load
from mainstem.config.before_start import check_before_start, check_data_folder, check_no_strangers
from mainstem.model.errors import InvalidConfig
from mainstem.testing import Broker


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


def check_strangers(folder: Path, **settings: object) -> None:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    check_no_strangers(load({"server.data": str(folder), **named}, {}))


def test_a_folder_of_other_things_is_no_data_folder_and_some_of_them_are_named(tmp_path):
    for name in ("thesis.txt", "photos", "zebra", "yak"):
        (tmp_path / name).mkdir()
    with pytest.raises(InvalidConfig, match=r"holds 'photos', 'thesis\.txt', 'yak' and 1 more; .*--data"):
        check_strangers(tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


def test_a_data_folder_may_have_other_things_in_it(tmp_path):
    with Broker(data=tmp_path):
        pass
    (tmp_path / "notes.txt").write_text("")
    check_strangers(tmp_path)


def test_what_a_first_start_or_the_system_leaves_is_no_stranger(tmp_path):
    check_strangers(tmp_path / "none")
    check_strangers(tmp_path)
    with Broker(data=tmp_path):
        pass
    (tmp_path / "MANIFEST").rename(tmp_path / "MANIFEST.new")
    for name in ("lost+found", ".gitkeep", "mainstem.toml"):
        (tmp_path / name).mkdir()
    check_strangers(tmp_path)


def test_files_that_settings_name_may_lie_in_the_folder(tmp_path):
    (tmp_path / "tls").mkdir()
    (tmp_path / "users.toml").write_text("")
    with pytest.raises(InvalidConfig, match=r"holds 'tls', 'users\.toml';"):
        check_strangers(tmp_path)
    certificate = {
        "security__tls_cert_file": tmp_path / "tls/c.pem",
        "security__tls_key_file": tmp_path / "tls/k",
    }
    check_strangers(tmp_path, security__users_file=tmp_path / "users.toml", **certificate)
