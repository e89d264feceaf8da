"""A connection to queues, by pika: one channel, one thread, and it does something only while that waits.

pika's callbacks are turned into waiting, because workers do one thing after the other; its own blocking
adapter would wait for each confirm before the next message.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import pika
from pika.adapters.select_connection import IOLoop
from pika.channel import Channel
from pika.exceptions import (
    AMQPError,
    ChannelClosedByClient,
    ConnectionClosedByClient,
)

from mainstem.model.errors import MainstemError

# For those who use a line: nobody else here knows pika.
Properties = pika.BasicProperties
Nack = pika.spec.Basic.Nack

# Clients say at length that the broker is gone. That is what we do to them.
_QUIET = logging.getLogger("pika")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False

ANSWER_S = 30.0


class LineLost(MainstemError):
    """It is gone, with the reason; there will be another one."""


class Line:
    """Open when it is made, or LineLost. A channel that the broker closes takes the connection with it."""

    channel: Channel

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._lost = ""
        self._closed = False
        self._loop = IOLoop()
        self._loop.activate_poller()
        opened: list[Channel] = []
        self._connection = pika.SelectConnection(
            pika.ConnectionParameters(host, int(port), heartbeat=0, connection_attempts=1),
            on_open_callback=lambda connection: connection.channel(on_open_callback=opened.append),
            on_open_error_callback=self._ended,
            on_close_callback=self._ended,
            custom_ioloop=self._loop,
        )
        try:
            self.wait(lambda: bool(opened))
        except LineLost:
            self.drop()
            raise
        self.channel = opened[0]
        self.channel.add_on_close_callback(self._ended)

    def _ended(self, _: object, reason: object) -> None:
        if isinstance(reason, ConnectionClosedByClient):
            self._closed = True
        elif not isinstance(reason, ChannelClosedByClient):
            self._lost = self._lost or str(reason) or type(reason).__name__

    def wait(self, is_done: Callable[[], bool], timeout_s: float = ANSWER_S) -> None:
        """Send and receive until it is so."""
        until_s = time.monotonic() + timeout_s
        while not is_done():
            if self._lost:
                raise LineLost(self._lost)
            if time.monotonic() > until_s:
                raise LineLost(f"no answer in {timeout_s:.0f} s")
            try:
                self._loop.poll()
                self._loop.process_timeouts()
            except AMQPError as error:
                raise LineLost(str(error) or type(error).__name__) from None

    def run(self, seconds: float) -> None:
        """Send and receive for a while."""
        over: list[bool] = []
        self._loop.call_later(seconds, lambda: over.append(True))
        self.wait(lambda: bool(over))

    def ask(self, call: Callable[[Callable[[Any], None]], object]) -> Any:
        """The answer to a method, which is given the callback for it."""
        answers: list[Any] = []
        self.tell(lambda: call(answers.append))
        self.wait(lambda: bool(answers))
        return answers[0]

    def tell(self, call: Callable[[], object]) -> None:
        """A method that nobody answers."""
        if self._lost:
            raise LineLost(self._lost)
        try:
            call()
        except AMQPError as error:
            raise LineLost(self._lost or str(error) or type(error).__name__) from None

    def close(self) -> None:
        """Say goodbye, and wait until it is heard."""
        self.tell(self._connection.close)
        self.wait(lambda: self._closed)
        self.drop()

    def drop(self) -> None:
        """Without a word."""
        self._loop.deactivate_poller()
        self._loop.close()
