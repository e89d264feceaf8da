"""A live stream of orders through a broker: confluent-kafka sends most of them, pika some, the first reads.

Runs as a process of its own, as a client would, with BROKER AMQP TOPIC SECONDS RATE and, where a pipeline
computes over the orders, the FOLDER of the sample as arguments; AMQP may be empty. Every quarter of a
second it prints a JSON line about how it goes; the last one has a key `verdict`. SIGTERM ends the stream
early, with a verdict on what flowed so far.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from mainstem.cli import demo_amqp
from mainstem.cli.demo_amqp import AmqpOrders
from mainstem.cli.demo_orders import Ledger, Orders
from mainstem.cli.demo_results import Results
from mainstem.cli.demo_sample import SPEED, Expected
from mainstem.cli.latency import Latencies

if TYPE_CHECKING:
    from collections.abc import Mapping

TICK_S = 0.005
REPORT_S = 0.25
POLL_S = 0.05
CONSUME_AT_ONCE = 500
LATE_S = 30.0  # how long acknowledged orders may take to be read, once sending is over
ANSWER_S = 10.0  # how long the broker may take to tell its offsets


class Stream:
    """One thread sends, one reads, the main one reports."""

    def __init__(self, bootstrap: str, amqp: str, topic: str, rate: int, folder: Path | None) -> None:
        self._topic = topic
        self._rate = rate
        self._expected = Expected()
        self._results = Results(bootstrap, folder) if folder is not None else None
        # Others may write to the topic too: only what carries this run's name is counted.
        self._run = uuid4().hex.encode()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 1, "acks": "all", "enable.idempotence": True}
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "mainstem-demo",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
            }
        )
        self._amqp = AmqpOrders(amqp, topic, self._run, self._confirmed) if amqp else None
        self._sent_lock = threading.Lock()  # two clients tell what was acknowledged
        self.sent, self.read = Ledger(), Ledger()
        self.latencies, self.recent = Latencies(), Latencies()
        self.failures: list[str] = []
        self.started_s = self.sent_for_s = 0.0
        self.finish = threading.Event()
        self._sending_over = threading.Event()
        self.reading_over = threading.Event()
        self.last_order = b""
        self._first_us = 0

    def prepare(self) -> None:
        """Reading starts where the topic ends now."""
        known = self._consumer.list_topics(self._topic, ANSWER_S).topics[self._topic]
        if known.error is not None:
            raise SystemExit(f"{self._topic}: {known.error}")
        starts = []
        for partition in sorted(known.partitions):
            place = TopicPartition(self._topic, partition)
            _, end = self._consumer.get_watermark_offsets(place, ANSWER_S)
            starts.append(TopicPartition(self._topic, partition, end))
        self._consumer.assign(starts)
        if self._results is not None:
            self._results.start()
        if self._amqp is not None:
            self._amqp.start()

    # --- sending -------------------------------------------------------------------------------

    def send_for(self, seconds: float) -> None:
        try:
            self._send(seconds)
            self.sent_for_s = time.monotonic() - self.started_s
            self._producer.flush(LATE_S)
            if self._amqp is not None:
                self._amqp.finish(LATE_S)
                self.failures += self._amqp.failures
        finally:
            self._sending_over.set()

    def _send(self, seconds: float) -> None:
        orders, made = Orders(Random()), 0
        self.started_s = time.monotonic()
        while not self.finish.is_set():
            past_s = time.monotonic() - self.started_s
            if past_s >= seconds:
                return
            while made < past_s * self._rate + 1:
                made += 1
                self._send_one(orders, made)
            self._producer.poll(TICK_S)

    def _send_one(self, orders: Orders, number: int) -> None:
        now_us = time.time_ns() // 1000
        self._first_us = self._first_us or now_us
        customer, value = orders.next(self._first_us + (now_us - self._first_us) * SPEED)
        if self._amqp is not None and self._amqp.take(number, value, now_us):
            return
        headers: list[tuple[str, str | bytes | None]] = [("run", self._run), ("sent_us", str(now_us))]
        while True:
            try:
                self._producer.produce(
                    self._topic, value, customer, headers=headers, on_delivery=self._delivered
                )
                return
            except BufferError:
                self._producer.poll(TICK_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        partition, value = message.partition(), message.value()
        assert partition is not None
        assert isinstance(value, bytes)
        self._acknowledged(partition, value)

    def _confirmed(self, value: bytes) -> None:
        self._acknowledged(demo_amqp.PAGE, value)

    def _acknowledged(self, page: int, value: bytes) -> None:
        with self._sent_lock:
            self.sent.add(page, value)
            if self._results is not None:
                self._expected.add(value)

    # --- reading -------------------------------------------------------------------------------

    def read_all(self) -> None:
        """Until everything acknowledged was read, and a moment longer: something may come twice."""
        try:
            self._read_until_over()
        finally:
            self.reading_over.set()

    def _read_until_over(self) -> None:
        until_s = float("inf")
        while time.monotonic() < until_s:
            messages = self._next()
            now_us = time.time_ns() // 1000
            for message in messages:
                self._take(message, now_us)
            if self._sending_over.is_set():
                if until_s == float("inf"):
                    until_s = time.monotonic() + LATE_S
                if not messages and self.read.count >= self.sent.count:
                    return

    def _next(self) -> list[Message]:
        """Wait for one, then take what else is there: `consume` alone waits until it has many."""
        first = self._consumer.poll(POLL_S)
        return [] if first is None else [first, *self._consumer.consume(CONSUME_AT_ONCE, 0)]

    def _take(self, message: Message, now_us: int) -> None:
        error = message.error()
        if error is not None:
            self.failures.append(str(error))
            return
        headers = dict(message.headers() or ())
        if headers.get("run") != self._run:
            return
        value, partition = message.value(), message.partition()
        assert isinstance(value, bytes)
        assert partition is not None
        over_amqp = headers.get("over") == demo_amqp.OVER.encode()
        self.read.add(demo_amqp.PAGE if over_amqp else partition, value)
        latency_us = now_us - int(headers["sent_us"] or 0)
        self.latencies.add(latency_us)
        self.recent.add(latency_us)
        self.last_order = value

    # --- telling -------------------------------------------------------------------------------

    def report(self) -> Mapping[str, object]:
        recent, self.recent = self.recent, Latencies()
        # What is read may not be acknowledged yet, and more of both comes in between.
        read = self.read.count
        sent = self.sent.count
        return {
            "seconds": round(time.monotonic() - self.started_s, 3) if self.started_s else 0.0,
            "sent": sent,
            "read": min(read, sent),
            "failed": len(self.failures),
            **recent.summary_ms(),
            "last": self.last_order.decode(),
            "pipeline": self._results.report() if self._results is not None else None,
        }

    def verdict(self, is_checked: bool) -> Mapping[str, object]:
        wrong = [*self.sent.differences(self.read)]
        wrong += [f"{len(self.failures)} failed, the first one: {self.failures[0]}"] if self.failures else []
        wrong += [] if self.sent.count else ["nothing was sent"]
        is_computed = self._results is not None and is_checked
        pipeline = self._results.verdict(self._expected) if self._results and is_computed else None
        return {
            "pipeline": pipeline,
            "seconds": round(self.sent_for_s, 3),
            "sent": self.sent.count,
            "read": self.read.count,
            "partitions": len([page for page in self.sent.partitions if page >= 0]),
            "over_amqp": self.sent.count_of(demo_amqp.PAGE),
            "wrong": wrong,
            **self.latencies.summary_ms(),
        }

    def close(self) -> None:
        self._consumer.close()


def main(
    bootstrap: str, amqp: str, topic: str, seconds: float, rate: int, folder: Path | None = None
) -> None:
    stream = Stream(bootstrap, amqp, topic, rate, folder)
    signal.signal(signal.SIGTERM, lambda *_: stream.finish.set())
    stream.prepare()
    sender = threading.Thread(target=stream.send_for, args=(seconds,), daemon=True)
    reader = threading.Thread(target=stream.read_all, daemon=True)
    reader.start()
    sender.start()
    while not stream.reading_over.wait(REPORT_S):
        _say(stream.report())
    stream.close()
    if folder is not None:
        _say({**stream.report(), "waiting": True})
    is_checked = seconds != float("inf")  # else nobody looks at it, and the pipeline may take long
    _say({"verdict": stream.verdict(is_checked)})


def _say(line: Mapping[str, object]) -> None:
    try:
        print(json.dumps(line), flush=True)
    except BrokenPipeError:  # the demo is gone, and its broker with it: nobody hears of the rest
        os._exit(1)


if __name__ == "__main__":
    _, kafka, amqp, topic, seconds, rate, *folders = sys.argv
    main(kafka, amqp, topic, float(seconds), int(rate), *map(Path, folders))
