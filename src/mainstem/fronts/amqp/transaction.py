"""tx.*: publishes and acknowledgements of a channel that wait for commit, and then happen together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mainstem.broker.partition import Partition
from mainstem.broker.queues import Gathered, Queue, Route
from mainstem.fronts.amqp.codes import RESOURCE_ERROR, precondition
from mainstem.fronts.amqp.unacked import Held
from mainstem.model.batch import read_header
from mainstem.wire.amqp.errors import AmqpError
from mainstem.wire.amqp.events import ACK

if TYPE_CHECKING:
    from mainstem.fronts.amqp.channel import Channel

# It lies in memory until it is committed.
MAX_BYTES = 64 << 20


class Transaction:
    """Between two commits or rollbacks; the channel has another one after that."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._work = channel.connection.session.queues.transaction()
        self._publisher = channel.connection.session.broker.publisher
        self._settled: list[tuple[int, list[Held]]] = []
        self._bytes = 0
        self._records = 0  # for topics
        self._record_bytes = 0
        self.returns = bytearray()  # frames that come before commit-ok
        self.later: list[Callable[[], None]] = []  # what has no part in the log
        self.failed = False  # a queue was full

    def gather(self, route: Route, priority: int = 0) -> Gathered:
        return self._work.gather(route, priority)

    def gather_delayed(self, due_ms: int) -> Gathered:
        return self._channel.connection.queues.gather_delayed(due_ms, self._work)

    def append(self, partition: Partition, batch: memoryview) -> None:
        """Records for a topic. Refused now or not at all: commit must not fail for one of them."""
        checked = self._publisher.check(partition, batch)
        self.grow(len(checked))
        self._work.append(partition, checked)
        self._records += read_header(checked).record_count
        self._record_bytes += len(checked)

    def grow(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MAX_BYTES:
            raise AmqpError(RESOURCE_ERROR, f"a transaction of more than {MAX_BYTES} bytes")

    def settle(self, kind: int, taken: list[Held]) -> None:
        self._settled.append((kind, taken))

    async def commit(self) -> None:
        """On disk when it returns, all of it or nothing."""
        if self.failed:
            raise precondition("partial tx completion")
        channel = self._channel
        for kind, taken in self._settled:
            if kind == ACK:
                for held in taken:
                    if isinstance(held.queue, Queue):
                        self._work.ack(held.queue, held.lane, held.first, held.first_after)
        await self._work.commit()
        self._publisher.messages += self._records
        self._publisher.bytes += self._record_bytes
        settled, self._settled = self._settled, []
        for kind, taken in settled:
            if kind == ACK:
                channel.release(taken)
            else:
                channel.end(kind, taken)
        for call in self.later:
            call()
        channel.connection.outbox.out += self.returns

    def drop(self) -> list[Held]:
        """Nothing of it happens: these deliveries are held again."""
        settled, self._settled = self._settled, []
        return [held for _, taken in settled for held in taken]
