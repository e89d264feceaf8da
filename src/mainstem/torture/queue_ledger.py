"""What clients of queues sent and saw, and what the broker said to it.

Kept in the driver's memory, so it survives whatever happens to the broker. A list is added to by any thread,
an entry is changed by the one thread that made it; the judge looks when all of them rest. Times are those of
the monotonic clock, except where a broker reckons with them, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from mainstem.torture.ledger import Outcome

Name = tuple[str, int]  # writer, number

# A connection that was made so shortly after a strike began was struck by it: no broker starts that quickly.
BLINK_S = 0.1
# Promised: an acknowledgement is on disk after this time.
ACK_S = 1.0


@dataclass(frozen=True, slots=True)
class Layout:
    """Which queues there are. `taken`: they have a consumer each, and messages come in a writer's order."""

    queues: tuple[str, ...]
    ordered: frozenset[str] = frozenset()
    dead_letters: Mapping[str, str] = field(default_factory=dict)  # queue -> where its dead letters go
    unattended: frozenset[str] = frozenset()  # nobody takes from these: their messages expire


@dataclass(slots=True, eq=False)
class Sent:
    queues: tuple[str, ...]
    due_ms: int = 0  # since 1970: not to be delivered before
    priority: int = 0
    confirmed: bool = False  # or in a transaction that was committed
    taken_back: bool = False  # in a transaction that was rolled back, or never committed


@dataclass(slots=True, eq=False)
class Session:
    """One connection of one client."""

    client: str
    begun_s: float
    lost_s: float | None = None  # it broke, by somebody else's doing
    why: str = ""
    closed: bool = False  # by its client, and the broker has answered
    settled: int = 0  # deliveries
    answered: int = 0  # of these: the broker has answered something that came after them


class Fate(Enum):
    """What a consumer did with a delivery."""

    HELD = "held"
    ACKED = "acked"
    REJECTED = "rejected"
    REQUEUED = "requeued"
    IN_WORK = "acked in a transaction"


@dataclass(slots=True, eq=False)
class Delivery:
    queue: str
    name: Name
    again: bool  # flagged as delivered before
    at_s: float
    at_ms: int  # since 1970
    session: Session
    deaths: tuple[tuple[str, str, int], ...] = ()  # queue, reason, count
    fate: Fate = Fate.HELD
    settled_s: float = 0.0
    number: int = 0  # of settlements in its session
    work: Work | None = None

    def settle(self, fate: Fate, now_s: float) -> None:
        """Call it before the broker is told: it may die in between."""
        self.fate = fate
        self.settled_s = now_s
        self.number = self.session.settled
        self.session.settled += 1


@dataclass(slots=True, eq=False)
class Work:
    """A transaction: these were published, those acknowledged, together or not at all."""

    names: list[Name] = field(default_factory=list)
    taken: list[Delivery] = field(default_factory=list)
    outcome: Outcome = Outcome.OPEN


@dataclass(slots=True)
class QueueLedger:
    sent: dict[Name, Sent] = field(default_factory=dict)
    deliveries: dict[str, list[Delivery]] = field(default_factory=dict)  # by queue, as they came
    works: list[Work] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    strikes: list[float] = field(default_factory=list)  # when they began
    damaged: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)  # what clients found wrong by themselves

    def strike_on(self, session: Session) -> float | None:
        """The one that ended it, or that was the first one after it had begun."""
        return next((at_s for at_s in self.strikes if at_s >= session.begun_s - BLINK_S), None)

    def came_last(self, queue: str) -> dict[Name, Delivery]:
        """The latest delivery of each message."""
        return {one.name: one for one in self.deliveries.get(queue, ())}

    def confirmed(self) -> int:
        return sum(one.confirmed for one in list(self.sent.values()))

    def latest_due_ms(self) -> int:
        return max((one.due_ms for one in list(self.sent.values())), default=0)
