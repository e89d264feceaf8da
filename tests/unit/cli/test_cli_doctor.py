from __future__ import annotations

import json
import os
import resource
import socket

from click.testing import CliRunner

from mainstem.cli import doctor
from mainstem.cli.main import cli
from mainstem.config import Endpoint, load
from mainstem.kernel.log.disk import OsDisk
from mainstem.observe.ports import port_holder


def listening() -> tuple[socket.socket, int]:
    busy = socket.create_server(("127.0.0.1", 0))
    return busy, busy.getsockname()[1]


def test_doctor_reports_every_check_and_leaves_nothing_behind(tmp_path):
    folder = tmp_path / "deep" / "data"
    words = ["doctor", "--json", "--data", str(folder), "--listen", "kafka=127.0.0.1:0"]
    result = CliRunner().invoke(cli, words)
    checks = {line["check"]: line for line in map(json.loads, result.output.splitlines())}
    assert {"mainstem", "packages", "hot modules", "crc32c", "fdatasync", "free space"} <= set(checks)
    assert checks["data folder"]["found"] == f"{folder} (will be made)"
    assert checks["port kafka"]["state"] == "ok"
    assert list(tmp_path.iterdir()) == []


def test_a_busy_port_fails_and_names_who_holds_it():
    busy, port = listening()
    with busy:
        finding = doctor.check_port("kafka", Endpoint("127.0.0.1", port))
        assert finding.state == "fail"
        assert f"(process {os.getpid()})" in finding.found
    assert doctor.check_port("kafka", Endpoint("127.0.0.1", port)).state == "ok"


def test_the_advice_for_busy_ports_is_one_line_of_flags_that_works(tmp_path):
    (first, one), (second, two) = listening(), listening()
    where = [
        "--listen",
        f"kafka=127.0.0.1:{one}",
        "--listen",
        f"amqp=127.0.0.1:{two}",
        "--data",
        str(tmp_path),
    ]
    with first, second:
        result = CliRunner().invoke(cli, ["doctor", "--json", *where])
        checks = {line["check"]: line for line in map(json.loads, result.output.splitlines())}
        (advice,) = {checks[check]["advice"] for check in ("port kafka", "port amqp")}
        flags = advice.removeprefix("choose another with ").split()
        again = CliRunner().invoke(cli, ["doctor", "--json", *flags, "--data", str(tmp_path)])
        assert again.exit_code == 0, again.output


def test_the_folder_and_the_ports_of_a_broker_that_serves_are_fine(tmp_path):
    lock = OsDisk().lock(str(tmp_path / "LOCK"))
    busy, port = listening()
    with busy:
        words = ["doctor", "--json", "--data", str(tmp_path), "--listen", f"kafka=127.0.0.1:{port}"]
        result = CliRunner().invoke(cli, words)
    del lock
    checks = {line["check"]: line for line in map(json.loads, result.output.splitlines())}
    assert checks["port kafka"]["state"] == "ok"
    assert checks["data folder"]["state"] == "ok"
    assert checks["data folder"]["found"] == f"{tmp_path} is served by process {os.getpid()}"
    assert checks["port kafka"]["found"] == f"127.0.0.1:{port} is served by process {os.getpid()}"
    assert result.exit_code == 0


def test_doctor_exits_with_1_when_something_fails(tmp_path):
    busy, port = listening()
    with busy:
        words = ["doctor", "--data", str(tmp_path), "--listen", f"kafka=127.0.0.1:{port}"]
        result = CliRunner().invoke(cli, words)
    assert result.exit_code == 1
    assert "FAIL" in result.output


def test_a_free_port_has_no_holder():
    busy, port = listening()
    busy.close()
    assert port_holder(port) is None


def test_too_little_space_fails_with_what_is_needed(tmp_path):
    config = load({"server.data": str(tmp_path), "journal.reserve_bytes": 2**62}, {})
    findings = {finding.check: finding for finding in doctor.check_data_folder(config)}
    assert findings["free space"].state == "fail"
    assert "TiB" in findings["free space"].advice


def test_a_folder_nobody_may_write_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    (finding,) = doctor.check_data_folder(load({"server.data": str(tmp_path)}, {}))
    assert (finding.state, finding.check) == ("fail", "data folder")


def test_a_folder_of_other_things_fails(tmp_path):
    (tmp_path / "thesis.txt").write_text("")
    (finding,) = doctor.check_data_folder(load({"server.data": str(tmp_path)}, {}))
    assert (finding.state, finding.check) == ("fail", "data folder")
    assert "'thesis.txt'" in finding.found


def test_memory_file_systems_are_warned_about(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text("dev / ext4 rw 0 0\ntmpfs /run tmpfs rw 0 0\n")
    assert doctor.check_filesystem(tmp_path.__class__("/run/x"), mounts).state == "warn"
    assert doctor.check_filesystem(tmp_path.__class__("/srv"), mounts) == doctor.Finding(
        "file system", "ok", "ext4"
    )
    assert doctor.check_filesystem(tmp_path, tmp_path / "none").state == "ok"


def test_a_slow_disk_is_warned_about_and_a_broken_one_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "sync_times_ms", lambda _: iter([30.0, 40.0, 50.0]))
    assert doctor.check_sync(tmp_path).state == "warn"
    assert doctor.check_sync(tmp_path).found == "40 ms typical, 50 ms worst of 3"

    def broken(_: object) -> list[float]:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(doctor, "sync_times_ms", broken)
    assert doctor.check_sync(tmp_path).state == "fail"


def test_a_low_limit_of_open_files_is_warned_about(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert doctor.check_open_files(10_000).state == "warn"
    assert doctor.check_open_files(1_000).state == "ok"
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert doctor.check_open_files(10_000).found == "no limit"


def test_hot_modules_that_run_uncompiled_are_named(monkeypatch):
    monkeypatch.setattr(doctor, "compiled_modules", lambda: {"a.b": True, "a.c": False, "a.d": False})
    assert (doctor.check_compiled().state, doctor.check_compiled().found) == (
        "warn",
        "not compiled: a.c, a.d",
    )
    monkeypatch.setattr(doctor, "compiled_modules", lambda: {"a.b": False, "a.c": False})
    assert doctor.check_compiled().found == "none of the 2 is compiled"
