"""Queues over AMQP beside RabbitMQ: publish with confirms, consume with acks, both at once.

With librabbitmq, one system call a message, the client itself is the limit for a fast broker; the raw load
sends 64 messages at a time, as clients with a buffer do. A consumer finds a full queue and takes all of it.
One that acks each message by itself with librabbitmq makes a system call for each, as one that publishes: so
it also acks 64 at a time (multiple), as consumers that want to be fast do, and that tells the brokers apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from bench.lab import QUORUM, RABBITMQ, Lab, Scenario
from bench.peers import Server
from bench.scenarios.queue_load import NAME, empty, make, warm_up, work
from bench.stats import OURS, Bar

# Messages that a consumer finds: what takes a few seconds, or one at least, to read. By size in bytes.
STORED = {
    100: {OURS: 2_000_000, RABBITMQ: 400_000, QUORUM: 400_000},
    4096: {OURS: 200_000, RABBITMQ: 100_000},
}
STORED_QUICK = {100: 100_000, 4096: 20_000}
LONGEST_S = 300
CONSUME = "consume"
AN_ACK = 64


def prepare(lab: Lab, server: Server, queues: int, message_bytes: int) -> None:
    make(lab, server, "-q", queues)
    # With one that only publishes the warm-up would fill the disk, and one that only consumes finds nothing.
    warm_up(lab, server, "both", queues, "-s", message_bytes)


def measure(
    lab: Lab,
    side: str,
    _round: int,
    *,
    program: str,
    mode: str,
    queues: int,
    message_bytes: int,
    an_ack: int,
) -> Mapping[str, float]:
    server, options = lab.server(side), ["-m", mode, "-s", message_bytes]
    if an_ack > 1:
        options += ["-A", an_ack]
    if mode == CONSUME:
        count = STORED_QUICK[message_bytes] if lab.quick else STORED[message_bytes][side]
        fill: Callable[[], object] = partial(
            work, lab, server, "publish", "-s", message_bytes, "-n", count, "-d", LONGEST_S
        )
        options += ["-n", count, "-d", LONGEST_S]
    else:
        fill = partial(empty, lab, server, queues)
        options += ["-d", lab.seconds(5, 2), "-w", lab.seconds(1, 0.5)]
    if queues > 1:
        options += ["-q", queues]
    result = lab.metered_load(server, program, NAME, *options, before=fill)
    empty(lab, server, queues)
    return result


def scenario(
    mode: str,
    least: float | None,
    *,
    program: str = "amqp_raw",
    queues: int = 1,
    message_bytes: int = 100,
    hoped: float | None = None,
    an_ack: int = 1,
) -> Scenario:
    raw = program == "amqp_raw"
    size = "100 B" if message_bytes == 100 else f"{message_bytes // 1024} KiB"
    by = "raw, 64 messages a send" if raw else "librabbitmq"
    if an_ack > 1:
        by += f", {an_ack} messages an ack"
    many = f", {queues:,} queues, random keys" if queues > 1 else ""
    parts = [
        "amqp",
        mode,
        "raw" if raw else "lib",
        *(["multiple"] if an_ack > 1 else []),
        size.replace(" ", "").lower().replace("kib", "k"),
    ]
    sides = (OURS, RABBITMQ, QUORUM) if queues == 1 and message_bytes == 100 else (OURS, RABBITMQ)
    bars = [Bar("messages_per_s", "at least", least, "MUST" if least else "REPORT", RABBITMQ)]
    if hoped:
        bars.append(Bar("messages_per_s", "at least", hoped, "REPORT", RABBITMQ))
    if QUORUM in sides:
        bars.append(Bar("messages_per_s", "at least", None, "REPORT", QUORUM))
    return Scenario(
        name="-".join(parts) + (f"-{queues}q" if queues > 1 else ""),
        title=f"AMQP {mode} {size}, {by}{many}",
        conditions="durable queue, persistent messages, 1,000 unconfirmed, prefetch 1,000, each message "
        "acked by itself unless the title says otherwise; both: one connection each way; consume: 2 million "
        "lie there, 400,000 on RabbitMQ (of 4 KiB 200,000 and 100,000)",
        sides=sides,
        bars=tuple(bars),
        measure=partial(
            measure, program=program, mode=mode, queues=queues, message_bytes=message_bytes, an_ack=an_ack
        ),
        prepare=partial(prepare, queues=queues, message_bytes=message_bytes),
        queues=True,
    )


SCENARIOS = (
    scenario("publish", 6.0),
    scenario("consume", 10.0),
    scenario("both", 5.0),
    scenario("publish", 2.0, program="amqp_lib"),
    scenario("consume", 10.0, program="amqp_lib", an_ack=AN_ACK),
    scenario("consume", None, program="amqp_lib"),
    scenario("both", 2.0, program="amqp_lib"),
    scenario("both", 2.0, queues=1000, hoped=4.0),
    scenario("publish", None, message_bytes=4096),
    scenario("consume", None, message_bytes=4096),
    scenario("both", None, message_bytes=4096),
)
