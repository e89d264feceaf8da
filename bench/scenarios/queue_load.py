"""What the scenarios about queues share: making queues on either side, filling and emptying them.

amqp_raw does all of it. On every side queues are durable and messages persistent, publishes are confirmed and
each message is acked.
"""

from __future__ import annotations

from bench import programs
from bench.lab import QUORUM, Lab
from bench.peers import Server

NAME = "bench"
WARM_S, WARM_QUICK_S = 10.0, 3.0


def work(lab: Lab, server: Server, mode: str, *options: object) -> dict[str, float]:
    """One run of amqp_raw that is not measured."""
    return programs.run("amqp_raw", lab.port(server), NAME, "-m", mode, *options)


def make(lab: Lab, server: Server, *options: object) -> float:
    """Queues, and an exchange if the options name its kind; how many seconds it took."""
    kind = "quorum" if server.name == QUORUM else "classic"
    return work(lab, server, "setup", "-T", kind, *options)["seconds"]


def empty(lab: Lab, server: Server, queues: int = 1) -> None:
    work(lab, server, "purge", "-q", queues)


def warm_up(lab: Lab, server: Server, mode: str, queues: int, *options: object) -> None:
    """Shorter than in warm.py: an Erlang machine compiles before it runs."""
    work(lab, server, mode, "-q", queues, "-d", lab.seconds(WARM_S, WARM_QUICK_S), *options)
    empty(lab, server, queues)
