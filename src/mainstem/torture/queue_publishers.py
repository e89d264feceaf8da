"""Publishers: with confirms, or in transactions. None of them repeats what was not confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random  # noqa: TID251 - seeded by the run, for its load only
from typing import Any

from mainstem.torture.ledger import Outcome, value_of
from mainstem.torture.queue_clients import SETTLE_S, House, QueueClient
from mainstem.torture.queue_ledger import Name, Sent, Work
from mainstem.torture.queue_line import Line, LineLost, Nack, Properties

MAX_UNCONFIRMED = 300
LARGEST_BYTES = 1000
PAUSE_S = 0.005


@dataclass(frozen=True, slots=True)
class Way:
    """Where a message may be published, and where it arrives then."""

    exchange: str
    key: str
    queues: tuple[str, ...]
    priorities: int = 0
    longest_delay_ms: int = 0


class Publishing(QueueClient):
    """Numbered messages that name themselves."""

    def __init__(self, name: str, ways: Sequence[Way], house: House, chance: Random) -> None:
        super().__init__(name, house, chance)
        self._ways = ways
        self._number = 0

    def publish(self, line: Line, confirmable: bool = True) -> tuple[Name, Sent]:
        """One message; in the ledger before it is sent."""
        chance, way = self.chance, self.chance.choice(self._ways)
        name = (self.name, self._number)
        self._number += 1
        delay_ms = chance.randrange(1, way.longest_delay_ms) if way.longest_delay_ms else 0
        priority = chance.randrange(way.priorities + 1)
        sent = Sent(way.queues, self.clock.now_ms() + delay_ms if delay_ms else 0, priority)
        self.ledger.sent[name] = sent
        properties = Properties(
            delivery_mode=2,
            priority=priority if way.priorities else None,
            headers={"x-delay": delay_ms} if delay_ms else None,
        )
        body = value_of(*name, chance.randrange(LARGEST_BYTES))
        # What is held back finds its queues later: it cannot be returned.
        mandatory = confirmable and not delay_ms
        line.tell(
            lambda: line.channel.basic_publish(way.exchange, way.key, body, properties, mandatory=mandatory)
        )
        return name, sent


class Publisher(Publishing):
    """Bursts of messages, confirmed in the order in which they were sent."""

    def __init__(self, name: str, ways: Sequence[Way], house: House, chance: Random) -> None:
        super().__init__(name, ways, house, chance)
        self._unconfirmed: list[Sent] = []
        self._confirmed_upto = 0  # delivery tag

    def begin(self, line: Line) -> None:
        self._confirmed_upto = 0
        line.channel.add_on_return_callback(self._returned)
        line.ask(lambda done: line.channel.confirm_delivery(self._answered, done))

    def _returned(self, _channel: object, method: Any, _properties: object, _body: object) -> None:
        self._remark(f"{self.name}: {method.exchange!r} {method.routing_key!r} leads nowhere")

    def _answered(self, frame: Any) -> None:
        method = frame.method
        upto = method.delivery_tag - self._confirmed_upto
        if isinstance(method, Nack) or not (method.multiple or upto == 1):
            self._remark(f"{self.name}: an answer that cannot be: {method}")
            return
        for sent in self._unconfirmed[:upto]:
            sent.confirmed = True
        del self._unconfirmed[:upto]
        self._confirmed_upto = method.delivery_tag

    def work(self, line: Line) -> None:
        if len(self._unconfirmed) < MAX_UNCONFIRMED:
            for _ in range(self.chance.randrange(1, 20)):
                # Known as unconfirmed before an answer can come: none is read while this runs.
                self._unconfirmed.append(self.publish(line)[1])
        line.run(self.chance.random() * 2 * PAUSE_S)

    def lost(self) -> None:
        self._unconfirmed = []

    def settle(self) -> None:
        if self._line is None:
            return
        try:
            self._line.wait(lambda: not self._unconfirmed, SETTLE_S / 2)
        except LineLost as lost:
            self._lose(str(lost))


class TransactionalPublisher(Publishing):
    """Transactions over several queues; most are committed, some rolled back, some just left behind."""

    def begin(self, line: Line) -> None:
        line.ask(line.channel.tx_select)

    def work(self, line: Line) -> None:
        chance, work = self.chance, Work()
        self.ledger.works.append(work)
        try:
            for _ in range(chance.randrange(1, 20)):
                name, _ = self.publish(line, confirmable=False)
                work.names.append(name)
            end(line, work, self, chance.random())
        finally:
            note_outcome(self.ledger.sent, work)
        line.run(chance.random() * 4 * PAUSE_S)

    def lost(self) -> None:
        """Nothing is under way between transactions."""


def end(line: Line, work: Work, client: QueueClient, chance: float) -> None:
    """Commit or roll back a transaction, or leave it behind."""
    if chance < 0.8:
        work.outcome = Outcome.UNKNOWN  # from here on it may happen, whatever becomes of us
        line.ask(line.channel.tx_commit)
        work.outcome = Outcome.COMMITTED
    elif chance < 0.95:
        line.ask(line.channel.tx_rollback)
        work.outcome = Outcome.ABORTED
    else:
        client.leave()
        work.outcome = Outcome.ABORTED
        raise LineLost("left behind")


def note_outcome(sent: dict[Name, Sent], work: Work) -> None:
    """Also of one that broke off: what was not asked to be committed never is."""
    if work.outcome is Outcome.OPEN:
        work.outcome = Outcome.ABORTED
    for name in work.names:
        sent[name].confirmed = work.outcome is Outcome.COMMITTED
        sent[name].taken_back = work.outcome is Outcome.ABORTED
