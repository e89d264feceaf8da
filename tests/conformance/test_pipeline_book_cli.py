"""The commands that look into the book of pipelines and ask, against a broker."""

import contextlib
import io
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka_kit import PATIENCE_S, new_name, until

import mainstem
from mainstem.cli.main import cli
from mainstem.client import ClientSettings, parse_bootstrap
from mainstem.pipeline.book import Book
from mainstem.pipeline.progress import DeadLetters, QueryProgress, RunStatus
from mainstem.testing.broker import Broker

PROGRAM = [sys.executable, "-c", "from mainstem.cli.main import main; main()"]


def wall_ms():
    return time.time_ns() // 1_000_000


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


@pytest.fixture
def run(broker, monkeypatch):
    monkeypatch.setenv("MAINSTEM_BOOTSTRAP", broker.kafka)

    def run_command(*arguments, code=0):
        result = CliRunner().invoke(cli, ["pipeline", *arguments], prog_name="mainstem")
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        return result

    return run_command


@pytest.fixture
def start(broker):
    """A command as a process of its own: for what goes on until it is told to end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAINSTEM_")}
    environment |= {
        "MAINSTEM_BOOTSTRAP": broker.kafka,
        "PYTHONPATH": str(Path(mainstem.__file__).parent.parent),
        "TERM": "xterm",
        "COLUMNS": "150",
    }
    running = []

    def start_command(*arguments, stdout=subprocess.PIPE):
        process = subprocess.Popen(
            [*PROGRAM, "pipeline", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        running.append(process)
        return process

    yield start_command
    for process in running:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def book(broker):
    with Book(ClientSettings(parse_bootstrap(broker.kafka)), wall_ms) as made:
        yield made


@pytest.fixture
def name():
    return new_name("pipeline")


def status(name, **changes):
    facts = {
        "pipeline": name,
        "run": "run-1",
        "state": "running",
        "started_ms": wall_ms() - 60_000,
        "at_ms": wall_ms() + 600_000,  # not lost, however slow the machine is
        "host": "worker-7",
        "pid": 4711,
        "master": "local[*]",
        "files": (f"{name}.sql",),
        "checkpoints": f"/var/{name}",
        "rows_in": 12_000,
        "rows_out": 340,
    }
    return RunStatus(**(facts | changes))


def progress(**changes):
    facts = {
        "query": "revenue",
        "batch": 3,
        "at_ms": wall_ms(),
        "input_rows": 400,
        "input_rows_per_s": 412.3,
        "output_rows": 58,
        "output_rows_per_s": 59.0,
        "batch_ms": 230,
        "lag": 600,
        "watermark_ms": 1_767_229_130_000,
        "state_rows": 60,
        "state_bytes": 13_752,
    }
    return QueryProgress(**(facts | changes))


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


@contextlib.contextmanager
def obedient(book, run):
    """A pipeline that says it lives until it is asked to stop."""
    book.say(run)
    enough = threading.Event()

    def live():
        while not book.stop_asked(run) and not enough.wait(0.05):
            book.say(status(run.pipeline, run=run.run))
        book.say(status(run.pipeline, run=run.run, state="stopping"))
        book.say(status(run.pipeline, run=run.run, state="stopped"))

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()


# --- ls --------------------------------------------------------------------------------------------


def test_a_broker_without_pipelines_lists_none(monkeypatch):
    with Broker() as fresh:
        monkeypatch.setenv("MAINSTEM_BOOTSTRAP", fresh.kafka)
        result = CliRunner().invoke(cli, ["pipeline", "ls"])
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No pipelines.\n")


def test_pipelines_are_listed_with_how_they_are(run, book, name):
    book.say(status(name, queries=(progress(), progress(query="copy", lag=5))))
    book.say(status(f"{name}-gone", at_ms=wall_ms() - 60_000, mode="once"))
    lines = {line.split()[0]: line.split() for line in run("ls").stdout.splitlines()}
    assert " ".join(lines["pipeline"]) == "pipeline state mode since rows in rows out lag host"
    assert lines[name][1:3] == ["running", "live"]
    assert lines[name][-4:] == ["12,000", "340", "605", "worker-7"]
    assert lines[f"{name}-gone"][1:3] == ["lost", "once"]
    by_name = {row["pipeline"]: row for row in objects(run("ls", "--json").stdout)}
    assert by_name[name]["lag"] == 605
    assert by_name[f"{name}-gone"]["state"] == "lost"


# --- status ----------------------------------------------------------------------------------------


def test_a_status_tells_each_query_and_the_error(run, book, name):
    book.say(status(name, state="failed", error="no topic\nat \x1b line 2", queries=(progress(),)))
    said = run("status", name).stdout
    assert "state         failed" in said
    assert "host          worker-7, process 4711" in said
    assert "dead letters  none" in said
    assert "  no topic\n  at \\x1b line 2\n" in said
    row = " ".join(said.splitlines()[-1].split())
    assert row == "revenue 3 412/s 59/s 600 230 ms 2026-01-01 00:58:50 60 rows, 13.8 kB"
    (facts,) = objects(run("status", name, "--json").stdout)
    assert (facts["state"], facts["lag"], facts["queries"][0]["batch"]) == ("failed", 600, 3)


def test_a_status_tells_dead_letters_and_what_is_not_known(run, book, name):
    dead = (DeadLetters(topic="orders.dead", records=17, last=3),)
    book.say(status(name, rows_out=-1, dead=dead, queries=(progress(output_rows=-1, dead=dead),)))
    said = run("status", name).stdout
    assert "rows out      -\n" in said
    assert "dead letters  17 in orders.dead, 3 with the last batch\n" in said
    assert " ".join(said.splitlines()[-1].split()).startswith("revenue 3 412/s - 600")
    (facts,) = objects(run("status", name, "--json").stdout)
    assert facts["dead"] == [{"topic": "orders.dead", "records": 17, "last": 3}]


def test_a_lost_run_says_since_when(run, book, name):
    book.say(status(name, at_ms=wall_ms() - 3_600_000))
    assert "lost, not heard of for 1h 00m" in run("status", name).stdout


@pytest.mark.parametrize("verb", ["status", "logs", "stop"])
def test_a_mistyped_name_gets_a_guess_and_exit_code_2(run, book, name, verb):
    book.say(status(f"mistyped-{name}"))
    assert f"Did you mean mistyped-{name}?" in run(verb, f"mistyped_{name}", code=2).stderr


def test_watching_as_json_ends_with_the_run(start, book, name):
    book.say(status(name))
    watcher = start("status", name, "--watch", "--json")
    assert json.loads(watcher.stdout.readline())["state"] == "running"
    book.say(status(name, state="done", rows_in=13_000))
    said, _ = watcher.communicate(timeout=PATIENCE_S)
    last = objects(said)[-1]
    assert (last["state"], last["rows_in"]) == ("done", 13_000)
    assert watcher.returncode == 0


def test_watching_on_a_terminal_draws_the_run(start, book, name):
    book.say(status(name, queries=(progress(),)))
    screen, terminal = pty.openpty()
    watcher = start("status", name, "--watch", stdout=terminal)
    os.close(terminal)
    seen = io.BytesIO()

    def draw():
        seen.write(os.read(screen, 65_536))
        return b"13.8 kB" in seen.getvalue()

    until(draw, "the query's row")
    book.say(status(name, state="stopped", queries=(progress(),)))
    with contextlib.suppress(OSError):  # which is how a terminal ends
        while got := os.read(screen, 65_536):
            seen.write(got)
    os.close(screen)
    assert watcher.wait(PATIENCE_S) == 0
    assert b"stopped" in seen.getvalue()


# --- logs ------------------------------------------------------------------------------------------


@pytest.fixture
def logged(book, name):
    """A pipeline that ran twice."""
    book.say(status(name, state="starting"))
    book.log(name, "run-1", "warning", "slow \x1b disk", wall_ms())
    book.progressed(name, "run-1", progress())
    book.say(status(name, state="failed", error="disk full"))
    book.say(status(name, run="run-2"))
    book.log(name, "run-2", "info", "second", wall_ms())
    book.say(status(name, run="run-2", rows_in=1))
    return name


def texts(result):
    """Without the times."""
    return [" ".join(line.split()[2:]) for line in result.stdout.splitlines()]


def test_logs_tell_states_and_lines_and_batches_on_request(run, logged):
    expected = [
        "run-1 state starting: on worker-7, process 4711, local[*]",
        "run-1 warning slow \\x1b disk",
        "run-1 state failed: disk full",
        "run-2 state running",
        "run-2 info second",
    ]
    assert texts(run("logs", logged)) == expected
    assert texts(run("logs", logged, "-n", "2")) == expected[-2:]
    assert texts(run("logs", logged, "--run", "run-1")) == expected[:3]
    assert texts(run("logs", logged, "--since", "1h ago")) == expected
    batch = "run-1 batch revenue 3: 400 rows in, 58 out, lag 600, took 230 ms"
    assert texts(run("logs", logged, "--batches")) == [*expected[:2], batch, *expected[2:]]


def test_batches_of_a_log_keep_dead_letters_and_say_what_is_not_known(run, book, name):
    book.say(status(name))
    book.progressed(
        name, "run-1", progress(output_rows=-1, dead=(DeadLetters(topic="orders.dead", records=17, last=3),))
    )
    book.say(status(name, rows_in=2))
    batch = "run-1 batch revenue 3: 400 rows in, - out, lag 600, took 230 ms, 3 to orders.dead"
    assert texts(run("logs", name, "--batches"))[-1] == batch


def test_logs_for_machines_hold_everything(run, logged):
    events = objects(run("logs", logged, "--batches", "--json").stdout)
    assert [event["kind"] for event in events] == ["state", "log", "progress", "state", "state", "log"]
    assert events[2]["progress"]["lag"] == 600


def test_a_run_without_events_says_so(run, logged):
    assert run("logs", logged, "--run", "run-9").stderr == "Nothing was logged.\n"


@pytest.mark.parametrize(
    "flags", [("--since", "17"), ("--since", "soon"), ("-n", "0"), ("-n", "1", "--since", "1h ago")]
)
def test_what_is_no_place_to_begin_is_refused(run, logged, flags):
    run("logs", logged, *flags, code=2)


def test_following_prints_what_comes_until_it_is_interrupted(start, book, logged):
    follower = start("logs", logged, "-f", "-n", "1")
    assert follower.stdout.readline().rstrip().endswith("second")
    book.log(logged, "run-2", "error", "third", wall_ms())
    book.say(status(logged, run="run-2", rows_in=2))
    assert follower.stdout.readline().rstrip().endswith("third")
    follower.send_signal(signal.SIGINT)
    assert follower.wait(PATIENCE_S) == 0


# --- stop ------------------------------------------------------------------------------------------


def test_stopping_returns_when_the_run_says_so(run, book, name):
    with obedient(book, status(name)):
        assert run("stop", name).stdout == f"{name}: stopped\n"
    (facts,) = objects(run("status", name, "--json").stdout)
    assert facts["state"] == "stopped"


def test_stopping_for_machines_gives_the_last_status(run, book, name):
    with obedient(book, status(name)):
        (facts,) = objects(run("stop", name, "--json").stdout)
    assert (facts["pipeline"], facts["state"]) == (name, "stopped")


def test_without_waiting_it_is_only_asked(run, book, name):
    started = status(name)
    book.say(started)
    assert run("stop", name, "--wait", "0").stdout == f"{name}: asked to stop\n"
    assert book.stop_asked(started)


def test_a_run_that_does_not_stop_in_time_is_an_error(run, book, name):
    book.say(status(name))
    said = run("stop", name, "--wait", "0.1", code=1).stderr
    assert "after 0.1 s it is still running" in said


def test_a_run_that_fails_instead_is_an_error_with_its_reason(run, book, name):
    book.say(status(name))
    asked = threading.Thread(
        target=lambda: (
            until(lambda: book.stop_asked(status(name))),
            book.say(status(name, state="failed", error="disk full")),
        )
    )
    asked.start()
    assert "disk full" in run("stop", name, code=1).stderr
    asked.join()


def test_what_does_not_run_cannot_be_stopped(run, book, name):
    book.say(status(name, state="done"))
    assert "does not run: it is done" in run("stop", name, code=2).stderr
    book.say(status(f"{name}-lost", at_ms=wall_ms() - 60_000))
    assert "is lost: process 4711 on worker-7" in run("stop", f"{name}-lost", code=2).stderr
