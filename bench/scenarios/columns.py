"""Produce 100 B again, with what real producers switch on: idempotence, zstd, TLS."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bench.lab import KAFKA, Lab, Scenario
from bench.peers import Server
from bench.scenarios.warm import warm_up, write
from bench.stats import OURS, Bar

PARTITIONS = 10
LOAD = ("-s", 100, "-r", 1)  # records go round one by one
COLUMNS = {
    "idempotent": ["-X", "enable.idempotence=true"],
    "zstd": ["-X", "compression.codec=zstd"],
    "tls": [],
}


def options_for(column: str, server: Server) -> list[str]:
    return server.client_options() if column == "tls" else COLUMNS[column]


def prepare(lab: Lab, server: Server, column: str) -> None:
    warm_up(lab, server, "produce", PARTITIONS, *LOAD, *options_for(column, server))


def measure(lab: Lab, side: str, _round: int, *, column: str) -> Mapping[str, float]:
    options = (*LOAD, "-d", lab.seconds(5, 3), *options_for(column, lab.server(side)))
    return write(lab, side, "produce", PARTITIONS, *options)


SCENARIOS = tuple(
    Scenario(
        name=f"produce-{column}",
        title=f"Produce 100 B, {PARTITIONS} partitions, {column}",
        conditions=f"librdkafka, acks=all, {column}; round robin; hex digits, which compress to half",
        sides=(OURS, KAFKA),
        bars=(Bar("records_per_s", "at least", None, "REPORT", KAFKA),),
        measure=partial(measure, column=column),
        prepare=partial(prepare, column=column),
        tls=column == "tls",
    )
    for column in COLUMNS
)
