"""The mill as a real child process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from merge_house import EAGER, LOG_OPTIONS, House, Nothing, NowExecutor, fail, post

from mainstem.kernel.log.disk import OsDisk
from mainstem.kernel.log.jobs import Failed, Input, Merged, MergeJob, Sealed, SealJob
from mainstem.kernel.log.layout import FileKind
from mainstem.kernel.log.log import Log
from mainstem.kernel.log.mill import Pace
from mainstem.kernel.log.miller import Miller
from mainstem.kernel.log.recover import recover
from mainstem.kernel.log.upkeep import Upkeep


class Mailbox:
    """Posts land here; the test takes them on its own thread."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Callable[[Any], None], Any]] = SimpleQueue()

    def post(self, function: Callable[[Any], None], argument: Any) -> None:
        self._queue.put((function, argument))

    def take(self) -> None:
        function, argument = self._queue.get(timeout=60)
        function(argument)


def seal_job(house: House) -> SealJob:
    entry = next(entry for entry in house.log.files.manifest.journals if entry.size)
    return SealJob(house.folder, Input(entry.file_id, FileKind.JOURNAL, entry.size))


def test_a_child_seals_and_merges_and_ends_when_it_is_closed(tmp_path):
    house = House(str(tmp_path))
    for at in range(30):
        house.append(at % 3)
    house.fan_out([4, 5])
    house.settle()
    mail, heard = Mailbox(), []
    miller = Miller(mail.post)
    upkeep = Upkeep(house.log, house.facts, miller, post, EAGER)
    while not house.log.files.manifest.runs or upkeep.busy:
        house.now_ms += 1
        while upkeep.tick(house.now_ms):
            pass
        if upkeep.busy:
            mail.take()
            heard.append(miller.pid)
    house.check()
    assert len(set(heard)) == 1  # one child for all jobs
    pid = miller.pid
    upkeep.close()
    assert not os.path.exists(f"/proc/{pid}")


def test_a_killed_child_is_a_failed_job_and_the_next_job_gets_a_new_child(tmp_path):
    house = House(str(tmp_path))
    house.append(1)
    house.roll()
    mail, outcomes = Mailbox(), []
    miller = Miller(mail.post, bytes_per_second=1000)  # far slower than the test
    miller.start(seal_job(house), outcomes.append)
    while miller.pid is None:
        os.sched_yield()
    os.kill(miller.pid, signal.SIGKILL)
    mail.take()
    assert isinstance(outcomes[0], Failed)
    fast = Miller(mail.post)
    fast.start(seal_job(house), outcomes.append)
    mail.take()
    assert isinstance(outcomes[1], Sealed)
    fast.close()
    miller.close()


def test_a_job_that_fails_is_reported_and_tried_again_later(tmp_path, caplog):
    house = House(str(tmp_path))
    house.append(1)
    house.roll()
    assert isinstance(house.plan(), SealJob)
    job, on_done = house.runner.jobs.popleft()
    on_done(Failed("the mill died with exit code -9"))
    assert not house.upkeep.busy
    assert house.plan() is None
    assert "upkeep failed" in caplog.text
    house.now_ms += EAGER.retry_ms
    assert house.plan() is None, "merges come first once"
    assert house.plan() == job
    house.check()


CHILD = """
import os, sys
from merge_house import House, post
from test_mill import Mailbox
from mainstem.kernel.log.miller import Miller
from mainstem.kernel.log.upkeep import Upkeep
from merge_house import EAGER
house = House(sys.argv[1])
for at in range(200):
    house.append(at % 5, size=100)
house.settle()
house.work(1)
mail = Mailbox()
miller = Miller(mail.post, bytes_per_second=2000)
upkeep = Upkeep(house.log, house.facts, miller, post, EAGER)
while upkeep.tick(house.now_ms):
    pass
while miller.pid is None:
    os.sched_yield()
print(miller.pid, flush=True)
mail.take()
"""


def test_a_killed_parent_takes_the_child_with_it_and_a_restart_finds_everything(tmp_path):
    here = os.path.dirname(__file__)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *sys.path])}
    parent = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert parent.stdout is not None
    mill = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    while _runs(mill):
        os.sched_yield()
    log = Log(
        recover(OsDisk(), str(tmp_path), 16 << 10, Nothing(), str), LOG_OPTIONS, post, fail, NowExecutor()
    )
    for partition in range(5):
        read = [batch for at in range(40) for batch in log.read(partition, at, 1, at + 1, wait=True)]
        assert len(read) == 40


def _runs(pid: int) -> bool:
    """Whether it is there and not a zombie that nobody has waited for."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_pace_spreads_bytes_over_time(monkeypatch):
    now, slept = [100.0], []
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("time.sleep", sleep)
    pace = Pace(1_000_000)
    for _ in range(20):
        pace(100_000)
    assert 1.9 <= sum(slept) <= 2.1


def test_jobs_and_outcomes_survive_the_pipe():
    from mainstem.kernel.log.jobs import CompactOrder, NewRun
    from mainstem.kernel.log.mill import decode_job, decode_outcome, encode_job

    job = MergeJob(
        "f",
        [Input(1, 1, 5)],
        [],
        [Input(2, 2, 6)],
        [(3, 4)],
        {5: 6},
        {5: CompactOrder(1, 2, 3, True)},
        [7],
        8,
    )
    assert decode_job(encode_job(job)) == job
    outcome = Merged([NewRun(1, 2, True, 3)], 1, 2, 3, 4, 5)
    assert decode_outcome(encode_job(outcome)) == outcome
