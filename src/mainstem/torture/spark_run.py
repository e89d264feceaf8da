"""A copy and windows of many rows through Spark, while driver, executors and broker are killed."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mainstem.client import Client, ClientSettings, parse_bootstrap
from mainstem.client.admin import create_topic
from mainstem.model.errors import InvalidRequest, MainstemError
from mainstem.pipeline.session import require_spark
from mainstem.torture.server import Server
from mainstem.torture.spark_feeder import Feeder
from mainstem.torture.spark_house import Cluster, House, Local, Process, kill, start_driver
from mainstem.torture.spark_job import DRAIN, DRAINED, FINISH, Job
from mainstem.torture.spark_judge import SparkVerdict, judge
from mainstem.torture.spark_rows import Rows
from mainstem.torture.spark_strikes import CLUSTER_KINDS, LOCAL_KINDS, Strike, plan_strikes
from mainstem.torture.spark_watch import (
    COPY_PARTITIONS,
    INPUT_PARTITIONS,
    SUM_PARTITIONS,
    Watcher,
    read_output,
)

LOOK_EVERY_S = 0.05
TELL_EVERY_S = 5.0
LEAD = 0.1  # of the rows: so far the feeder may be ahead of the copy
VICTIM_TIMEOUT_S = 300.0  # a driver on an overloaded machine takes minutes to start
STALL_S = 600.0  # without a row more, or a driver more
# Drivers in a row that end by themselves before a row more is copied. Some may: Spark ends a query if one of
# its tasks failed too often, or if a Python process took more than ten seconds to start.
MOST_IN_VAIN = 5
# A file is 1 MiB under `mainstem torture`. Here hundreds of MiB are written: rolls and merges stay frequent.
SETTINGS = {
    "journal.file_bytes": "8 MiB",
    "journal.reserve_bytes": "1 MiB",
    "snapshot.journal_bytes": "8 MiB",
}


@dataclass(frozen=True, slots=True)
class SparkPlan:
    """`folder` must not exist or be empty."""

    folder: Path
    seed: int
    rows: int = 1_000_000
    kills: int = 20
    triggers: int = 60  # about: so many take all rows
    cluster: bool = True
    with_firsts: bool = True  # the third query, too

    @property
    def rows_per_trigger(self) -> int:
        return max(1, self.rows // self.triggers)


@dataclass(slots=True)
class SparkProgress:
    """How far a run is; given to `report` now and then, and whenever something is killed."""

    seed: int
    rows: int
    kills: int
    state: str = "starting"
    strikes: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    copied: int = 0
    windows: int = 0
    drivers: int = 0
    ended: int = 0  # drivers that ended though nobody killed them
    elapsed_s: float = 0.0
    verdict: SparkVerdict = field(default_factory=SparkVerdict)
    crash: str = ""  # the run could not go on: why

    @property
    def is_good(self) -> bool:
        return self.verdict.is_good and not self.crash


Report = Callable[[SparkProgress], None]


def torture_spark(plan: SparkPlan, report: Report = lambda progress: None) -> SparkProgress:
    """What is left of a bad run stays in the folder, with all logs."""
    require_spark()
    if plan.folder.exists() and (not plan.folder.is_dir() or any(plan.folder.iterdir())):
        raise InvalidRequest(f"{plan.folder} is not empty; name a folder that can be filled and deleted")
    plan.folder.mkdir(parents=True, exist_ok=True)
    run = _Run(plan, report)
    try:
        run.go()
    finally:
        run.end()
    if run.progress.is_good:
        shutil.rmtree(plan.folder)
    return run.progress


class _Run:
    def __init__(self, plan: SparkPlan, report: Report) -> None:
        self._plan = plan
        self._folder = plan.folder.resolve()
        self._report = report
        self.progress = SparkProgress(plan.seed, plan.rows, plan.kills)
        self._begun_s = self._moved_s = self._told_s = time.monotonic()
        kinds = CLUSTER_KINDS if plan.cluster else LOCAL_KINDS
        self._strikes = plan_strikes(plan.seed, plan.kills, plan.rows, kinds)
        self._server = Server(self._folder / "data", SETTINGS)
        self._house: House = Cluster(self._folder) if plan.cluster else Local()
        self._driver: Process | None = None
        self._in_vain = 0

    def go(self) -> None:
        try:
            self._server.start()
            self._house.start()
            job = self._job()
            settings = ClientSettings(parse_bootstrap(self._server.kafka), client_id="torture", attempts=1)
            self._make_topics(settings, job)
            rows = Rows(self._plan.rows, self._plan.seed)
            watcher = Watcher(settings, job)
            lead = max(int(self._plan.rows * LEAD), 2 * job.rows_per_trigger)
            feeder = Feeder(settings, job.source, rows, lead, lambda: watcher.reached(job.copies))
            watcher.start()
            feeder.start()
            try:
                self._until_done(job, feeder, watcher)
            finally:
                feeder.stop()
                watcher.stop()
            self._say("check")
            self.progress.verdict = judge(rows, read_output(settings, job), watcher.shown())
        except MainstemError as error:
            self.progress.crash = str(error)
        self._say("done")

    def end(self) -> None:
        if self._driver is not None:
            self._driver.kill()
        self._house.stop()
        self._server.kill_all()
        if not self.progress.is_good:
            shutil.copy(self._server.log, self._folder / "broker.log")

    # --- what runs -----------------------------------------------------------------------------------

    def _job(self) -> Job:
        return Job(
            self._house.master,
            self._server.kafka,
            str(self._folder),
            self._plan.rows_per_trigger,
            dict(self._house.settings),
            with_firsts=self._plan.with_firsts,
        )

    def _make_topics(self, settings: ClientSettings, job: Job) -> None:
        with Client(settings) as client:
            # Rows have the time of their events: retention would take them.
            create_topic(client, job.source, INPUT_PARTITIONS, {"retention.ms": "-1"})
            for topic in job.outputs:
                create_topic(client, topic, COPY_PARTITIONS if topic == job.copies else SUM_PARTITIONS)

    def _start_driver(self, job: Job) -> None:
        self.progress.drivers += 1
        self._driver = start_driver(job, self._folder / f"driver-{self.progress.drivers:03}.log")
        self._moved_s = time.monotonic()

    def _until_done(self, job: Job, feeder: Feeder, watcher: Watcher) -> None:
        waiting = list(self._strikes)
        self._start_driver(job)
        while not self._has_ended(job):
            self._look(job, feeder, watcher)
            if waiting and self.progress.copied >= waiting[0].at_rows:
                self._strike(waiting.pop(0), job)
            if not waiting and feeder.has_sent_all_but_one:
                self._lead_out(feeder)
            time.sleep(LOOK_EVERY_S)

    def _look(self, job: Job, feeder: Feeder, watcher: Watcher) -> None:
        progress, now_s = self.progress, time.monotonic()
        if wrong := feeder.wrong or watcher.wrong:
            raise MainstemError(wrong)
        copied, windows = watcher.reached(job.copies), watcher.reached(job.windows)
        if copied > progress.copied:
            self._in_vain = 0
        if (copied, windows, feeder.sent) != (progress.copied, progress.windows, progress.sent):
            self._moved_s = now_s
        progress.copied, progress.windows, progress.sent = copied, windows, feeder.sent
        if now_s - self._moved_s > STALL_S:
            assert self._driver is not None
            raise MainstemError(f"nothing has moved for {STALL_S:.0f} s:\n{self._driver.log_tail()}")
        if now_s - self._told_s > TELL_EVERY_S:
            self._say(progress.state)

    def _has_ended(self, job: Job) -> bool:
        """Whether all is done. A driver that ended by itself is started again, as its keeper would."""
        assert self._driver is not None
        code = self._driver.poll()
        if code is None:
            return False
        if code == 0 and (self._folder / FINISH).exists():
            return True
        self.progress.ended += 1
        self._in_vain += 1
        if self._in_vain > MOST_IN_VAIN:
            raise MainstemError(f"drivers end with {code}, again and again:\n{self._driver.log_tail()}")
        self._start_driver(job)
        self._say("a driver ended by itself and is started again")
        return False

    def _lead_out(self, feeder: Feeder) -> None:
        """All is sent: have the rest read, close all windows with one more row, and end."""
        if not (self._folder / DRAIN).exists():
            (self._folder / DRAIN).touch()
            self._say("the rest is read")
        if (self._folder / DRAINED).exists() and not (self._folder / FINISH).exists():
            feeder.finish()
            (self._folder / FINISH).touch()
            self._say("windows are closed")

    # --- strikes -------------------------------------------------------------------------------------

    def _strike(self, strike: Strike, job: Job) -> None:
        time.sleep(strike.wait_s)
        if strike.kind == "broker":
            self._server.kill()
            self._tell_of(strike)
            time.sleep(strike.away_s)
            self._server.start()
        elif strike.kind == "driver":
            assert self._driver is not None
            self._driver.kill()
            self._tell_of(strike)
            self._start_driver(job)
        else:
            self._kill_one(strike)
            self._tell_of(strike)

    def _kill_one(self, strike: Strike) -> None:
        """An executor, or a worker: after another strike they may have to come back first."""
        assert self._driver is not None
        until = time.monotonic() + VICTIM_TIMEOUT_S
        while time.monotonic() < until:
            house = self._house
            found = house.executors() if strike.kind == "executor" else house.python_workers(self._driver.pid)
            if found and kill(found[int(strike.choice * len(found))]):
                return
            time.sleep(LOOK_EVERY_S)
        raise MainstemError(
            f"no {strike.kind} to kill in {VICTIM_TIMEOUT_S:.0f} s:\n{self._driver.log_tail()}"
        )

    def _tell_of(self, strike: Strike) -> None:
        self.progress.strikes[strike.kind] += 1
        self._say(f"killed: {strike.kind}")

    def _say(self, state: str) -> None:
        self.progress.state = state
        self._told_s = time.monotonic()
        self.progress.elapsed_s = self._told_s - self._begun_s
        self._report(self.progress)
