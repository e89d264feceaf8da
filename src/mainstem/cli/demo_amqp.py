"""Some of the sample's orders come from a RabbitMQ client: to the same topic, confirmed by the broker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pika

# One order in so many, as long as no more than so many wait for their confirms.
ONE_IN = 10
MAX_WAITING = 50
WAIT_S = 0.05
# What marks them on the way back, and the page of the ledger they are on: where they went is not told.
OVER = "amqp"
PAGE = -1


class AmqpOrders:
    """A thread with a connection of its own."""

    def __init__(self, address: str, topic: str, run: bytes, delivered: Callable[[bytes], None]) -> None:
        import pika  # need not be installed where nobody asks for this

        host, _, port = address.rpartition(":")
        self._parameters = pika.ConnectionParameters(host, int(port))
        self._topic = topic
        self._run = run.decode()
        self._delivered = delivered
        self._orders: SimpleQueue[tuple[bytes, int]] = SimpleQueue()
        self._over = threading.Event()
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._send_all, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def take(self, number: int, value: bytes, now_us: int) -> bool:
        """False if this order is for the other client."""
        if number % ONE_IN or self._orders.qsize() >= MAX_WAITING or not self._thread.is_alive():
            return False
        self._orders.put((value, now_us))
        return True

    def finish(self, seconds: float) -> None:
        """All that it took is confirmed, or has failed, when this returns."""
        self._over.set()
        self._thread.join(seconds)

    def _send_all(self) -> None:
        import pika

        try:
            with pika.BlockingConnection(self._parameters) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                while not (self._over.is_set() and self._orders.empty()):
                    self._send_one(channel)
        except pika.exceptions.AMQPError as error:
            self.failures.append(f"over AMQP: {error!r}")

    def _send_one(self, channel: pika.adapters.blocking_connection.BlockingChannel) -> None:
        try:
            value, now_us = self._orders.get(timeout=WAIT_S)
        except Empty:
            return
        import pika

        headers = {"run": self._run, "sent_us": str(now_us), "over": OVER}
        channel.basic_publish("", self._topic, value, pika.BasicProperties(headers=headers), mandatory=True)
        self._delivered(value)
