"""The cycles: load, strike, start again, come to rest, judge. Whose load it is, a stage knows."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random  # noqa: TID251 - seeded, and the seed is shown: a run can be repeated
from typing import Protocol

from mainstem.model.errors import InvalidRequest, MainstemError
from mainstem.torture.disks import LoopDisk, why_no_power_cut
from mainstem.torture.faults import AIMS, Fault, Kill, PowerCut, wait_for_moment
from mainstem.torture.gate import Gate
from mainstem.torture.server import PROGRAM, Server
from mainstem.torture.verdict import Verdict

# Then what the load has made is deleted, and it begins anew: a check looks at everything, and must not grow
# for ever.
CYCLES_PER_STAGE = 8
DISK_BYTES = 512 << 20
# A broker that has just been started is struck again at once, every so often.
STRIKE_AGAIN = 0.2
LOOK_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class Plan:
    """`folder` must not exist or be empty. `cycles` or `seconds`, whichever is reached first."""

    folder: Path
    seed: int
    faults: tuple[str, ...] = ("kill",)  # kill, power
    cycles: int | None = None
    seconds: float | None = None
    load_s: float = 1.5  # longest load before a strike
    aims: tuple[str, ...] = tuple(AIMS)  # what to strike into; they take turns in random order
    settings: Mapping[str, object] = field(default_factory=dict)
    program: str = PROGRAM


@dataclass(slots=True)
class Progress:
    """How far a run is; given to `report` whenever something changed."""

    title: str
    seed: int
    verdict: Verdict
    state: str = "starting"
    cycles: int = 0
    strikes: Counter[str] = field(default_factory=Counter)  # by fault
    aims: Counter[str] = field(default_factory=Counter)  # what was under way when it was struck
    acked: int = 0
    elapsed_s: float = 0.0
    slowest_start_s: float = 0.0
    crash: str = ""  # the run could not go on: why

    @property
    def is_good(self) -> bool:
        return self.verdict.is_good and not self.crash


Report = Callable[[Progress], None]


class Stage(Protocol):
    """The load on a broker, from fresh topics or queues on: it lives through a number of strikes."""

    gate: Gate

    @property
    def acked(self) -> int:
        """How much it was promised so far."""

    def struck(self, begun_s: float) -> None:
        """The broker is dead, and was fine until this time (monotonic)."""

    def rest(self, *, last: bool) -> None:
        """The broker is back: everybody brings their work to an end. `last`: nothing comes after this."""

    def judge(self) -> Verdict:
        """Of all that happened on this stage so far."""

    def end(self, *, delete: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class Play:
    """What is to be seen: the title and the promises, and a new stage for each number."""

    title: str
    promises: Mapping[str, str]
    stage: Callable[[int, Server, Random], Stage]


def check_folder(folder: Path) -> None:
    """Only what we made is ever deleted."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidRequest(f"{folder} is not empty; name a folder that can be filled and deleted")


def run(plan: Plan, play: Play, report: Report) -> Progress:
    """Run to the end of the plan or the first finding. What is left of a bad run stays in the folder."""
    if "power" in plan.faults and (missing := why_no_power_cut()):
        raise InvalidRequest(missing)
    check_folder(plan.folder)
    plan.folder.mkdir(parents=True, exist_ok=True)
    disk = LoopDisk(plan.folder, DISK_BYTES) if "power" in plan.faults else None
    if disk is not None:
        disk.create()
    root = disk.path if disk is not None else plan.folder
    server = Server(root / "data", plan.settings, program=plan.program)
    cycles = _Cycles(plan, play, server, disk, report)
    try:
        cycles.go()
    finally:
        server.kill_all()
        if not cycles.progress.is_good:
            shutil.copy(server.log, plan.folder / "broker.log")
        if disk is not None:
            disk.unmount()
    if cycles.progress.is_good:
        shutil.rmtree(plan.folder)
    return cycles.progress


class _Cycles:
    def __init__(self, plan: Plan, play: Play, server: Server, disk: LoopDisk | None, report: Report) -> None:
        self.plan = plan
        self._play = play
        self.server = server
        self.progress = Progress(play.title, plan.seed, Verdict(play.promises))
        self._report = report
        self._chance = Random(plan.seed)
        self._faults: Sequence[Fault] = [
            PowerCut(disk) if name == "power" and disk is not None else Kill() for name in plan.faults
        ]
        self._begun_s = time.monotonic()
        self._aims: list[str] = []
        self._acked_before = 0
        self._stages = 0

    def go(self) -> None:
        try:
            self._start()
            self._begun_s = time.monotonic()  # the time that was asked for is time under load
            while self.progress.is_good and not self._is_over(self.progress.cycles):
                self._use_stage()
        except MainstemError as error:
            self.progress.crash = str(error)
        self._say("done")

    def _is_over(self, cycles: int) -> bool:
        plan = self.plan
        return (plan.cycles is not None and cycles >= plan.cycles) or (
            plan.seconds is not None and time.monotonic() - self._begun_s >= plan.seconds
        )

    def _use_stage(self) -> None:
        self._stages += 1
        stage = self._play.stage(self._stages, self.server, self._chance)
        judged = Verdict(self._play.promises)
        try:
            last = False
            at = 0
            while judged.is_good and not last:
                at += 1
                self._load_and_strike(stage)
                self._start()
                last = at == CYCLES_PER_STAGE or self._is_over(self.progress.cycles + 1)
                self._say("clients come to rest", stage)
                stage.rest(last=last)
                self._say("check", stage)
                judged = stage.judge()
                self.progress.cycles += 1
        finally:
            # Each judgement is of the whole stage: the last one counts.
            self.progress.verdict.add(judged)
            self._acked_before += stage.acked
            stage.end(delete=judged.is_good and self.server.poll() is None)

    def _load_and_strike(self, stage: Stage) -> None:
        aim = self._next_aim()
        fault = self._chance.choice(self._faults)
        self._say(f"load, until {fault.name} at {aim}", stage)
        stage.gate.open()
        hit = wait_for_moment(self.server.data, aim, self._chance, self.plan.load_s)
        if self.server.poll() is not None:
            raise MainstemError(f"the broker ended by itself:\n{self.server.log_tail()}")
        self._strike(fault, aim if hit else "any moment", stage)
        self._say("recovery", stage)
        while self._chance.random() < STRIKE_AGAIN:
            self.server.launch()
            time.sleep(self._chance.random() * 0.5)
            self._strike(fault, "recovery", stage)

    def _next_aim(self) -> str:
        if not self._aims:
            self._aims = self._chance.sample(self.plan.aims, len(self.plan.aims))
        return self._aims.pop()

    def _strike(self, fault: Fault, aim: str, stage: Stage) -> None:
        begun_s = time.monotonic()
        fault.strike(self.server)
        stage.struck(begun_s)
        self.progress.strikes[fault.name] += 1
        self.progress.aims[aim] += 1

    def _start(self) -> None:
        begun_s = time.monotonic()
        self.server.start()
        took_s = time.monotonic() - begun_s
        self.progress.slowest_start_s = max(self.progress.slowest_start_s, took_s)

    def _say(self, state: str, stage: Stage | None = None) -> None:
        self.progress.state = state
        here = stage.acked if stage is not None else 0
        self.progress.acked = self._acked_before + here
        self.progress.elapsed_s = time.monotonic() - self._begun_s
        self._report(self.progress)
