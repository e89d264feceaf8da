"""`mainstem demo`, which is what `make run` runs: a broker with a screen, and a live stream if asked for."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mainstem.cli.groups import Above, examples
from mainstem.cli.settings import settings_options
from mainstem.config import Config, PortsTaken
from mainstem.model.errors import InvalidConfig, MainstemError, NotSupported

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mainstem.app import App

PARTITIONS = 4
RETENTION_MS = 3_600_000  # of the sample's orders: it may run for days
STREAM = "mainstem.cli.demo_stream"  # the program that sends and reads
GUARD = "mainstem.cli.demo_guard"
REFRESH_S = 0.5
PIPELINE_ENDS_S = 60.0
STREAM_ENDS_S = 5.0
LINE_EVERY_S = 5.0  # without a terminal
DEFAULT_RATE = 5000
ENDLESS_RATE = 100  # without --for: something to look at, not a load
SECONDS = Above(0)


@click.command(
    "demo",
    epilog=examples(
        "mainstem demo                        # a broker on 127.0.0.1:9092 and how to talk to it",
        "mainstem demo --for 60               # and a minute of orders through it, checked",
        "mainstem demo --for 10 --rate 20000 --data /tmp/demo --listen kafka=127.0.0.1:0",
    ),
)
@click.option(
    "--for",
    "seconds",
    type=SECONDS,
    metavar="SECONDS",
    help="Send and read a stream of orders for so long, check it, and end. Exit code 1 if anything is wrong.",
)
@click.option(
    "--rate",
    type=click.IntRange(min=1),
    default=DEFAULT_RATE,
    show_default=True,
    help="Orders a second, with --for.",
)
@click.option(
    "--sample/--no-sample",
    default=True,
    help="A stream of orders, and a Spark pipeline that computes revenue per minute and region of it.",
)
@settings_options
def command(seconds: float | None, rate: int, sample: bool, config: Config) -> None:
    """Run a broker with a screen that shows where it is, what to try first, and how fast it goes.

    The sample's event time runs 60 times as fast as the clock. Its files are in ./mainstem-sample.
    """
    if seconds is not None and importlib.util.find_spec("confluent_kafka") is None:
        raise click.ClickException(
            "the stream of orders is sent by confluent-kafka, which is not installed here: "
            "pip install confluent-kafka"
        )
    if seconds is not None and ("kafka" not in config.listeners() or config.security.authentication != "off"):
        raise InvalidConfig("the stream of orders needs a listener `kafka` where nobody has to log in")
    is_open = "kafka" in config.listeners() and config.security.authentication == "off"
    missing = _missing() if sample and is_open else ""
    if missing:
        click.echo(f"The sample's pipeline is left out: {missing}", err=True)
    wanted = Wanted(seconds, rate, sample and is_open and not missing)
    if not asyncio.run(_run(config, wanted)):
        raise click.exceptions.Exit(1)


@dataclass(frozen=True, slots=True)
class Wanted:
    seconds: float | None
    rate: int
    sample: bool

    @property
    def streams(self) -> bool:
        return self.seconds is not None or self.sample


def _missing() -> str:
    """What the sample needs and is not here, in a line."""
    from mainstem.pipeline.session import require_spark

    for module in ("confluent_kafka", "pyarrow", "sqlglot"):
        if importlib.util.find_spec(module) is None:
            return "pip install 'mainstem[demo,spark]'"
    try:
        require_spark()
    except NotSupported as error:
        return str(error)
    return ""


async def _run(config: Config, wanted: Wanted) -> bool:
    from mainstem.app import App, tune_process
    from mainstem.cli.demo_screen import verdict_text, welcome

    stop = asyncio.Event()
    _stop_at_signals(stop)
    app = App(config)
    try:
        await app.start()
    except PortsTaken as error:
        if "MAKELEVEL" not in os.environ:
            raise
        raise InvalidConfig(f'{error.taken}; choose others with make run ARGS="{error.flags}"') from None
    tune_process(config)
    synced = config.topics.durability == "fsync"
    try:
        listening = {name: str(where) for name, where in app.listening.items()}
        click.echo(welcome(listening, config.server.data.resolve(), synced=synced))
        with _screen(config) as show:
            if not wanted.streams:
                await _watch(app, stop, show)
                return True
            verdict = await _stream(app, wanted, stop, show)
        if wanted.seconds is None:
            return True
        click.echo(verdict_text(verdict, synced=synced))
        return not verdict["wrong"] and not (verdict.get("pipeline") or {}).get("wrong")
    finally:
        await app.stop()
        click.echo(f"Stopped. The data is in {config.server.data.resolve()}")


def _stop_at_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)

    terminals = [number for number in (1, 2) if os.isatty(number)]  # as long as it can be told

    def hang_up() -> None:
        """The terminal has closed: what is written to it from now on would be an error."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for number in terminals:
            os.dup2(nowhere, number)
        os.close(nowhere)
        stop.set()

    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup asks for
        loop.add_signal_handler(signal.SIGHUP, hang_up)


Show = Callable[["RenderableType", str], None]


@contextlib.contextmanager
def _screen(config: Config) -> Iterator[Show]:
    """Gives `show(view, line)`: the view replaces the one before; without a terminal, now and then a line."""
    from rich.live import Live

    from mainstem.observe.logging import start_logging

    # Lines of every day would push the screen away; whoever wants them says so.
    level = "warning" if config.origins.get("log.level", "default") == "default" else config.log.level
    if not sys.stdout.isatty():
        start_logging(level, config.log.format, sys.stderr)
        last_s = float("-inf")

        def show_line(_: RenderableType, line: str) -> None:
            nonlocal last_s
            if line and time.monotonic() - last_s >= LINE_EVERY_S:
                last_s = time.monotonic()
                click.echo(line)

        yield show_line
        return
    with Live(refresh_per_second=4, redirect_stderr=True) as live:
        start_logging(level, config.log.format, sys.stderr)  # by now it writes above the live part
        yield lambda view, _: live.update(view)


# --- the broker's own counts -----------------------------------------------------------------------


async def _watch(app: App, stop: asyncio.Event, show: Show) -> None:
    from mainstem.cli.demo_screen import Rates, broker_view

    rates = Rates()
    while not stop.is_set():
        counts = _counts(app)
        for name in ("messages", "requests"):
            rates.update(name, counts[name], time.monotonic())
        show(broker_view(counts, rates), "")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), REFRESH_S)


def _counts(app: App) -> dict[str, float]:
    topics = app.broker.topics
    meters = {family.name: family for family in app.broker.meters}

    def total(name: str) -> float:
        family = meters.get(name)
        if family is None:
            return 0
        return sum(_value(meter) for meter in family.members.values())

    return {
        "messages": sum(partition.high_watermark for partition in topics.partitions.values()),
        "topics": len(topics.by_name),
        "partitions": len(topics.partitions),
        "connections": total("mainstem_kafka_connections"),
        "requests": total("mainstem_kafka_requests"),
    }


def _value(meter: object) -> float:
    from mainstem.model.meters import Counter, Gauge

    return float(meter.now()) if isinstance(meter, Counter | Gauge) else 0.0


# --- the stream of orders --------------------------------------------------------------------------


async def _stream(app: App, wanted: Wanted, stop: asyncio.Event, show: Show) -> Mapping[str, Any]:
    """What flowed, and what is wrong with it. The topics are this run's own: event time begins anew."""
    from mainstem.cli.demo_sample import FOLDER, ORDERS, REVENUE, write_sample

    kafka = str(app.listening["kafka"])
    topics = {ORDERS: PARTITIONS, **({REVENUE: 1} if wanted.sample else {})}
    await _delete(app, topics)
    for name, partitions in topics.items():
        await app.broker.create_topic(name, partitions, {"retention.ms": str(RETENTION_MS)})
    folder = app.config.server.data.resolve().parent / FOLDER
    pipeline = await _start_pipeline(write_sample(folder), kafka) if wanted.sample else None
    seconds = wanted.seconds if wanted.seconds is not None else float("inf")
    rate = wanted.rate if wanted.seconds is not None else min(wanted.rate, ENDLESS_RATE)
    amqp = str(app.listening.get("amqp", "")) if importlib.util.find_spec("pika") else ""
    arguments = [kafka, amqp, ORDERS, str(seconds), str(rate), *([str(folder)] if wanted.sample else [])]
    try:
        verdict = await _follow(arguments, seconds, stop, show)
    finally:
        if pipeline is not None:
            await _end_pipeline(pipeline, folder)
    if not verdict["wrong"] and not (verdict.get("pipeline") or {}).get("wrong"):
        await _delete(app, topics)  # what is wrong stays, to be looked at
    return verdict


async def _delete(app: App, names: Iterable[str]) -> None:
    from mainstem.broker.admin import delete_topic

    for name in names:
        if name in app.broker.topics.by_name:
            await delete_topic(app.broker, app.broker.topics.by_name[name])


async def _start_pipeline(file: Path, kafka: str) -> Process:
    from mainstem.cli.demo_sample import PIPELINE

    code = "from mainstem.cli.main import main; main()"
    words = ["-b", kafka, "pipeline", "run", str(file), "--name", PIPELINE]
    with (file.parent / "pipeline.log").open("wb") as log:
        return await _guarded("-c", code, *words, stdout=log, stderr=log)


async def _guarded(*arguments: str, **where: Any) -> Process:
    """A program that ends with us, and nothing it starts outlives it. Ctrl-C is for us: we tell it to end."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", GUARD, sys.executable, *arguments, stdin=PIPE, start_new_session=True, **where
    )


async def _end_pipeline(process: Process, folder: Path) -> None:
    if process.returncode is not None:
        log = folder / "pipeline.log"
        lines = log.read_text(errors="replace").splitlines()
        click.echo(f"The pipeline ended early: {lines[-1] if lines else 'no word'} ({log})", err=True)
        return
    click.echo("Stopping the pipeline ...", err=True)
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    await _gone(process, PIPELINE_ENDS_S)


async def _gone(process: Process, seconds: float) -> None:
    """With all that it has started; killed only if it does not end."""
    try:
        await asyncio.wait_for(process.wait(), seconds)
    except TimeoutError:
        assert process.stdin is not None
        process.stdin.close()  # which the guard takes for our end
        await process.wait()


async def _follow(arguments: list[str], seconds: float, stop: asyncio.Event, show: Show) -> Mapping[str, Any]:
    from mainstem.cli.demo_screen import Rates, stream_line, stream_view

    process = await _guarded("-m", STREAM, *arguments, stdout=PIPE)
    ending = asyncio.create_task(_end_early(stop, process))
    rates = Rates()
    verdict: Mapping[str, Any] | None = None
    try:
        async for report in _reports(process):
            if "verdict" in report:
                verdict = report["verdict"]
                continue
            for name in ("sent", "read"):
                rates.update(name, report[name], report["seconds"])
            show(stream_view(report, rates, seconds), stream_line(report, rates) if rates.per_second else "")
    finally:
        ending.cancel()
        await _gone(process, STREAM_ENDS_S)
    if verdict is None:
        raise MainstemError(f"the stream of orders ended without a verdict (exit code {process.returncode})")
    return verdict


async def _end_early(stop: asyncio.Event, process: Process) -> None:
    await stop.wait()
    with contextlib.suppress(ProcessLookupError):
        process.terminate()


async def _reports(process: Process) -> AsyncIterator[Mapping[str, Any]]:
    assert process.stdout is not None
    async for line in process.stdout:
        yield json.loads(line)
