"""Where scenarios run: starts brokers, keeps them for a scenario, settles the machine, cleans up."""

from __future__ import annotations

import os
import shutil
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bench import meter, programs, wire
from bench.peers import Server, start_kafka, start_mainstem, start_rabbitmq, start_sink
from bench.peers.kafka import FLUSH_EACH_BATCH
from bench.settle import LIMIT_S, Pulse, Settled, is_disturbed, is_to_repeat, wait_until_idle
from bench.stats import OURS, SINK, Bar

KAFKA, KAFKA_FLUSH = "kafka", "kafka-flush"
RABBITMQ, QUORUM = "rabbitmq", "rabbitmq-quorum"  # its classic queues and its quorum queues
GB = 1e9
WAITING_FILES = 'mainstem_log_files{level="0"}'


class Kept(Protocol):
    """A process that a scenario keeps, idle between its runs."""

    @property
    def pid(self) -> int: ...

    def stop(self) -> None: ...


class CannotRun(Exception):
    """What this scenario needs is not here; the text says what."""


@dataclass(frozen=True)
class Scenario:
    """One question. `measure` is one run of one side; `prepare` is called once for each side it keeps up."""

    name: str
    title: str
    conditions: str
    sides: tuple[str, ...]  # Mainstem first; the order turns from round to round
    bars: tuple[Bar, ...]
    measure: Callable[[Lab, str, int], Mapping[str, float]]
    prepare: Callable[[Lab, Server], None] | None = None  # None: `measure` starts its own brokers
    tls: bool = False
    queues: bool = False  # asks for AMQP
    ours_extra: Mapping[str, str] = field(
        default_factory=dict
    )  # settings of the broker kept for it, as variables
    max_rounds: int | None = None  # for what takes long and is judged by itself


@dataclass
class Lab:
    """One scenario's brokers and data. Everything is stopped and deleted when it is closed."""

    root: Path
    quick: bool
    tls: bool = False
    ours_extra: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[Lab, Server], None] | None = None
    queues: bool = False
    running: dict[str, Server] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)  # the topic that `prepare` made, by side
    kept: dict[str, Kept] = field(default_factory=dict)  # what else stays up for all runs, by side
    _launched: list[Server] = field(default_factory=list)
    _topics: int = 0

    def seconds(self, full: float, quick: float) -> float:
        return quick if self.quick else full

    def server(self, side: str) -> Server:
        """The broker kept for this scenario; started and prepared when first asked for."""
        if side not in self.running:
            self.running[side] = server = self.launch(side, extra=self.ours_extra if side == OURS else None)
            if self.prepare:
                self.prepare(self, server)
        return self.running[side]

    def launch(
        self,
        side: str,
        *,
        folder: str | None = None,
        extra: Mapping[str, str] | None = None,
        timeout_s: float = 120,
    ) -> Server:
        """A broker that the caller stops (or `close` does). The same folder again is a restart."""
        data = self.root / (folder or side)
        if side == OURS:
            server = start_mainstem(
                side, data, tls=self.tls, queues=self.queues, extra=extra, ready_timeout_s=timeout_s
            )
        elif side == SINK:
            server = start_sink(side, data)
        elif side in (RABBITMQ, QUORUM):
            server = start_rabbitmq(side, data, extra=extra, ready_timeout_s=timeout_s)
        else:
            flush = FLUSH_EACH_BATCH if side == KAFKA_FLUSH else {}
            server = start_kafka(
                side, data, tls=self.tls, extra={**flush, **(extra or {})}, ready_timeout_s=timeout_s
            )
        self._launched.append(server)
        return server

    def topic(self, server: Server, partitions: int) -> str:
        """A new topic that takes records."""
        self._topics += 1
        name = f"bench-{self._topics}"
        with wire.Admin(server.port) as admin:
            admin.create_topics([name], partitions)
            if server.name != SINK:
                admin.wait_until_led(name, partitions)
        return name

    def empty(self, server: Server, topic: str, partitions: int) -> None:
        """Nobody will read it: without this the warm-up and five runs of the fastest loads fill a disk, and
        each run waits for merges of what the one before it wrote."""
        if server.name != SINK:
            with wire.Admin(server.port) as admin:
                admin.delete_records(topic, partitions)

    def settle(self, limit_s: float = LIMIT_S) -> Settled:
        """Writes out what the page cache owes and waits until all that is kept up is idle, so that no side
        pays for what the other left behind (dirty pages, merges, deletions)."""
        os.sync()
        settled = wait_until_idle(self._pulses, limit_s)
        if settled.gave_up:
            say(f"  a broker is still busy after {settled.seconds:.0f} s; going on")
        return settled

    def _pulses(self) -> dict[int, Pulse]:
        alive = [server.pid for server in self._launched if server.process.poll() is None]
        alive += [one.pid for one in self.kept.values()]
        return {pid: Pulse(meter.cpu_s(pid), meter.moved_bytes(pid), meter.is_held(pid)) for pid in alive}

    def wait_merged(self, server: Server, limit_s: float = LIMIT_S) -> None:
        """Until no finished journal file waits for its merge any more, and all is quiet again."""
        deadline = time.monotonic() + limit_s
        while self.settle().gave_up or read_metrics(server)[WAITING_FILES]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"files still wait to be merged after {limit_s:.0f} s")

    def port(self, server: Server) -> int:
        """Where this scenario's load goes."""
        if self.queues and server.amqp_port:
            return server.amqp_port
        return server.tls_port if self.tls and server.tls_port else server.port

    def versions(self) -> dict[str, str]:
        """Of the peers that ran, by side."""
        return {server.name: server.version for server in self._launched if server.version}

    def metered_load(
        self,
        server: Server,
        program: str,
        topic: str,
        *options: object,
        before: Callable[[], object] | None = None,
        beside: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> dict[str, float]:
        """One run of a load program, with what it cost the broker beside what it reached. Done again if the
        other brokers were not idle. `before` makes what each run finds, `beside` is another load on it."""
        repeats = 0
        while True:
            if before:
                before()
            settled = self.settle()
            with beside():
                started = time.monotonic()
                result = self._metered_once(server, program, topic, *options)
                run_s, stolen_s = time.monotonic() - started, result["idle_broker_cpu_s"]
            if not is_to_repeat(stolen_s, run_s, repeats):
                break
            say(f"  {server.name}: other brokers took {stolen_s:.2f} CPU s meanwhile; once more")
            repeats += 1
        marks = {"repeats": float(repeats), "disturbed": float(is_disturbed(stolen_s, run_s))}
        return result | settled.metrics() | marks

    def _metered_once(self, server: Server, program: str, topic: str, *options: object) -> dict[str, float]:
        others = [other.pid for other in self.running.values() if other is not server]
        others_before = sum(meter.cpu_s(pid) for pid in others)
        with meter.metered(server.pid) as cost:
            result = programs.run(program, self.port(server), topic, *options)
        gb = result["bytes"] / GB
        result |= {
            "cpu_s": cost.cpu_s,
            "cpu_s_per_gb": cost.cpu_s / gb if gb else 0.0,
            "peak_rss_mb": cost.peak_rss_mb,
            "idle_broker_cpu_s": sum(meter.cpu_s(pid) for pid in others) - others_before,
        }
        return result

    def log_tails(self, lines: int = 6) -> str:
        """The end of what each broker said, for a scenario that failed."""
        found = []
        for path in sorted(self.root.glob("*/broker.log")):
            tail = path.read_text(errors="replace").strip().splitlines()[-lines:]
            found += [f"  log of {path.parent.name}:", *(f"    {line}" for line in tail)]
        return "\n".join(found)

    def close(self) -> None:
        for one in self.kept.values():
            one.stop()
        for server in self._launched:
            server.stop()
        shutil.rmtree(self.root, ignore_errors=True)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def drop_caches() -> None:
    """Cold reads must come from the disk. Only root may do this."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError as e:
        raise CannotRun(f"dropping the page cache needs root: {e}") from e


def read_metrics(server: Server) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=10) as answer:
        return parse_metrics(answer.read().decode())


def parse_metrics(text: str) -> dict[str, float]:
    """Each value under its name with labels, and the sum over labels under the bare name."""
    values: dict[str, float] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            with suppress(ValueError):
                for key in {name, name.partition("{")[0]}:
                    values[key] = values.get(key, 0.0) + float(value)
    return values
