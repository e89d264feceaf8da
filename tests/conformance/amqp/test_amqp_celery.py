"""Celery with real workers: tasks, delays, retries, priorities, results, chords, remote control, events."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from amqp_kit import PATIENCE_S, new_name, until
from celery import Celery, chain, chord, group
from celery.exceptions import TaskRevokedError
from celery_shop import make_app

# Workers take seconds to start.
pytestmark = pytest.mark.timeout(180)
QUICK = ("--without-mingle", "--without-gossip", "-P", "solo")


@contextmanager
def worker(
    address: str, folder: Path, app: Celery, backend: str, *flags: str, **more: object
) -> Iterator[int]:
    """A worker in a process of its own, which answers already; its process id."""
    queue = app.conf.task_default_queue
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parent),
        "SHOP_ADDRESS": address,
        "SHOP_BACKEND": backend,
        "SHOP_QUEUE": queue,
        "SHOP_MORE": json.dumps(more),
    }
    command = [sys.executable, "-m", "celery", "-A", "celery_shop", "worker", "-n", f"{queue}@here"]
    log = folder / "worker.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "-l", "INFO", *flags],
            env=environment,
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        until(
            lambda: app.control.ping(timeout=0.5) or process.poll() is not None,
            "a worker that answers",
            60,
        )
        assert process.poll() is None, log.read_text()
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def rpc(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Celery]:
    """Four threads; results come back as messages."""
    app = make_app(address, "rpc://", new_name("rpc"))
    with worker(address, tmp_path_factory.mktemp("rpc"), app, "rpc://", "-P", "threads", "-c", "4"):
        yield app
    app.close()


@pytest.fixture(scope="module")
def single(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Celery]:
    """One task at a time from a queue with priorities; results in an SQLite file."""
    folder = tmp_path_factory.mktemp("single")
    backend = f"db+sqlite:///{folder}/results.sqlite"
    more = {"max_priority": 9, "worker_prefetch_multiplier": 1, "task_acks_late": True}
    app = make_app(address, backend, new_name("single"), **more)
    with worker(address, folder, app, backend, *QUICK[:2], "-P", "threads", "-c", "1", **more):
        yield app
    app.close()


def ask(app: Celery, name: str, *arguments: object, **more: object) -> object:
    return app.send_task(f"shop.{name}", arguments, **more)


# --- tasks and results ---------------------------------------------------------------------------


def test_a_task_is_done_and_its_result_comes_back(rpc):
    assert ask(rpc, "add", 2, 3).get(timeout=PATIENCE_S) == 5


def test_many_tasks_are_all_done(rpc):
    results = [ask(rpc, "add", number, number) for number in range(100)]
    assert [result.get(timeout=PATIENCE_S) for result in results] == [2 * number for number in range(100)]


def test_large_arguments_and_results_travel(rpc):
    thing = {"text": "x" * 300_000, "list": list(range(1000))}
    assert ask(rpc, "echo", thing).get(timeout=PATIENCE_S) == thing


def test_an_exception_is_raised_where_the_result_is_asked_for(rpc):
    with pytest.raises(ValueError, match="no good"):
        ask(rpc, "fail", "no good").get(timeout=PATIENCE_S)


def test_groups_and_chains(rpc):
    add = rpc.signature("shop.add")
    parts = group([add.clone((number, 1)) for number in range(5)], app=rpc)
    assert parts.apply_async().get(timeout=PATIENCE_S) == [1, 2, 3, 4, 5]
    steps = chain(add.clone((1, 2)), add.clone((10,)), add.clone((100,)), app=rpc)
    assert steps.apply_async().get(timeout=PATIENCE_S) == 113


@pytest.mark.parametrize("how", ["countdown", "eta"])
def test_a_delayed_task_is_not_done_before_its_time(rpc, how):
    due = time.time() + 0.3
    when = {"countdown": 0.3} if how == "countdown" else {"eta": datetime.fromtimestamp(due, UTC)}
    assert ask(rpc, "now", **when).get(timeout=PATIENCE_S) >= due - 0.01


def test_a_task_that_expired_is_not_done(rpc, tmp_path):
    never = ask(rpc, "note", str(tmp_path / "notes"), "never", countdown=0.4, expires=0.2)
    ask(rpc, "note", str(tmp_path / "notes"), "done").get(timeout=PATIENCE_S)
    with pytest.raises(TaskRevokedError):
        never.get(timeout=PATIENCE_S)
    assert (tmp_path / "notes").read_text() == "done\n"


def test_a_failing_task_is_tried_again(rpc):
    assert ask(rpc, "stubborn", 3).get(timeout=PATIENCE_S) == 4


def test_a_chord_waits_for_all_its_parts(single):
    add = single.signature("shop.add")
    body = single.signature("shop.total")
    result = chord([add.clone((n, n)) for n in range(10)], app=single)(body)
    assert result.get(timeout=PATIENCE_S) == 90


def test_urgent_tasks_overtake_others(single, tmp_path):
    started, release, notes = (str(tmp_path / name) for name in ("started", "release", "notes"))
    hold = ask(single, "hold", started, release, priority=9)
    until(lambda: Path(started).exists())
    rest = [ask(single, "note", notes, f"{priority}", priority=priority) for priority in (0, 5, 9, 1, 9, 5)]
    Path(release).touch()
    assert hold.get(timeout=PATIENCE_S) is False
    for result in rest:
        result.get(timeout=PATIENCE_S)
    assert Path(notes).read_text().split() == ["9", "9", "5", "5", "1", "0"]


# --- remote control and events -------------------------------------------------------------------


def test_workers_answer_to_remote_control(rpc):
    name = f"{rpc.conf.task_default_queue}@here"
    assert rpc.control.ping(timeout=PATIENCE_S, limit=1) == [{name: {"ok": "pong"}}]
    inspect = rpc.control.inspect(destination=[name], timeout=PATIENCE_S, limit=1)
    assert "shop.add" in inspect.registered()[name]
    assert [queue["name"] for queue in inspect.active_queues()[name]] == [rpc.conf.task_default_queue]


def test_a_worker_can_be_given_another_queue_and_lose_it(rpc):
    other = new_name("other")
    added = rpc.control.add_consumer(other, reply=True, timeout=PATIENCE_S, limit=1)
    assert next(iter(added[0].values()))["ok"]
    assert ask(rpc, "add", 1, 1, queue=other).get(timeout=PATIENCE_S) == 2
    removed = rpc.control.cancel_consumer(other, reply=True, timeout=PATIENCE_S, limit=1)
    assert next(iter(removed[0].values()))["ok"]


def test_a_revoked_task_is_not_done(rpc, tmp_path):
    notes = tmp_path / "notes"
    waiting = ask(rpc, "note", str(notes), "never", countdown=0.5)
    rpc.control.revoke(waiting.id, reply=True, timeout=PATIENCE_S, limit=1)
    with pytest.raises(TaskRevokedError):
        waiting.get(timeout=PATIENCE_S)
    assert not notes.exists()


def test_events_tell_the_life_of_a_task(rpc):
    seen = []
    with rpc.connection_for_read() as connection:
        handlers = {"*": lambda event: seen.append((event["type"], event.get("uuid")))}
        receiver = rpc.events.Receiver(connection, handlers=handlers)
        with receiver.consumer_context() as (events, _, _):
            result = ask(rpc, "add", 1, 2)

            def told():
                with suppress(TimeoutError):
                    events.drain_events(timeout=0.05)
                return ("task-succeeded", result.id) in seen

            until(told)
    life = [kind for kind, task in seen if task == result.id]
    assert [kind for kind in life if kind != "task-sent"] == [
        "task-received",
        "task-started",
        "task-succeeded",
    ]


# --- failures ------------------------------------------------------------------------------------


def test_what_a_killed_worker_held_is_done_by_the_next(address, tmp_path):
    backend = f"db+sqlite:///{tmp_path}/results.sqlite"
    app = make_app(address, backend, new_name("killed"))
    started, release = tmp_path / "started", tmp_path / "release"
    with worker(address, tmp_path, app, backend, *QUICK) as pid:
        result = ask(app, "hold", str(started), str(release))
        until(started.exists)
        os.kill(pid, 9)
    release.touch()
    with worker(address, tmp_path, app, backend, *QUICK):
        assert result.get(timeout=PATIENCE_S) is True
    assert started.read_text() == "started\n" * 2
    app.close()


def test_delays_over_quorum_queues_go_through_the_brokers_own_timers(address, tmp_path):
    # With quorum queues Celery keeps delays in a ladder of queues with a time to live, bound by topics.
    backend = f"db+sqlite:///{tmp_path}/results.sqlite"
    more = {"task_default_queue_type": "quorum", "task_default_exchange_type": "topic"}
    app = make_app(address, backend, new_name("quorum"), **more)
    with worker(address, tmp_path, app, backend, *QUICK, **more):
        due = time.time() + 1
        delayed = ask(app, "now", countdown=1)
        assert ask(app, "add", 1, 2).get(timeout=PATIENCE_S) == 3
        assert delayed.get(timeout=PATIENCE_S) >= due - 1
    app.close()
