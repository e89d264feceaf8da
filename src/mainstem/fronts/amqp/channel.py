"""A channel: consumers, deliveries that are held, confirms, a transaction. What it does is in handlers/."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from pamqp import base

from mainstem.broker.queues import Queue
from mainstem.fronts.amqp.codes import PRECONDITION_FAILED
from mainstem.fronts.amqp.unacked import Held, Reader, Unacked, stretches
from mainstem.wire.amqp.deliver import Deliveries
from mainstem.wire.amqp.errors import AmqpError
from mainstem.wire.amqp.events import ACK, DROP, FAIL, Acks

if TYPE_CHECKING:
    from mainstem.fronts.amqp.connection import Connection
    from mainstem.fronts.amqp.transaction import Transaction

# Answers to requests are not held back as deliveries are: beyond this much unread they are lost.
MAX_REPLY_BYTES = 16 << 20


class Channel:
    __slots__ = (
        "_reply_consumer",
        "confirmed",
        "confirming",
        "connection",
        "consumers",
        "in_flight",
        "is_ahead",
        "is_closing",
        "last_queue",
        "next_tag",
        "number",
        "prefetch",
        "published",
        "reply_address",
        "reply_tag",
        "shared_prefetch",
        "spread",
        "transaction",
        "unacked",
    )

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number
        self.spread = crc32(f"{connection.peer}/{number}".encode())  # over the partitions of topics
        self.is_closing = False  # closed by us: all but close-ok is ignored
        self.consumers: dict[str, Reader] = {}
        self.unacked = Unacked()
        self.next_tag = 1
        self.prefetch = 0  # for consumers to come; 0: no limit
        self.shared_prefetch = 0  # for all consumers together
        self.in_flight = 0  # deliveries to consumers that are held
        self.confirming = False
        self.published = 0  # messages, numbered from 1; counted while confirming
        self.confirmed = 0
        self.transaction: Transaction | None = None
        self.last_queue = ""  # declared last: what an empty name stands for
        self.is_ahead = False  # of the disk: it published or acknowledged since the last answer
        self.reply_address = ""
        self.reply_tag = ""
        self._reply_consumer: Deliveries | None = None

    def send(self, frame: base.Frame) -> None:
        self.connection.send(self.number, frame)

    # --- deliveries and their end ----------------------------------------------------------------

    def settle(self, acks: Acks) -> None:
        """Acknowledged, rejected or given back. Raises AmqpError for a tag that is not held."""
        missing: int | None = None
        if acks.multiple:
            found = self.unacked.take_upto(acks.last)
            if found is None:
                raise _unknown_tag(acks.last)
            taken = found
        else:
            taken, missing = self.unacked.take(acks.first, acks.last)
        self.is_ahead = True
        if self.transaction is not None:
            self.transaction.settle(acks.kind, taken)
        else:
            self.end(acks.kind, taken)
        if missing is not None:
            raise _unknown_tag(missing)

    def end(self, kind: int, taken: list[Held]) -> None:
        for queue, lane, first, stop in stretches(taken):
            if kind == ACK:
                queue.ack(lane, first, stop)
            elif kind == DROP:
                queue.reject(lane, first, stop)
            else:
                queue.give_back(lane, first, stop, failed=kind == FAIL)
        self.release(taken)

    def release(self, taken: list[Held]) -> None:
        """They are held no more: there is room for others."""
        for held in taken:
            if held.consumer is not None:
                held.consumer.settled(held.stop - held.tag)
        if self.shared_prefetch:
            for consumer in self.consumers.values():
                consumer.settled(0)

    def wake(self) -> None:
        for consumer in self.consumers.values():
            consumer.wake()

    # --- direct reply-to -------------------------------------------------------------------------

    def wait_for_replies(self, tag: str, address: str) -> None:
        session = self.connection.session
        self.reply_tag, self.reply_address = tag, address
        self._reply_consumer = Deliveries(self.number, tag, session.frame_max)
        session.listener.replies.wait(address, self)

    def stop_replies(self) -> None:
        if self.reply_address:
            self.connection.session.listener.replies.stop(self.reply_address)
            self.reply_address = self.reply_tag = ""
            self._reply_consumer = None

    def reply(self, route: bytes, properties: bytes, body: bytes) -> None:
        """An answer to something that was published here. One who does not read gets no more of them."""
        if self._reply_consumer is None or self.connection.outbox.held_bytes > MAX_REPLY_BYTES:
            return
        self._reply_consumer.encode_message(
            self.connection.outbox.out, self.next_tag, route, properties, body
        )
        self.next_tag += 1
        self.connection.outbox.flush_soon()

    # --- the end ---------------------------------------------------------------------------------

    def has_consumer(self, tag: str) -> bool:
        return tag in self.consumers or (tag != "" and tag == self.reply_tag)

    def queue(self, name: str) -> Queue:
        """A queue by its name, or the one declared last. Raises UnknownQueue, QueueLocked."""
        session = self.connection.session
        return session.topology.queue(session.namespace, name, self.connection)

    def close(self) -> None:
        """Consumers go; what was delivered and not acknowledged comes back to its queues, as failed."""
        self.stop_replies()
        consumers, self.consumers = list(self.consumers.values()), {}
        for consumer in consumers:
            consumer.stop()
        if self.transaction is not None:
            self.unacked.put_back(self.transaction.drop())
            self.transaction = None
        for queue, lane, first, stop in stretches(self.unacked.take_all()):
            queue.give_back(lane, first, stop)


def _unknown_tag(tag: int) -> AmqpError:
    return AmqpError(PRECONDITION_FAILED, f"unknown delivery tag {tag}")
