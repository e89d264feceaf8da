"""Which consumer gets how many of the next ones.

shared      all that are not paused: those of the highest priority first, in turn within a priority
exclusive   the only one there can be
failover    one is active until it leaves; then the one of the highest priority, the oldest of them
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, Literal, TypeVar

from mainstem.model.errors import QueueInUse

C = TypeVar("C", bound=Hashable)
Mode = Literal["shared", "exclusive", "failover"]


class _Level(Generic[C]):
    """The consumers of one priority, oldest first, and whose turn it is."""

    __slots__ = ("consumers", "turn")

    def __init__(self) -> None:
        self.consumers: list[C] = []
        self.turn = 0

    def remove(self, consumer: C) -> None:
        at = self.consumers.index(consumer)
        del self.consumers[at]
        if at < self.turn:
            self.turn -= 1

    def in_turn(self) -> Iterator[C]:
        consumers = self.consumers
        turn = self.turn if self.turn < len(consumers) else 0
        for at in range(turn, len(consumers)):
            yield consumers[at]
        for at in range(turn):
            yield consumers[at]

    def served(self, consumer: C) -> None:
        self.turn = (self.consumers.index(consumer) + 1) % len(self.consumers)


class Sharing(Generic[C]):
    def __init__(self, mode: Mode = "shared") -> None:
        self.mode: Mode = mode
        self._priorities: dict[C, int] = {}
        self._levels: dict[int, _Level[C]] = {}  # highest priority first
        self._paused: set[C] = set()
        self._active: C | None = None

    def __len__(self) -> int:
        return len(self._priorities)

    def __iter__(self) -> Iterator[C]:
        return iter(self._priorities)

    def __contains__(self, consumer: C) -> bool:
        return consumer in self._priorities

    @property
    def active(self) -> C | None:
        """The one that gets everything; None while all share, or nobody is there."""
        return self._active

    def join(self, consumer: C, priority: int = 0) -> None:
        if self.mode == "exclusive" and self._priorities:
            raise QueueInUse("it has an exclusive consumer")
        if consumer in self._priorities:
            raise ValueError("this consumer is there already")
        self._priorities[consumer] = priority
        level = self._levels.get(priority)
        if level is None:
            level = self._levels[priority] = _Level()
            self._levels = dict(sorted(self._levels.items(), reverse=True))
        level.consumers.append(consumer)
        if self.mode != "shared" and self._active is None:
            self._active = consumer

    def leave(self, consumer: C) -> None:
        """Without effect for one that is not there."""
        priority = self._priorities.pop(consumer, None)
        if priority is None:
            return
        level = self._levels[priority]
        level.remove(consumer)
        if not level.consumers:
            del self._levels[priority]
        self._paused.discard(consumer)
        if self._active == consumer:
            highest = next(iter(self._levels.values()), None)
            self._active = highest.consumers[0] if highest else None

    def pause(self, consumer: C) -> None:
        """It gets nothing until it resumes; an active one stays active."""
        if consumer in self._priorities:
            self._paused.add(consumer)

    def resume(self, consumer: C) -> None:
        self._paused.discard(consumer)

    def split(self, ready: int, credit: Callable[[C], int]) -> list[tuple[C, int]]:
        """Fair shares of `ready` messages, in the order in which to hand them out.

        Nobody gets more than its credit; credit below 0 is unlimited.
        """
        if self.mode != "shared" or len(self._priorities) == 1:
            only = self._active if self.mode != "shared" else next(iter(self._priorities))
            if only is None or only in self._paused:
                return []
            most = credit(only)
            share = ready if most < 0 else min(most, ready)
            return [(only, share)] if share > 0 else []
        shares: list[tuple[C, int]] = []
        for level in self._levels.values():
            if ready <= 0:
                break
            of_level = self._split_level(level, ready, credit)
            ready -= sum(of_level.values())
            shares += of_level.items()
        return shares

    def _split_level(self, level: _Level[C], ready: int, credit: Callable[[C], int]) -> dict[C, int]:
        open_to: dict[C, int] = {}  # how many more it may get
        for consumer in level.in_turn():
            if consumer not in self._paused:
                most = credit(consumer)
                if most:
                    open_to[consumer] = ready if most < 0 else most
                    if len(open_to) == ready:  # one each: nobody need be asked further
                        break
        shares: dict[C, int] = {}
        last: C | None = None
        while ready and open_to:
            even = max(ready // len(open_to), 1)
            for consumer, most in list(open_to.items()):
                share = min(even, most)
                shares[consumer] = shares.get(consumer, 0) + share
                ready -= share
                last = consumer
                if share == most:
                    del open_to[consumer]
                else:
                    open_to[consumer] = most - share
                if not ready:
                    break
        if last is not None:
            level.served(last)
        return shares
