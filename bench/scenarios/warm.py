"""Warm-up: the scenario's own load, for all sides alike, before anything counts.

A JVM compiles its hot paths only after they ran for a while, beside the load: Kafka's small-request rate
still grows after 10 s. 20 s of the same load brings it to where it stays.

The runs that count go to the same topic: with a new one for each run Kafka got up to five times slower
(docs/decisions/0006-bench.md), and the first touch of a partition is not what a bar should measure.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench import programs
from bench.lab import Lab
from bench.peers import Server

WARM_S, WARM_QUICK_S = 20.0, 6.0


def warm_up(lab: Lab, server: Server, program: str, partitions: int, *options: object) -> None:
    """Leaves the topic, which was written to and holds nothing, in `lab.topics`."""
    lab.topics[server.name] = topic = lab.topic(server, partitions)
    warm_s = lab.seconds(WARM_S, WARM_QUICK_S)
    programs.run(program, lab.port(server), topic, "-p", partitions, "-d", warm_s, *options)
    lab.empty(server, topic, partitions)


def write(lab: Lab, side: str, program: str, partitions: int, *options: object) -> Mapping[str, float]:
    """One run that counts, to the topic of the warm-up."""
    server, topic = lab.server(side), lab.topics[side]
    result = lab.metered_load(server, program, topic, "-p", partitions, *options)
    lab.empty(server, topic, partitions)
    return result
