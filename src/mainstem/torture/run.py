"""The cycles: load, strike, start again, come to rest, judge."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random  # noqa: TID251 - seeded, and the seed is shown: a run can be repeated

from mainstem.model.errors import InvalidRequest, MainstemError
from mainstem.torture.disks import LoopDisk, why_no_power_cut
from mainstem.torture.faults import AIMS, Fault, Kill, PowerCut, wait_for_moment
from mainstem.torture.judge import Verdict
from mainstem.torture.scene import Scene
from mainstem.torture.server import PROGRAM, Server

# Then the topics are deleted and the load begins anew: a check reads everything, and must not grow for ever.
CYCLES_PER_SCENE = 8
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

    seed: int
    state: str = "starting"
    cycles: int = 0
    strikes: Counter[str] = field(default_factory=Counter)  # by fault
    aims: Counter[str] = field(default_factory=Counter)  # what was under way when it was struck
    acked: int = 0
    elapsed_s: float = 0.0
    slowest_start_s: float = 0.0
    verdict: Verdict = field(default_factory=Verdict)
    crash: str = ""  # the run could not go on: why

    @property
    def is_good(self) -> bool:
        return self.verdict.is_good and not self.crash


Report = Callable[[Progress], None]


def check_folder(folder: Path) -> None:
    """Only what we made is ever deleted."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidRequest(f"{folder} is not empty; name a folder that can be filled and deleted")


def torture(plan: Plan, report: Report = lambda progress: None) -> Progress:
    """Run to the end of the plan or the first finding. What is left of a bad run stays in the folder."""
    if "power" in plan.faults and (missing := why_no_power_cut()):
        raise InvalidRequest(missing)
    check_folder(plan.folder)
    plan.folder.mkdir(parents=True, exist_ok=True)
    disk = LoopDisk(plan.folder, DISK_BYTES) if "power" in plan.faults else None
    if disk is not None:
        disk.create()
    root = disk.path if disk is not None else plan.folder
    run = _Run(plan, Server(root / "data", plan.settings, program=plan.program), disk, report)
    try:
        run.go()
    finally:
        run.server.kill_all()
        if not run.progress.is_good:
            shutil.copy(run.server.log, plan.folder / "broker.log")
        if disk is not None:
            disk.unmount()
    if run.progress.is_good:
        shutil.rmtree(plan.folder)
    return run.progress


class _Run:
    def __init__(self, plan: Plan, server: Server, disk: LoopDisk | None, report: Report) -> None:
        self.plan = plan
        self.server = server
        self.progress = Progress(plan.seed)
        self._report = report
        self._chance = Random(plan.seed)
        self._faults: Sequence[Fault] = [
            PowerCut(disk) if name == "power" and disk is not None else Kill() for name in plan.faults
        ]
        self._begun_s = time.monotonic()
        self._aims: list[str] = []
        self._acked_before = 0
        self._scenes = 0

    def go(self) -> None:
        try:
            self._start()
            self._begun_s = time.monotonic()  # the time that was asked for is time under load
            while not self._is_over():
                self._scene()
        except MainstemError as error:
            self.progress.crash = str(error)
        self._say("done")

    def _is_over(self) -> bool:
        plan, progress = self.plan, self.progress
        return (
            not progress.is_good
            or (plan.cycles is not None and progress.cycles >= plan.cycles)
            or (plan.seconds is not None and time.monotonic() - self._begun_s >= plan.seconds)
        )

    def _scene(self) -> None:
        self._scenes += 1
        scene = Scene(self._scenes, self.server.kafka, self._chance)
        judged = Verdict()
        try:
            for _ in range(CYCLES_PER_SCENE):
                judged = self._cycle(scene)
                self.progress.cycles += 1
                if not judged.is_good or self._is_over():
                    break
        finally:
            # Each judgement is of the whole scene: the last one counts.
            self.progress.verdict.add(judged)
            self._acked_before += scene.ledger.acked_records()
            scene.end(delete=judged.is_good and self.server.poll() is None)

    def _cycle(self, scene: Scene) -> Verdict:
        aim = self._next_aim()
        fault = self._chance.choice(self._faults)
        self._say(f"load, until {fault.name} at {aim}", scene)
        scene.gate.open()
        hit = wait_for_moment(self.server.data, aim, self._chance, self.plan.load_s)
        if self.server.poll() is not None:
            raise MainstemError(f"the broker ended by itself:\n{self.server.log_tail()}")
        self._strike(fault, aim if hit else "any moment")
        scene.ledger.struck()
        self._say("recovery", scene)
        while self._chance.random() < STRIKE_AGAIN:
            self.server.launch()
            time.sleep(self._chance.random() * 0.5)
            self._strike(fault, "recovery")
        self._start()
        self._say("clients come to rest", scene)
        scene.rest()
        self._say("check", scene)
        return scene.judge()

    def _next_aim(self) -> str:
        if not self._aims:
            self._aims = self._chance.sample(self.plan.aims, len(self.plan.aims))
        return self._aims.pop()

    def _strike(self, fault: Fault, aim: str) -> None:
        fault.strike(self.server)
        self.progress.strikes[fault.name] += 1
        self.progress.aims[aim] += 1

    def _start(self) -> None:
        begun_s = time.monotonic()
        self.server.start()
        took_s = time.monotonic() - begun_s
        self.progress.slowest_start_s = max(self.progress.slowest_start_s, took_s)

    def _say(self, state: str, scene: Scene | None = None) -> None:
        self.progress.state = state
        here = scene.ledger.acked_records() if scene is not None else 0
        self.progress.acked = self._acked_before + here
        self.progress.elapsed_s = time.monotonic() - self._begun_s
        self._report(self.progress)
