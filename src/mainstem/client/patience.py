"""Go on asking while a broker is away: for work that may be done twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from mainstem.client import codes
from mainstem.model.errors import BrokerRefused, BrokerUnreachable

T = TypeVar("T")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0
LONGEST_THROTTLE_S = 10.0


def patiently(work: Callable[[], T], patience_s: float) -> T:
    """Its result. Errors that pass (nobody there, somebody else in charge) are waited out so long."""
    deadline, pause_s = time.monotonic() + patience_s, FIRST_PAUSE_S
    while True:
        try:
            return work()
        except (BrokerUnreachable, BrokerRefused) as error:
            passing = isinstance(error, BrokerUnreachable) or error.code in codes.MOVED
            if not passing or time.monotonic() + pause_s > deadline:
                raise
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def sit_out(throttle_ms: int) -> BrokerUnreachable:
    """Wait as long as a broker wants that has told nothing, within reason. What to say if it goes on so."""
    time.sleep(max(FIRST_PAUSE_S, min(throttle_ms / 1000, LONGEST_THROTTLE_S)))
    return BrokerUnreachable(
        f"the broker answers and tells nothing: a quota makes it hold records back, by {throttle_ms} ms now"
    )
