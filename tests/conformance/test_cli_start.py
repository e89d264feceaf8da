"""`mainstem serve` when something is in its way: one line that says what, and nothing left behind."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import mainstem
from mainstem.testing import Broker

PROGRAM = [sys.executable, "-c", "from mainstem.cli.main import main; main()"]
FREE = ["--listen", "kafka=127.0.0.1:0", "--listen", "http=127.0.0.1:0"]


def launch(folder: Path, *words: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAINSTEM_")}
    environment["PYTHONPATH"] = str(Path(mainstem.__file__).parent.parent)
    return subprocess.Popen(
        [*PROGRAM, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment,
    )


def refused(folder: Path, *words: str) -> str:
    process = launch(folder, "serve", *words)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2, out + err
    assert "Errno" not in err
    assert len(err.splitlines()) == 1, err
    return err


def test_a_busy_port_is_told_before_a_folder_is_made_and_the_hint_names_every_listener(tmp_path):
    with Broker() as broker:
        err = refused(tmp_path, "--listen", f"kafka={broker.kafka}", "--listen", "http=127.0.0.1:0")
    assert "is taken by" in err
    assert re.search(
        r"choose another with --listen kafka=127\.0\.0\.1:\d+ --listen http=127\.0\.0\.1:0$", err.strip()
    )
    assert list(tmp_path.iterdir()) == []


def test_a_data_folder_that_is_a_file_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    assert "server.data" in refused(tmp_path, "--data", "file", *FREE)
    assert "is not a folder" in refused(tmp_path, "--data", "file/below", *FREE)


def test_a_folder_of_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("")
    assert "holds 'thesis.txt'; choose a new or empty folder" in refused(tmp_path, "--data", ".", *FREE)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_data_folder_that_cannot_be_made_is_told(tmp_path):
    err = refused(tmp_path, "--data", "/proc/mainstem", *FREE)
    assert err.startswith("Error: server.data: ")
    assert "choose another with --data" in err


def test_a_ready_file_in_a_folder_that_is_not_there_is_told_before_anything_is_made(tmp_path):
    assert "server.ready_file" in refused(tmp_path, "--ready-file", "none/ready.json", *FREE)
    assert list(tmp_path.iterdir()) == []


def test_a_locked_folder_is_the_same_exit_code_as_a_busy_port(tmp_path):
    with Broker(data=tmp_path / "data"):
        assert f"is in use by process {os.getpid()}" in refused(tmp_path, "--data", "data", *FREE)


def test_a_folder_that_is_served_is_told_before_its_ports(tmp_path):
    with Broker(data=tmp_path / "data") as broker:
        err = refused(tmp_path, "--data", "data", "--listen", f"kafka={broker.kafka}")
    assert f"{tmp_path / 'data'} is already served by process {os.getpid()}" in err
    assert "port" not in err.partition(";")[0]


def test_a_json_log_has_nothing_but_json_in_it(tmp_path):
    process = launch(tmp_path, "serve", "--log-format", "json", "--set", "topics.durability=os", *FREE)
    try:
        told = [json.loads(process.stderr.readline())]
        while told[-1]["message"] != "Mainstem is ready":
            told.append(json.loads(process.stderr.readline()))
        assert told[-1]["data"] == str(tmp_path / "mainstem-data")
        assert told[-1]["listen"]["kafka"].startswith("127.0.0.1:")
        assert ("warning", "topics.durability = os") in [(one["level"], one.get("setting")) for one in told]
        process.terminate()
        # Not by communicate(), which does not know of what readline() has read already.
        told += map(json.loads, process.stderr)
        assert (process.wait(60), process.stdout.read()) == (0, "")
        assert told[-1]["message"] != "Mainstem is ready", "how it ended is told too"
    finally:
        process.kill()
        process.communicate()


def test_a_protocol_that_was_not_named_is_shown_as_off_and_a_hangup_does_not_stop_the_broker(tmp_path):
    process = launch(tmp_path, "serve", "--listen", "http=127.0.0.1:0")
    try:
        seen = ""
        while "Ctrl-C" not in seen:
            seen += process.stderr.readline()
        assert "kafka      off" in seen
        assert "--listen kafka=127.0.0.1:9092" in seen
        process.send_signal(signal.SIGHUP)
        assert "nothing to load again" in process.stderr.readline()
        process.terminate()
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "stopped" in err.splitlines()[-1]
    finally:
        process.kill()
        process.communicate()
