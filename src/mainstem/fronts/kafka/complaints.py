"""Lines in the log about what a peer sent and heard an error for, or never sent whole.

A client that does such a thing does it again at once, as fast as it can. So a connection has a line now and
then, all of a listener have a bounded number of them, and each line tells how many were left out before it.
Who connects anew each time, and is closed for the same reason, has some lines, and then one now and then.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mainstem.model.logs import get_log

if TYPE_CHECKING:
    from mainstem.fronts.kafka.session import Session

events = get_log(__name__)

CONNECTION_EVERY_MS = 10_000
# Of a listener: so many at once, and one more for each time this has passed.
MOST_AT_ONCE = 100
LISTENER_EVERY_MS = 100
# Of ends for one reason, of one address, in CONNECTION_EVERY_MS.
MOST_ALIKE = 10
_MAX_KINDS = 1000
_NUMBER = re.compile(r"\d+")  # reasons that differ in one are alike


class Complaints:
    """One per listener."""

    def __init__(self) -> None:
        self._left = MOST_AT_ONCE
        self._counted_ms: int | None = None  # up to then `_left` has grown
        self._left_out = 0
        # By address and reason: when the first of the latest few was told, and how many there were.
        self._ends: dict[tuple[str, str], tuple[int, int]] = {}

    def closed(self, session: Session, why: str) -> None:
        """A line about a connection that is ended, unless there were many like it."""
        now_ms = session.broker.clock.monotonic_ms()
        kind = session.host, _NUMBER.sub("0", why)
        since_ms, count = self._ends.get(kind, (now_ms, 0))
        if now_ms - since_ms >= CONNECTION_EVERY_MS:
            since_ms, count = now_ms, 0
        if len(self._ends) >= _MAX_KINDS:
            self._ends.clear()
        self._ends[kind] = since_ms, count + 1
        if count >= MOST_ALIKE:
            self._left_out += 1
            return
        self._say(session, "connection closed", {"why": why})

    def tell(self, session: Session, what: str, **facts: object) -> None:
        """A line that names the peer, unless there were enough of them."""
        now_ms = session.broker.clock.monotonic_ms()
        told_ms = session.complained_ms
        if (told_ms is not None and now_ms - told_ms < CONNECTION_EVERY_MS) or not self._may(now_ms):
            self._left_out += 1
            return
        session.complained_ms = now_ms
        self._say(session, what, facts)

    def _say(self, session: Session, what: str, facts: dict[str, object]) -> None:
        if self._left_out:
            facts["left_out"], self._left_out = self._left_out, 0
        events.warning(what, peer=session.peer, principal=session.principal, **facts)

    def _may(self, now_ms: int) -> bool:
        if self._counted_ms is None:
            self._counted_ms = now_ms
        grown = (now_ms - self._counted_ms) // LISTENER_EVERY_MS
        self._counted_ms += grown * LISTENER_EVERY_MS
        self._left = min(self._left + grown, MOST_AT_ONCE)
        if not self._left:
            return False
        self._left -= 1
        return True
