"""One scene of a run with queues: fresh queues of every kind, the clients on them, and the ledger."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from random import Random  # noqa: TID251 - seeded by the run
from typing import Any

from mainstem.broker.system import SystemClock
from mainstem.torture.gate import Gate, Worker
from mainstem.torture.queue_clients import SETTLE_S, Drain, House, QueueClient
from mainstem.torture.queue_consumers import Consumer, Consuming, Manners, Pipe
from mainstem.torture.queue_judge import judge, outstanding
from mainstem.torture.queue_ledger import Layout, QueueLedger
from mainstem.torture.queue_line import Line, LineLost
from mainstem.torture.queue_publishers import Publisher, TransactionalPublisher, Way
from mainstem.torture.verdict import Verdict

PRIORITIES = 3
TTL_MS = 200
LONGEST_DELAY_MS = 1500
LEFT = 0.4  # the chance of a queue to be left with what is in it
LOOK_S = 0.05
STILL_S = 0.3  # without a delivery: nothing more is on its way
LOST_S = 5.0  # without a delivery, while something is missing: it will not come any more

DIRECT, ALL, LATER = "direct", "all", "later"  # exchanges
PLAIN, URGENT, STRICT, BRIEF, DEAD, DUE = "plain", "urgent", "strict", "brief", "dead", "due"
COPIES = ("copy-a", "copy-b", "copy-c")
IN, OUTS = "in", ("out-a", "out-b")
# Others are always emptied: what is in them says where a message has gone to.
MAY_BE_LEFT = (PLAIN, URGENT, *COPIES, IN, *OUTS)


class QueueScene:
    """Its clients live through every fault of the scene; `judge` wants them at rest."""

    def __init__(self, number: int, address: str, chance: Random) -> None:
        self._suffix = f"-{number}"
        self._address = address
        self._chance = chance
        self._clock = SystemClock()
        self.gate = Gate()
        self.ledger = QueueLedger()
        self._drain = Drain()
        self.layout = self._make_layout()
        self._counts: Mapping[str, int] = {}
        line = Line(address)
        self._make_queues(line)
        line.close()
        house = House(address, self.gate, self.ledger, self._drain)
        self.publishers = self._make_publishers(house)
        self.consumers = self._make_consumers(house)
        for worker in self._workers:
            worker.start()

    @property
    def _workers(self) -> list[Worker]:
        return [*self.publishers, *self.consumers]

    def _named(self, *queues: str) -> tuple[str, ...]:
        return tuple(queue + self._suffix for queue in queues)

    def _name(self, name: str) -> str:
        return name + self._suffix

    def _make_layout(self) -> Layout:
        name = self._name
        return Layout(
            self._named(PLAIN, URGENT, STRICT, BRIEF, DEAD, DUE, *COPIES, IN, *OUTS),
            ordered=frozenset(self._named(PLAIN, URGENT, STRICT, *COPIES, IN)),
            dead_letters={name(STRICT): name(DEAD), name(BRIEF): name(DEAD)},
            unattended=frozenset(self._named(BRIEF)),
        )

    def _make_queues(self, line: Line) -> None:
        channel, name = line.channel, self._name
        to_the_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name(DEAD)}
        arguments: dict[str, dict[str, Any]] = {
            name(URGENT): {"x-max-priority": PRIORITIES},
            name(COPIES[1]): {"x-queue-type": "quorum"},
            name(STRICT): to_the_dead,
            name(BRIEF): {**to_the_dead, "x-message-ttl": TTL_MS},
        }
        for queue in self.layout.queues:
            wanted = arguments.get(queue)
            line.ask(lambda done: channel.queue_declare(queue, durable=True, arguments=wanted, callback=done))  # noqa: B023
        for exchange, kind, more in (
            (DIRECT, "direct", None),
            (ALL, "fanout", None),
            (LATER, "x-delayed-message", {"x-delayed-type": "direct"}),
        ):
            line.ask(
                lambda done: channel.exchange_declare(
                    name(exchange),  # noqa: B023
                    kind,  # noqa: B023
                    durable=True,
                    arguments=more,  # noqa: B023
                    callback=done,
                )
            )
        bound = {DIRECT: (PLAIN, URGENT, STRICT, BRIEF), ALL: COPIES, LATER: (DUE,)}
        for exchange, queues in bound.items():
            for queue in self._named(*queues):
                line.ask(lambda done: channel.queue_bind(queue, name(exchange), queue, callback=done))  # noqa: B023

    def _make_publishers(self, house: House) -> list[QueueClient]:
        name, chance = self._name, self._chance

        def way(exchange: str, queue: str, **more: int) -> Way:
            return Way(name(exchange), name(queue), (name(queue),), **more)

        plain, urgent = way(DIRECT, PLAIN), way(DIRECT, URGENT, priorities=PRIORITIES)
        later = way(LATER, DUE, longest_delay_ms=LONGEST_DELAY_MS)
        copies = Way(name(ALL), "", self._named(*COPIES))
        into = Way("", name(IN), self._named(IN))

        def own() -> Random:
            return Random(chance.random())

        return [
            Publisher("one", [plain, urgent], house, own()),
            Publisher("two", [way(DIRECT, STRICT), way(DIRECT, BRIEF)], house, own()),
            Publisher("three", [copies, plain], house, own()),
            Publisher("four", [later], house, own()),
            Publisher("five", [into], house, own()),
            TransactionalPublisher("six", [plain, urgent, copies, into, later], house, own()),
        ]

    def _make_consumers(self, house: House) -> list[Consuming]:
        name = self._name
        manners = {
            PLAIN: Manners(requeues=0.05, dawdles=0.3),
            URGENT: Manners(requeues=0.05, dawdles=0.3),
            STRICT: Manners(rejects=0.3),
            DEAD: Manners(requeues=0.05),
            DUE: Manners(),
            COPIES[0]: Manners(dawdles=0.5),
            COPIES[1]: Manners(requeues=0.05),
            COPIES[2]: Manners(),
            OUTS[0]: Manners(),
            OUTS[1]: Manners(dawdles=0.5),
        }
        taking: list[Consuming] = [
            Consumer(name(queue), how, house, Random(self._chance.random())) for queue, how in manners.items()
        ]
        pipe = Pipe(name(IN), self._named(*OUTS), house, Random(self._chance.random()))
        return [*taking, pipe]

    # --- as a stage ------------------------------------------------------------------------------

    @property
    def acked(self) -> int:
        return self.ledger.confirmed()

    def struck(self, begun_s: float) -> None:
        self.ledger.strikes.append(begun_s)

    def rest(self, *, last: bool) -> None:
        """Publishers stop, consumers empty their queues; one that cannot is a finding."""
        may_be_left = () if last else self._named(*MAY_BE_LEFT)
        self._drain.left = frozenset(queue for queue in may_be_left if self._chance.random() < LEFT)
        self._drain.over.clear()
        self.gate.close()
        self._wait_for(self.publishers)
        try:
            line = Line(self._address)
            self._wait_until_empty(line)
            self._drain.over.set()
            self._wait_for(self.consumers)
            self._counts = {queue: _count(line, queue) for queue in self._drain.left}
            line.close()
        except LineLost as lost:
            self.ledger.remarks.append(f"queues could not be looked at: {lost}")
        finally:
            self._drain.over.set()

    def _wait_for(self, workers: Sequence[Worker]) -> None:
        for worker in self.gate.wait_for_rest(workers, SETTLE_S):
            self.ledger.remarks.append(f"{worker.name} did not come to rest: {worker.whereabouts()}")

    def _wait_until_empty(self, line: Line) -> None:
        """Until nothing is in those queues or on its way to them, or what is missing will not come."""
        emptied = [queue for queue in self.layout.queues if queue not in self._drain.left]
        until_s = time.monotonic() + SETTLE_S
        seen, since_s = -1, 0.0
        while time.monotonic() < until_s:
            line.run(LOOK_S)
            now = sum(len(came) for came in list(self.ledger.deliveries.values()))
            if now != seen or any(consumer.held for consumer in self.consumers):
                seen, since_s = now, time.monotonic()
            still_s = time.monotonic() - since_s
            if still_s < STILL_S or self._clock.now_ms() < self.ledger.latest_due_ms() + STILL_S * 1000:
                continue
            if any(_count(line, queue) for queue in emptied):
                continue
            if still_s > LOST_S or not any(outstanding(self.ledger, self.layout, self._left())):
                return
        counts = {queue: count for queue in emptied if (count := _count(line, queue))}
        self.ledger.remarks.append(f"after {SETTLE_S:.0f} s there are still messages in queues: {counts}")

    def _left(self) -> Mapping[str, int]:
        return dict.fromkeys(self._drain.left, 0)

    def judge(self) -> Verdict:
        return judge(self.ledger, self.layout, self._counts)

    def end(self, *, delete: bool) -> None:
        self.gate.end()
        for worker in self._workers:
            worker.join(SETTLE_S if delete else 1)
        if delete:
            line = Line(self._address)
            channel = line.channel
            for queue in self.layout.queues:
                line.ask(lambda done: channel.queue_delete(queue, callback=done))  # noqa: B023
            for exchange in self._named(DIRECT, ALL, LATER):
                line.ask(lambda done: channel.exchange_delete(exchange, callback=done))  # noqa: B023
            line.close()


def _count(line: Line, queue: str) -> int:
    """Messages in it that nobody holds."""
    answer = line.ask(lambda done: line.channel.queue_declare(queue, passive=True, callback=done))
    count: int = answer.method.message_count
    return count
