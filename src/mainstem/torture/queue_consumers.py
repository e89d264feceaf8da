"""Consumers: they acknowledge, reject, give back, or pass on in a transaction; each delivery is noted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random  # noqa: TID251 - seeded by the run, for its load only
from typing import Any, NamedTuple

from mainstem.torture.ledger import identity, value_of
from mainstem.torture.queue_clients import House, QueueClient
from mainstem.torture.queue_ledger import Delivery, Fate, Name, Sent, Work
from mainstem.torture.queue_line import Line, LineLost
from mainstem.torture.queue_publishers import end, note_outcome

PREFETCH = 200
LOOK_S = 0.01
PIPED_AT_ONCE = 10


class Held(NamedTuple):
    tag: int
    delivery: Delivery
    body: bytes


@dataclass(frozen=True, slots=True)
class Manners:
    """How often, of all deliveries, it does something else than to acknowledge."""

    rejects: float = 0.0
    requeues: float = 0.0
    dawdles: float = 0.0  # of all turns: it does nothing for a moment, so that messages pile up


class Consuming(QueueClient):
    """Takes from one queue and keeps what came until it is dealt with."""

    def __init__(self, queue: str, house: House, chance: Random) -> None:
        super().__init__(f"consumer of {queue}", house, chance)
        self.queue = queue
        self.held: list[Held] = []

    def begin(self, line: Line) -> None:
        channel = line.channel
        line.ask(lambda done: channel.basic_qos(prefetch_count=PREFETCH, callback=done))
        line.ask(lambda done: channel.basic_consume(self.queue, self._came, callback=done))

    def _came(self, _channel: object, method: Any, properties: Any, body: bytes) -> None:
        name = identity(body)
        if name is None:
            self.ledger.damaged.append(f"a damaged message in {self.queue}: {body[:60]!r}")
            return
        deaths = tuple(
            (death["queue"], death["reason"], death["count"])
            for death in (properties.headers or {}).get("x-death", ())
        )
        delivery = Delivery(
            self.queue, name, method.redelivered, time.monotonic(), self.clock.now_ms(), self.session, deaths
        )
        self.ledger.deliveries.setdefault(self.queue, []).append(delivery)
        self.held.append(Held(method.delivery_tag, delivery, body))

    def lost(self) -> None:
        self.held = []

    def settle(self) -> None:
        """Empty the queue, or leave it."""
        if self.queue in self.drain.left:
            self.leave()
            return
        while not self.drain.over.is_set():
            self.step()


class Consumer(Consuming):
    def __init__(self, queue: str, manners: Manners, house: House, chance: Random) -> None:
        super().__init__(queue, house, chance)
        self._manners = manners

    def work(self, line: Line) -> None:
        chance = self.chance
        line.run(chance.random() * LOOK_S)
        if self.gate.is_open and chance.random() < self._manners.dawdles:
            line.run(chance.random() * 10 * LOOK_S)
            return
        count = len(self.held) if not self.gate.is_open else chance.randrange(len(self.held) + 1)
        if count and chance.random() < 0.3:
            self._ack_all(line, count)
        for _ in range(min(count, len(self.held))):
            at = chance.randrange(len(self.held)) if chance.random() < 0.2 else 0
            self._settle_one(line, self.held.pop(at))
        if chance.random() < 0.1:
            # Its answer comes when all that was acknowledged before is on disk.
            settled = self.session.settled
            line.ask(lambda done: line.channel.basic_qos(prefetch_count=PREFETCH, callback=done))
            self.session.answered = settled

    def _ack_all(self, line: Line, count: int) -> None:
        """Up to one of them, at once."""
        taken, self.held = self.held[:count], self.held[count:]
        now_s = time.monotonic()
        for held in taken:
            held.delivery.settle(Fate.ACKED, now_s)
        line.tell(lambda: line.channel.basic_ack(max(held.tag for held in taken), multiple=True))

    def _settle_one(self, line: Line, held: Held) -> None:
        what = self.chance.random()
        manners, channel, tag = self._manners, line.channel, held.tag
        if what < manners.rejects:
            held.delivery.settle(Fate.REJECTED, time.monotonic())
            line.tell(lambda: channel.basic_reject(tag, requeue=False))
        elif what < manners.rejects + manners.requeues and self.gate.is_open:
            held.delivery.settle(Fate.REQUEUED, time.monotonic())
            line.tell(lambda: channel.basic_nack(tag, requeue=True))
        else:
            held.delivery.settle(Fate.ACKED, time.monotonic())
            line.tell(lambda: channel.basic_ack(tag))


class Pipe(Consuming):
    """Each message becomes one in each of some queues, and is acknowledged, in one transaction."""

    def __init__(self, queue: str, targets: Sequence[str], house: House, chance: Random) -> None:
        super().__init__(queue, house, chance)
        self._targets = targets
        self._number = 0

    def begin(self, line: Line) -> None:
        line.ask(line.channel.tx_select)
        super().begin(line)

    def work(self, line: Line) -> None:
        line.run(self.chance.random() * LOOK_S)
        if not self.held:
            return
        taken = self.held[: self.chance.randrange(1, PIPED_AT_ONCE)]
        work = Work(taken=[held.delivery for held in taken])
        self.ledger.works.append(work)
        try:
            for held in taken:
                self._pass_on(line, held, work)
            end(line, work, self, self.chance.random())
        except LineLost:
            note_outcome(self.ledger.sent, work)
            raise
        note_outcome(self.ledger.sent, work)
        if work.names and self.ledger.sent[work.names[0]].confirmed:
            del self.held[: len(taken)]
        # Else it was rolled back: they are held again, and can be acknowledged again.

    def _pass_on(self, line: Line, held: Held, work: Work) -> None:
        channel = line.channel
        for target in self._targets:
            name: Name = (self.name, self._number)
            self._number += 1
            self.ledger.sent[name] = Sent((target,))
            work.names.append(name)
            body = value_of(*name, len(held.body))
            line.tell(lambda target=target, body=body: channel.basic_publish("", target, body))  # type: ignore[misc]
        held.delivery.work = work
        held.delivery.settle(Fate.IN_WORK, time.monotonic())
        line.tell(lambda: channel.basic_ack(held.tag))
