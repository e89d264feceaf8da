"""`mainstem torture`: Kafka's clients at a broker that is crashed over and over."""

from __future__ import annotations

from mainstem.torture.cycles import Plan, Play, Progress, Report, run
from mainstem.torture.judge import PROMISES
from mainstem.torture.scene import Scene

PLAY = Play("mainstem torture", PROMISES, lambda number, server, chance: Scene(number, server.kafka, chance))


def torture(plan: Plan, report: Report = lambda progress: None) -> Progress:
    return run(plan, PLAY, report)
