"""When the machine is quiet enough to measure on, and which runs have to be done again.

Everything is seen from outside, by the same signs for every broker: what its processes compute, read, write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

STEP_S = 0.5
CALM_S = 3.0  # Mainstem takes up to two seconds to see that a load is over, and then begins to merge
LIMIT_S = 180.0
IDLE_SHARE = 0.1  # of one core
IDLE_BYTES_PER_S = 4e6
MOST_REPEATS = 3
DISTURBING_CPU_S, DISTURBING_SHARE = 0.3, 0.06  # two idle JVMs take up to 0.04 of a core


@dataclass(frozen=True)
class Pulse:
    """What a broker and its children have done so far."""

    cpu_s: float
    moved_bytes: int  # a merge that is held to a speed takes little CPU, but it reads and writes
    held: bool  # a child is stopped, so there is work that goes on later


@dataclass(frozen=True)
class Settled:
    seconds: float
    gave_up: bool = False

    def metrics(self) -> dict[str, float]:
        return {"settled_s": self.seconds, "unsettled": float(self.gave_up)}


def is_idle(before: Pulse, now: Pulse, seconds: float) -> bool:
    return (
        not now.held
        and now.cpu_s - before.cpu_s < seconds * IDLE_SHARE
        and now.moved_bytes - before.moved_bytes < seconds * IDLE_BYTES_PER_S
    )


def wait_until_idle(
    pulses: Callable[[], Mapping[int, Pulse]],
    limit_s: float = LIMIT_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Settled:
    """Until every broker has been idle for CALM_S without a break, or the limit has passed."""
    started = calm_from = then = clock()
    before = pulses()
    while before and then - calm_from < CALM_S:
        if then - started >= limit_s:
            return Settled(then - started, gave_up=True)
        sleep(STEP_S)
        now_s, now = clock(), pulses()
        if not all(pid in before and is_idle(before[pid], one, now_s - then) for pid, one in now.items()):
            calm_from = now_s
        before, then = now, now_s
    return Settled(then - started)


def is_disturbed(idle_broker_cpu_s: float, run_s: float) -> bool:
    """Whether the brokers that should have been idle took too much of the machine from the one that ran."""
    return idle_broker_cpu_s > max(DISTURBING_CPU_S, run_s * DISTURBING_SHARE)


def is_to_repeat(idle_broker_cpu_s: float, run_s: float, repeats: int) -> bool:
    return repeats < MOST_REPEATS and is_disturbed(idle_broker_cpu_s, run_s)
