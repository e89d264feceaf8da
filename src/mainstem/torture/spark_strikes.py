"""When to strike, and whom. Pure: all of it follows from the seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random  # noqa: TID251 - seeded by the run

# Local Spark has its executor in the driver, and only Python workers beside it.
CLUSTER_KINDS = ("driver", "executor", "broker", "python worker")
LOCAL_KINDS = ("driver", "python worker", "broker")
FIRST, LAST = 0.02, 0.95  # of the rows: between them it strikes
LONGEST_WAIT_S = 2.0
LONGEST_AWAY_S = 3.0
TWICE = 0.2  # the chance that a strike follows at once, into the recovery from the one before


@dataclass(frozen=True, slots=True)
class Strike:
    """`wait_s` after `at_rows` were copied, and somewhere within a batch therefore."""

    kind: str
    at_rows: int
    wait_s: float
    away_s: float  # before what was killed is started again, where that is ours to do
    choice: float  # which one of several, from 0 to below 1


def plan_strikes(seed: int, kills: int, rows: int, kinds: Sequence[str]) -> list[Strike]:
    """Spread over the rows, one at random in each of `kills` stretches; kinds take turns in random order."""
    chance = Random(seed)
    strikes: list[Strike] = []
    turn: list[str] = []
    for index in range(kills):
        if not turn:
            turn = chance.sample(kinds, len(kinds))
        share = FIRST + (index + chance.random()) / kills * (LAST - FIRST)
        again = bool(strikes) and chance.random() < TWICE
        strikes.append(
            Strike(
                turn.pop(),
                strikes[-1].at_rows if again else int(share * rows),
                chance.random() * LONGEST_WAIT_S,
                chance.random() * LONGEST_AWAY_S,
                chance.random(),
            )
        )
    return strikes
