"""Clients of queues as workers: connected again after each strike, at rest when asked to."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from random import Random  # noqa: TID251 - seeded by the run, for its load only

from mainstem.broker.system import SystemClock
from mainstem.torture.gate import Gate, Worker
from mainstem.torture.queue_ledger import QueueLedger, Session
from mainstem.torture.queue_line import Line, LineLost

SETTLE_S = 60.0  # for all of them to get their work done once the broker is back
AWAY_S = 0.05


class Drain:
    """At rest queues are emptied until somebody says that it is over; some are left as they are."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.left: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class House:
    """What all clients of a scene share."""

    address: str
    gate: Gate
    ledger: QueueLedger
    drain: Drain


class QueueClient(Worker):
    """`work` may raise LineLost at any time."""

    def __init__(self, name: str, house: House, chance: Random) -> None:
        super().__init__(name, house.gate, house.ledger.remarks.append)
        self.ledger = house.ledger
        self.clock = SystemClock()
        self.chance = chance
        self.drain = house.drain
        self._address = house.address
        self._line: Line | None = None
        self.session = Session(name, 0.0)

    def step(self) -> None:
        try:
            if self._line is None:
                self._line = self._connect()
            self.work(self._line)
        except LineLost as lost:
            self._lose(str(lost))
            time.sleep(AWAY_S)

    def _connect(self) -> Line:
        line = Line(self._address)
        self.session = Session(self.name, time.monotonic())
        self.ledger.sessions.append(self.session)
        try:
            self.begin(line)
        except LineLost:
            self._line = line  # it was a connection, and its loss is noted
            raise
        return line

    def _lose(self, why: str) -> None:
        if self._line is None:
            return  # there was none yet
        self._line.drop()
        self._line = None
        self.session.lost_s, self.session.why = time.monotonic(), why
        self.lost()

    def leave(self) -> None:
        """Say goodbye; what was settled before is settled for good."""
        if self._line is None:
            return
        try:
            self._line.close()
        except LineLost as lost:
            self._lose(str(lost))
        else:
            self._line = None
            self.session.closed = True
            self.lost()

    def finish(self) -> None:
        self.leave()

    def begin(self, line: Line) -> None:
        """Of a new connection."""
        raise NotImplementedError

    def work(self, line: Line) -> None:
        raise NotImplementedError

    def lost(self) -> None:
        """The connection is gone, and with it all that was under way."""
        raise NotImplementedError
