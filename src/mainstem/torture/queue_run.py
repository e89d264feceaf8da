"""`mainstem torture queues`: RabbitMQ's clients at a broker that is crashed over and over."""

from __future__ import annotations

from mainstem.torture.cycles import Plan, Play, Progress, Report, run
from mainstem.torture.queue_judge import PROMISES
from mainstem.torture.queue_scene import QueueScene

PLAY = Play(
    "mainstem torture queues",
    PROMISES,
    lambda number, server, chance: QueueScene(number, server.amqp, chance),
)


def torture_queues(plan: Plan, report: Report = lambda progress: None) -> Progress:
    return run(plan, PLAY, report)
