"""`mainstem demo` as a user runs it."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

import mainstem
from mainstem.testing import Broker

PROGRAM = [sys.executable, "-c", "from mainstem.cli.main import main; main()", "demo"]
FREE = ["--no-sample", "--listen", "kafka=127.0.0.1:0", "--listen", "http=127.0.0.1:0"]


@pytest.fixture
def start(tmp_path):
    running = []

    def start_demo(*arguments, path=()):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAINSTEM_")}
        environment["PYTHONPATH"] = os.pathsep.join([*path, str(Path(mainstem.__file__).parent.parent)])
        process = subprocess.Popen(
            [*PROGRAM, "--data", str(tmp_path / "data"), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment,
            # Whoever runs the tests may have set it to be ignored (nohup does), and children inherit that.
            preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
        )
        running.append(process)
        return process

    yield start_demo
    for process in running:
        process.kill()
        process.communicate()


def read_until(process, pattern):
    seen = ""
    for line in process.stdout:
        seen += line
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f"{pattern!r} is not in:\n{seen}\n{process.stderr.read()}")


def test_a_short_stream_ends_by_itself_with_a_right_verdict(start, tmp_path):
    process = start("--for", "1", "--rate", "500", *FREE, "--listen", "amqp=127.0.0.1:0")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert str(tmp_path / "data") in out
    assert re.search(r"[1-9]\d* of them came from a RabbitMQ client, to the same topic", out)
    assert re.search(r"kcat -b 127\.0\.0\.1:\d+ -t hello -P", out)
    sent, read = re.search(r"([\d,]+) orders sent and acknowledged, ([\d,]+) read", out).groups()
    assert sent == read
    assert int(sent.replace(",", "")) >= 400
    assert "Right: what came out is what went in" in out


def test_a_second_stream_over_the_same_data_is_right_too(start):
    for _ in range(2):
        process = start("--for", "0.3", "--rate", "200", *FREE)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, out + err


def test_ctrl_c_ends_a_stream_early_with_a_verdict(start):
    process = start("--for", "600", "--rate", "200", *FREE)
    read_until(process, r"\ds +sent|\d s +sent")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert "Right" in out


def of_this_run(tmp_path):
    """Processes that say something of this test's folder on their command line or were started in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").resolve() == tmp_path and b"mainstem" in (process / "cmdline").read_bytes():
                found.append(process.name)
    return found


def test_a_terminal_that_closes_stops_it_like_ctrl_c(start, tmp_path):
    process = start("--for", "600", "--rate", "200", *FREE)
    read_until(process, r"\ds +sent|\d s +sent")
    process.send_signal(signal.SIGHUP)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert "Stopped." in out
    assert of_this_run(tmp_path) == []


def test_what_it_has_started_ends_when_it_is_killed(start, tmp_path):
    process = start("--for", "600", "--rate", "200", *FREE)
    read_until(process, r"\ds +sent|\d s +sent")
    assert len(of_this_run(tmp_path)) >= 3
    process.kill()
    _, err = process.communicate(timeout=60)  # to the end of what they all have open
    assert "Traceback" not in err
    give_up_s = time.monotonic() + 60
    while of_this_run(tmp_path):
        assert time.monotonic() < give_up_s, "some of them outlive it"


def test_it_runs_where_pika_is_not_installed(start, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['pika'] = None")
    process = start("--for", "0.3", "--rate", "200", *FREE, path=[str(tmp_path)])
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err


def test_without_for_it_serves_until_ctrl_c_and_its_lines_work(start, tmp_path):
    process = start(*FREE)
    kafka = read_until(process, r"kafka +(127\.0\.0\.1:\d+)")[1]
    lines = read_until(process, r"^\S*python\S* -c '$")[0] + "\n"
    while lines.count("'") < 2:
        lines += process.stdout.readline()
    assert kafka in lines
    subprocess.run(lines, shell=True, check=True, timeout=60)
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition("hello", 0, 0)])
    assert consumer.poll(30).value() == b"hello from Python"
    consumer.close()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert f"Stopped. The data is in {tmp_path / 'data'}" in out


def test_a_stream_leaves_the_topics_of_others_alone_and_none_of_its_own(start, tmp_path):
    with Broker(data=tmp_path / "data") as broker:
        create = [sys.executable, "-c", PROGRAM[2], "topic", "create", "orders", "-b", broker.kafka]
        subprocess.run(create, check=True, timeout=60)
    process = start("--for", "0.3", "--rate", "200", *FREE)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    with Broker(data=tmp_path / "data") as broker:
        listed = subprocess.run(
            [sys.executable, "-c", PROGRAM[2], "topic", "ls", "-b", broker.kafka],
            capture_output=True, text=True, check=True, timeout=60,
        ).stdout  # fmt: skip
    assert [line.split() for line in listed.splitlines()[1:]] == [["orders", "1", "0"]]


def test_a_busy_port_is_an_error_that_names_the_holder(start):
    with Broker() as broker:
        process = start("--for", "1", "--listen", f"kafka={broker.kafka}")
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "is taken by" in err
    assert f"(process {os.getpid()})" in err


def test_all_busy_ports_are_named_with_flags_that_work_and_for_make_too(start, monkeypatch):
    monkeypatch.delenv("MAKELEVEL", raising=False)
    with Broker() as broker:
        busy = ["--for", "0.3", "--listen", f"kafka={broker.kafka}", "--listen", f"http={broker.http}"]
        _, err = start(*busy, "--no-sample").communicate(timeout=60)
        assert err.count("is taken by") == 2
        flags = re.search(r"choose others with (--listen \S+ --listen \S+)$", err.strip())[1]
        process = start("--for", "0.3", "--no-sample", *flags.split())
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, out + err
        monkeypatch.setenv("MAKELEVEL", "1")
        _, err = start(*busy, "--no-sample").communicate(timeout=60)
        assert re.search(r'choose others with make run ARGS="--listen \S+ --listen \S+"$', err.strip())


def test_a_stream_without_a_listener_it_can_use_is_a_wrong_request(start):
    process = start("--for", "1", "--listen", "http=127.0.0.1:0")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "needs a listener `kafka`" in err


def test_a_wrong_stream_is_exit_code_1(start, tmp_path):
    # A stand-in for the client's program that says something was lost.
    (tmp_path / "sitecustomize.py").write_text(
        "import mainstem.cli.demo; mainstem.cli.demo.STREAM = 'stream_that_lost'"
    )
    verdict = '{"seconds": 1, "sent": 2, "read": 1, "partitions": 1, "p50_ms": 1, "p99_ms": 1, "max_ms": 1, '
    verdict += '"wrong": ["partition 0: 2 were acknowledged, 1 were read"]}'
    (tmp_path / "stream_that_lost.py").write_text(f"print('{{\"verdict\": {verdict}}}')")
    process = start("--for", "1", *FREE, path=[str(tmp_path)])
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, out + err
    assert "WRONG" in out
    assert "2 were acknowledged, 1 were read" in out
