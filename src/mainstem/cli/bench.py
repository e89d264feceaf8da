"""`mainstem bench`: a quick measure of a running broker: how much it takes, gives, and how soon."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click

from mainstem.cli.connect import client_options, find_topic
from mainstem.cli.groups import examples
from mainstem.cli.latency import Latencies
from mainstem.cli.output import confirm, emit_record, human_bytes, json_option, plural, remark, yes_option

if TYPE_CHECKING:
    from mainstem.client import Client, ClientSettings

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LATENCY_RATE = 200  # messages a second while latency is measured: far below what the broker can take
FETCH_BYTES = 8 << 20


@dataclass(frozen=True)
class Plan:
    seconds: float
    size: int
    batch: int
    partitions: int
    in_flight: int
    compression: str
    topic: str
    keep: bool


@click.command(
    "bench",
    epilog=examples(
        "mainstem bench", "mainstem bench --seconds 10 --size 1024 --partitions 16", "mainstem bench --json"
    ),
)
@click.option(
    "--seconds", type=click.FloatRange(min=0.1), default=5.0, show_default=True, help="Per measure."
)
@click.option(
    "--size", type=click.IntRange(1, 1 << 20), default=100, show_default=True, help="Bytes of a message."
)
@click.option("--batch", type=click.IntRange(1), default=500, show_default=True, help="Messages in a batch.")
@click.option(
    "--partitions", type=click.IntRange(1, 10_000), default=4, show_default=True, help="Of its own topic."
)
@click.option(
    "--in-flight", type=click.IntRange(1, 100), default=5, show_default=True, help="Requests at once."
)
@click.option(
    "--compression", type=click.Choice(CODECS), default="none", show_default=True, help="Of batches."
)
@click.option("--topic", default="", help="Fill this topic. Default: one of its own, deleted in the end.")
@click.option("--keep", is_flag=True, help="Do not delete its own topic in the end.")
@yes_option
@json_option
@client_options
def command(yes: bool, as_json: bool, client: Client, **plan: Any) -> None:
    """Measure a running broker: producing, consuming, and the time from one to the other.

    One Python process with a connection per direction is the load; it sends ready-made batches, so that it
    takes little of the machine itself. The broker can serve more than one such client.
    """
    from mainstem.client.admin import create_topic, delete_topic

    wanted = Plan(**plan)
    topic = wanted.topic or f"mainstem-bench-{uuid4().hex[:8]}"
    own = not wanted.topic
    if own:
        create_topic(client, topic, wanted.partitions)
    else:
        partitions = len(find_topic(client, topic).partitions)
        wanted = replace(wanted, partitions=partitions)
        _ask_to_fill(client, topic, yes)
    conditions = _conditions(client, wanted)
    try:
        if not as_json:
            remark("\n".join(f"{name}: {value}" for name, value in conditions.items()) + "\n")
        results = {
            "produce": _produce(client, topic, wanted),
            "consume": _consume(client, topic, wanted),
            "latency": _latency(client, topic, wanted),
        }
    finally:
        if own and not wanted.keep:
            delete_topic(client, topic)
    if as_json:
        emit_record({"conditions": conditions, **results}, as_json=True)
        return
    for name in ("produce", "consume"):
        speed = results[name]
        bytes_per_s = human_bytes(speed["bytes_per_s"])
        click.echo(f"{name:<9} {speed['messages_per_s']:>12,.0f} messages/s  {bytes_per_s:>12}/s")
    for name in ("acknowledged", "end_to_end"):
        found = results["latency"][name]
        click.echo(
            f"{name.replace('_', ' '):<13} p50 {found['p50_ms']:.2f} ms   p95 {found['p95_ms']:.2f} ms   "
            f"p99 {found['p99_ms']:.2f} ms   slowest {found['max_ms']:.2f} ms"
        )


def _ask_to_fill(client: Client, topic: str, yes: bool) -> None:
    """What is measured with stays in the topic, between what others have sent."""
    count = sum(end - first for first, end in client.bounds([topic]).values())
    if count:
        confirm(f"fill topic {topic!r}, which holds {plural(count, 'message')}", yes=yes)


def _conditions(client: Client, plan: Plan) -> dict[str, object]:
    address = client.connection().address
    return {
        "broker": str(address),
        "load": f"{plan.size} B messages, {plan.batch} a batch, {plural(plan.partitions, 'partition')}, "
        f"{plan.in_flight} requests in flight, compression {plan.compression}, acks all; "
        "read again from memory or disk, batches left unopened by the reader",
        "latency load": f"{LATENCY_RATE} single messages a second",
        "seconds": plan.seconds,
        "client": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"load average {os.getloadavg()[0]:.1f}",
    }


# --- how much --------------------------------------------------------------------------------------


def _produce(client: Client, topic: str, plan: Plan) -> dict[str, Any]:
    from mainstem.client import codes
    from mainstem.client.connection import Connection
    from mainstem.wire.kafka.produce import ProduceResponse

    batch = _batch(plan)
    partitions = len(client.topic(topic).partitions)
    with (
        contextlib.closing(Connection(client.connection().address, client.settings)) as connection,
        _display("produce", plan.seconds) as show,
    ):
        meter = _Speed(plan.size)
        sent = 0
        while not meter.is_over(plan.seconds) or connection.in_flight:
            while connection.in_flight < plan.in_flight and not meter.is_over(plan.seconds):
                connection.send(_request(topic, sent % partitions, batch))
                sent += 1
            if connection.in_flight:
                answer = connection.receive(ProduceResponse)
                for one in answer.responses[0].partition_responses:
                    codes.check(one.error_code, topic, one.error_message)
                meter.add(plan.batch)
            show(meter)
    return meter.result()


def _consume(client: Client, topic: str, plan: Plan) -> dict[str, Any]:
    """What was produced, from the start, as often as fits into the time."""
    from mainstem.client import EARLIEST, TopicPartition
    from mainstem.model.batch import iter_batches

    partitions = len(client.topic(topic).partitions)
    places = [TopicPartition(topic, partition) for partition in range(partitions)]
    starts = {place: found.offset for place, found in client.offsets(dict.fromkeys(places, EARLIEST)).items()}
    positions = dict(starts)
    with _display("consume", plan.seconds) as show:
        meter = _Speed(plan.size)
        while not meter.is_over(plan.seconds):
            for fetched in client.fetch(positions, max_wait_ms=100, partition_max_bytes=FETCH_BYTES):
                fetched.check()
                count = sum(header.record_count for _, header in iter_batches(fetched.records))
                meter.add(count)
                at_end = fetched.next_offset >= fetched.high_watermark
                positions[fetched.place] = starts[fetched.place] if at_end else fetched.next_offset
            show(meter)
    return meter.result()


class _Speed:
    """Counts messages from its making on."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._start_s = time.monotonic()
        self.messages = 0

    def add(self, count: int) -> None:
        self.messages += count

    @property
    def past_s(self) -> float:
        return time.monotonic() - self._start_s

    def is_over(self, seconds: float) -> bool:
        return self.past_s >= seconds

    def result(self) -> dict[str, Any]:
        rate = self.messages / self.past_s
        return {
            "messages": self.messages,
            "messages_per_s": round(rate),
            "bytes_per_s": round(rate * self._size),
        }


def _batch(plan: Plan) -> bytearray:
    from mainstem.cli.produce import CODECS as BY_NAME
    from mainstem.model.records import Record, encode_batch

    now_ms = time.time_ns() // 1_000_000
    # Half of it compresses, half does not: neither zeros nor noise is what people send.
    values = [os.urandom((plan.size + 1) // 2) + b"m" * (plan.size // 2) for _ in range(plan.batch)]
    return encode_batch([Record(0, now_ms, None, value) for value in values], codec=BY_NAME[plan.compression])


def _request(topic: str, partition: int, batch: bytes | bytearray) -> Any:
    from mainstem.wire.kafka.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    data = [PartitionProduceData(partition, memoryview(batch))]
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(topic, partition_data=data)]
    )


# --- how soon --------------------------------------------------------------------------------------


def _latency(client: Client, topic: str, plan: Plan) -> dict[str, Any]:
    """One message at a time, at a steady rate; a second thread reads them as they come."""
    from mainstem.client import LATEST, TopicPartition
    from mainstem.client.connection import Connection
    from mainstem.model.records import Record, encode_batch
    from mainstem.wire.kafka.produce import ProduceResponse

    place = TopicPartition(topic, 0)
    start = client.offsets({place: LATEST})[place].offset
    acknowledged, end_to_end = Latencies(), Latencies()
    count = max(1, round(plan.seconds * LATENCY_RATE))
    tail = _Tail(client.settings, place, start, count, end_to_end)
    tail.start()
    with (
        contextlib.closing(Connection(client.connection().address, client.settings)) as connection,
        _display("latency", plan.seconds) as show,
    ):
        meter = _Speed(plan.size)
        for number in range(count):
            time.sleep(max(0.0, number / LATENCY_RATE - meter.past_s))
            sent_ns = time.monotonic_ns()
            value = str(sent_ns).encode().ljust(plan.size)
            batch = encode_batch([Record(0, time.time_ns() // 1_000_000, None, value)])
            connection.ask(_request(topic, 0, batch), ProduceResponse)
            acknowledged.add((time.monotonic_ns() - sent_ns) // 1000)
            meter.add(1)
            show(meter)
    tail.join(client.settings.request_timeout_s)
    if tail.error is not None:
        raise tail.error
    return {"acknowledged": acknowledged.summary_ms(), "end_to_end": end_to_end.summary_ms()}


class _Tail(threading.Thread):
    def __init__(
        self, settings: ClientSettings, place: Any, start: int, count: int, latencies: Latencies
    ) -> None:
        super().__init__(daemon=True)
        self._settings, self._place = settings, place
        self._start_offset, self._count = start, count
        self._latencies = latencies
        self.error: BaseException | None = None

    def run(self) -> None:
        from mainstem.client import Client

        at = self._start_offset
        try:
            with Client(self._settings) as client:
                while at < self._start_offset + self._count:
                    for fetched in client.fetch({self._place: at}, max_wait_ms=500):
                        now_ns = time.monotonic_ns()
                        for record in fetched.check().decoded():
                            self._latencies.add((now_ns - int(record.value or b"0")) // 1000)
                        at = fetched.next_offset
        except Exception as error:  # told to whoever waits for this thread
            self.error = error


# --- showing ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def _display(name: str, seconds: float) -> Iterator[Callable[[_Speed], None]]:
    """A line that is written over while a measure runs; silent where there is no terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.live import Live
    from rich.text import Text

    from mainstem.cli.output import console_on

    last_s = 0.0
    with Live(console=console_on(sys.stderr), refresh_per_second=8, transient=True) as live:

        def show(meter: _Speed) -> None:
            nonlocal last_s
            if meter.past_s - last_s > 0.1:
                last_s = meter.past_s
                speed = meter.result()
                live.update(
                    Text(
                        f"{name:<9} {speed['messages_per_s']:>12,} messages/s  "
                        f"{min(meter.past_s, seconds):.1f} of {seconds:g} s"
                    )
                )

        yield show
