"""Whose turn it is of the merges that are due, and how long the one in hand may rest.

Clients come first: while they move much, merges that can wait do, and the one in hand rests. Clients may
never pause, though, so nothing waits for longer than `max_put_off_ms` on their account. What was due for so
long is late: it is begun whatever clients do, and nothing rests in front of it.

Nor does one merge keep another waiting for ever, whether it comes off or fails each time: drops come first
only for as long as they come off, level 0 is not tried twice in a row while others are late, and of these
the one comes first that was not tried for longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mainstem.kernel.log.plan import NOTHING_ALIVE, Choice


class Rest:
    """Of one merge: it is held for so long in all, and then goes on, however busy the moment."""

    def __init__(self, left_ms: int, now_ms: int) -> None:
        self._left_ms = left_ms
        self._seen_ms = now_ms
        self._rests = False

    def rests(self, busy: bool, now_ms: int) -> bool:
        """Asked at every tick; what passes between two counts as the first of them said."""
        if self._rests:
            self._left_ms -= now_ms - self._seen_ms
        self._seen_ms = now_ms
        self._rests = busy and self._left_ms > 0
        return self._rests


class Turns:
    """Merges are told apart by what they are for (`Choice.why`)."""

    def __init__(self, max_put_off_ms: int) -> None:
        self._max_put_off_ms = max_put_off_ms
        self._due_ms: dict[str, int] = {}  # since when
        self._tried: list[str] = []  # the latest last
        self._drops_come_off = True
        self._in_hand = ""
        self._rest: Rest | None = None

    # --- what is due -----------------------------------------------------------------------------

    def note(self, due: Iterable[Choice], now_ms: int, *, surveyed: bool) -> None:
        """All that is due now, as far as anybody looked.

        What is missing is forgotten after a survey only: between two, a group that was tried is not looked
        at, and must not lose its place because that failed.
        """
        since = {
            choice.why: self._due_ms.get(choice.why, now_ms) if choice.due_ms is None else choice.due_ms
            for choice in due
        }
        self._due_ms = since if surveyed else self._due_ms | since

    def any_late(self, now_ms: int) -> bool:
        """Of those that wait: not the one in hand."""
        return any(self._is_late(why, now_ms) for why in self._due_ms if why != self._in_hand)

    def _is_late(self, why: str, now_ms: int) -> bool:
        """A drop is from the first on: it takes nothing from clients that would be worth a wait."""
        if why not in self._due_ms:
            return False
        return why == NOTHING_ALIVE or now_ms - self._due_ms[why] >= self._max_put_off_ms

    # --- the order -------------------------------------------------------------------------------

    def in_turn(
        self, level0: Choice | None, others: Sequence[Choice], now_ms: int, *, all_may: bool
    ) -> list[Choice]:
        """What to begin, the first of them that can be. Those that are not late follow if `all_may`."""
        others = sorted(others, key=self._last_try)
        late = [choice for choice in others if self._is_late(choice.why, now_ms)]
        rest = [choice for choice in others if choice not in late] if all_may else []
        first = [choice for choice in late if choice.why == NOTHING_ALIVE and self._drops_come_off]
        late = [choice for choice in late if choice not in first]
        if level0 is None or not (all_may or self._is_late(level0.why, now_ms)):
            return [*first, *late, *rest]
        had_its_turn = self._tried[-1:] == [level0.why]
        return [*first, *late, level0, *rest] if had_its_turn else [*first, level0, *late, *rest]

    def _last_try(self, choice: Choice) -> int:
        return self._tried.index(choice.why) if choice.why in self._tried else -1

    def tried(self, choice: Choice) -> None:
        """It had its turn, whatever comes of it: there may be no room for it, or it fails."""
        if choice.why == NOTHING_ALIVE and self._drops_come_off:
            self._drops_come_off = False  # until this one did; it takes nobody's turn
            return
        self._tried = [*(why for why in self._tried if why != choice.why), choice.why]

    # --- the one in hand -------------------------------------------------------------------------

    def begin(self, choice: Choice, now_ms: int) -> None:
        """It may rest, unless it was put off for long enough already."""
        self._in_hand = choice.why
        self._rest = Rest(0 if self._is_late(choice.why, now_ms) else self._max_put_off_ms, now_ms)

    @property
    def is_one_in_hand(self) -> bool:
        return self._rest is not None

    def rests(self, busy: bool, now_ms: int) -> bool:
        return self._rest is not None and self._rest.rests(busy and not self.any_late(now_ms), now_ms)

    def end(self) -> None:
        """Nothing is in hand any more, whatever came of it."""
        self._in_hand, self._rest = "", None

    def came_off(self, choice: Choice) -> None:
        if choice.why == NOTHING_ALIVE:
            self._drops_come_off = True
        if choice.why == NOTHING_ALIVE or choice.due_ms is not None:
            # Not before the next survey: if there is more of it, that is known to be late, or not, anew.
            self._due_ms.pop(choice.why, None)
