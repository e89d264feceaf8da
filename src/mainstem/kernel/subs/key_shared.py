"""Sharing by key: messages of one key go to one consumer at a time, in order.

Consumers stand on a ring, each at many points; a key belongs to the next point after it. One that joins or
leaves moves only the keys next to its points, and each of them only once nothing of it is in flight: until
then it stays with the consumer that has some of it, so no two ever work on one key.

Keys are numbers here: whatever the caller makes of a message's key, such as a hash of 64 bits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Generic, TypeVar

C = TypeVar("C", bound=Hashable)

POINTS = 64  # of a consumer: enough that shares differ by some ten percent
_BITS_64 = (1 << 64) - 1


class KeyShared(Generic[C]):
    def __init__(self) -> None:
        self._consumers: dict[C, None] = {}  # in the order in which they joined
        self._joined = 0  # ever: a consumer's points are made of its number
        self._points: list[int] = []  # ascending
        self._at_point: list[C] = []  # whose point it is
        self._busy: dict[int, tuple[C, int]] = {}  # key -> who has some in flight, and how many

    def __len__(self) -> int:
        return len(self._consumers)

    def __iter__(self) -> Iterator[C]:
        return iter(self._consumers)

    def __contains__(self, consumer: C) -> bool:
        return consumer in self._consumers

    def join(self, consumer: C) -> None:
        if consumer in self._consumers:
            raise ValueError("this consumer is there already")
        self._consumers[consumer] = None
        for point in range(POINTS):
            place = _mixed(self._joined * POINTS + point)
            at = bisect_right(self._points, place)
            self._points.insert(at, place)
            self._at_point.insert(at, consumer)
        self._joined += 1

    def leave(self, consumer: C) -> None:
        """What it has in flight the caller gives back; until then its keys wait."""
        if consumer in self._consumers:
            del self._consumers[consumer]
            left = [at for at, whose in enumerate(self._at_point) if whose != consumer]
            self._points = [self._points[at] for at in left]
            self._at_point = [self._at_point[at] for at in left]

    def consumer_of(self, key: int) -> C | None:
        """Who would get the next message of this key; None if nobody is there."""
        busy = self._busy.get(key)
        if busy is not None:
            return busy[0]
        if not self._points:
            return None
        return self._at_point[bisect_right(self._points, _mixed(key)) % len(self._points)]

    def split(self, keys: Sequence[int], credit: Callable[[C], int]) -> list[tuple[C, list[int]]]:
        """Who gets which of the next messages, whose keys these are in their order.

        Returns indexes into `keys`, ascending: in flight from now on. The others wait: their consumer has no
        credit left, or is leaving. Credit below 0 is unlimited.
        """
        shares: dict[C, list[int]] = {}
        left: dict[C, int] = {}  # credit
        busy = self._busy
        for index, key in enumerate(keys):
            consumer = self.consumer_of(key)
            if consumer is None or consumer not in self._consumers:
                continue
            most = left.get(consumer)
            if most is None:
                most = credit(consumer)
            if most == 0:
                left[consumer] = 0
                continue
            left[consumer] = most - 1  # an unlimited one never comes to 0 this way
            shares.setdefault(consumer, []).append(index)
            busy[key] = (consumer, busy[key][1] + 1 if key in busy else 1)
        return list(shares.items())

    def acked(self, key: int, count: int = 1) -> None:
        """So many of this key are done with. Without effect for what is not in flight."""
        self._less(key, count)

    def given_back(self, key: int, count: int = 1) -> None:
        """So many of this key are ready again, for whoever the key then belongs to."""
        self._less(key, count)

    def _less(self, key: int, count: int) -> None:
        busy = self._busy.get(key)
        if busy is not None:
            if busy[1] > count:
                self._busy[key] = (busy[0], busy[1] - count)
            else:
                del self._busy[key]


def _mixed(number: int) -> int:
    """Spread numbers over 64 bits: near ones land far apart (the finisher of splitmix64)."""
    number = (number + 0x9E3779B97F4A7C15) & _BITS_64
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _BITS_64
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _BITS_64
    return number ^ (number >> 31)
