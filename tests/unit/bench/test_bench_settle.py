"""What counts as a quiet machine, and what happens to runs on one that was not."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from bench import meter, wire
from bench.lab import WAITING_FILES, Lab, parse_metrics
from bench.peers import Server
from bench.scenarios.consume import FETCH_BYTES, records_per_batch
from bench.settle import (
    CALM_S,
    MOST_REPEATS,
    STEP_S,
    Pulse,
    Settled,
    is_disturbed,
    is_to_repeat,
    wait_until_idle,
)

STEPS = int(CALM_S / STEP_S)


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def settle(pulses: Sequence[Pulse], limit_s: float = 60) -> Settled:
    """One broker, looked at once a step; it stays as it was last seen."""
    seen: Iterator[Pulse] = itertools.chain(pulses, itertools.repeat(pulses[-1]))
    clock = Clock()
    return wait_until_idle(lambda: {1: next(seen)}, limit_s, clock, clock.sleep)


def test_idle_broker_settles_after_the_calm_time():
    assert settle([Pulse(5.0, 10**9, False)]) == Settled(CALM_S)


def test_nothing_that_runs_is_not_waited_for():
    clock = Clock()
    assert wait_until_idle(dict, 60, clock, clock.sleep) == Settled(0)


def test_work_that_begins_late_starts_the_calm_time_again():
    calm = [Pulse(5.0, 0, False)] * STEPS
    assert settle([*calm, Pulse(5.4, 0, False)]) == Settled(2 * CALM_S)


@pytest.mark.parametrize("busy", [Pulse(5.0, 64 << 20, False), Pulse(5.0, 0, True), Pulse(5.4, 0, False)])
def test_reading_and_writing_held_children_and_cpu_all_count_as_work(busy: Pulse):
    assert settle([Pulse(5.0, 0, False), busy, replace(busy, held=False)]).seconds > CALM_S


def test_every_broker_has_to_be_idle():
    clock = Clock()
    looks = itertools.count()
    settled = wait_until_idle(
        lambda: {1: Pulse(0, 0, False), 2: Pulse(float(next(looks)), 0, False)}, 20, clock, clock.sleep
    )
    assert settled == Settled(20, gave_up=True)
    assert settled.metrics() == {"settled_s": 20, "unsettled": 1}


def test_little_cpu_of_idle_brokers_is_accepted_and_more_the_longer_a_run_takes():
    assert not is_disturbed(0.3, 5)
    assert is_disturbed(0.4, 5)
    assert not is_disturbed(2.4, 60)
    assert is_disturbed(4.0, 60)


def test_disturbed_run_is_repeated_a_few_times_and_a_quiet_one_never():
    assert [is_to_repeat(1.0, 5, repeats) for repeats in range(MOST_REPEATS + 1)] == [True] * MOST_REPEATS + [
        False
    ]
    assert not is_to_repeat(0.1, 5, 0)


@pytest.mark.parametrize(
    ("stolen", "kept", "repeats", "disturbed"),
    [([0.1], 0.1, 0, 0), ([2.0, 0.2], 0.2, 1, 0), ([2.0, 3.0, 4.0, 5.0], 5.0, 3, 1)],
)
def test_load_keeps_its_last_run_and_says_how_often_it_was_repeated(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stolen: list[float],
    kept: float,
    repeats: int,
    disturbed: int,
):
    runs = iter(stolen)
    monkeypatch.setattr(Lab, "settle", lambda _: Settled(3.0))
    monkeypatch.setattr(Lab, "_metered_once", lambda *_: {"idle_broker_cpu_s": next(runs)})
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    result = Lab(tmp_path, quick=True).metered_load(Server("a", process, tmp_path, 1, None, 0.0), "raw", "t")
    assert result == {
        "idle_broker_cpu_s": kept,
        "settled_s": 3.0,
        "unsettled": 0,
        "repeats": repeats,
        "disturbed": disturbed,
    }
    assert next(runs, None) is None


def test_meter_counts_children_that_run_that_ended_and_that_are_held():
    # More than is asked for below: user and system time are each told in whole ticks, cut, not rounded.
    work = (
        "import time\nwhile time.process_time() < 0.3: pass\nprint(open('/dev/zero', 'rb').read(9 << 20)[:0])"
    )
    outer = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {work!r}])\nsys.stdin.read()"
    # The middle process waits for one child that ended; the outer one has it as a child that lives.
    shell = ["sh", "-c", '"$0" -c "$1"; true', sys.executable, outer]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        middle = meter.tree(process.pid)[1]
        while len(meter.tree(process.pid)) > 2:
            os.sched_yield()
        assert meter.cpu_s(process.pid) >= 0.2
        assert meter.moved_bytes(process.pid) >= 9 << 20
        assert not meter.is_held(process.pid)
        os.kill(middle, signal.SIGSTOP)
        while not meter.is_held(process.pid):
            os.sched_yield()
        os.kill(middle, signal.SIGCONT)
        process.stdin.close()


def test_metrics_are_found_with_their_labels_and_summed_without():
    text = '# HELP x y\nmainstem_log_files{level="0"} 3\nmainstem_log_files{level="1"} 2.0\nup 1\nodd line\n'
    assert parse_metrics(text) == {
        WAITING_FILES: 3,
        'mainstem_log_files{level="1"}': 2,
        "mainstem_log_files": 5,
        "up": 1,
    }


@pytest.mark.parametrize("record_bytes", [100, 1024])
def test_batch_of_a_consume_scenario_fills_a_fetch_up_to_less_than_a_record(record_bytes: int):
    assert len(wire._batch(bytes(100))) == wire.BATCH_HEAD_BYTES + len(wire.record(0, bytes(100)))
    count = records_per_batch(record_bytes)
    size = wire.BATCH_HEAD_BYTES + sum(len(wire.record(i, bytes(record_bytes))) for i in range(count))
    assert FETCH_BYTES - len(wire.record(count, bytes(record_bytes))) < size <= FETCH_BYTES
