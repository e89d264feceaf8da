"""Sorted pairs of integers that take little more than their sixteen bytes.

A list of tuples costs some 120 bytes a pair, a dict as much. Here the pairs lie in chunks, each of two arrays
side by side; a change moves bytes within one chunk, and looking one up is a bisection over the chunks' lowest
pairs and one within the chunk. All of that runs in C, so it stays quick with many millions of pairs.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
CHUNK_PAIRS = 1024  # 16 KB: what a change moves at most


class Pairs:
    """A set of pairs (a, b) of 64-bit integers, in order."""

    def __init__(self) -> None:
        self._count = 0
        # Chunk i holds the pairs from lows[i] on, up to lows[i + 1]. The first one's is below everything.
        self._lows: list[tuple[int, int]] = [(LOWEST, LOWEST)]
        self._a: list[array[int]] = [array("q")]
        self._b: list[array[int]] = [array("q")]

    def __len__(self) -> int:
        return self._count

    def add(self, a: int, b: int) -> bool:
        """False if it was there."""
        if self.is_above(a):
            chunk, at = len(self._a) - 1, len(self._a[-1])
            firsts, seconds = self._a[chunk], self._b[chunk]
        else:
            chunk = bisect_right(self._lows, (a, b)) - 1
            firsts, seconds = self._a[chunk], self._b[chunk]
            at = _place(firsts, seconds, a, b)
            if at < len(firsts) and firsts[at] == a and seconds[at] == b:
                return False
        firsts.insert(at, a)
        seconds.insert(at, b)
        self._count += 1
        if len(firsts) > CHUNK_PAIRS:
            self._split(chunk)
        return True

    def remove(self, a: int, b: int) -> bool:
        """False if it was not there."""
        chunk = bisect_right(self._lows, (a, b)) - 1
        firsts, seconds = self._a[chunk], self._b[chunk]
        at = _place(firsts, seconds, a, b)
        if at == len(firsts) or firsts[at] != a or seconds[at] != b:
            return False
        self._cut(chunk, at, at + 1)
        return True

    def is_above(self, a: int) -> bool:
        """Whether it is higher than every pair's: numbers that are counted up need no looking up."""
        highest = self._a[-1]
        return not highest or a > highest[-1]

    def last_of(self, a: int) -> int | None:
        """The highest b beside this a."""
        if self.is_above(a):
            return None
        chunk = bisect_right(self._lows, (a, HIGHEST)) - 1
        if chunk and self._a[chunk][0] > a:  # it has lost its lowest pairs, so the one before may end with a
            chunk -= 1
        at = bisect_right(self._a[chunk], a) - 1
        return self._b[chunk][at] if at >= 0 and self._a[chunk][at] == a else None

    def first(self) -> tuple[int, int] | None:
        return (self._a[0][0], self._b[0][0]) if self._count else None

    def take(self, up_to_a: int, limit: int) -> tuple[list[int], list[int]]:
        """Removes the lowest pairs whose a is not above this one: their a's and their b's."""
        a: list[int] = []
        b: list[int] = []
        while self._count and len(a) < limit:
            firsts = self._a[0]
            stop = min(bisect_right(firsts, up_to_a), limit - len(a))
            if not stop:
                break
            a += firsts[:stop]
            b += self._b[0][:stop]
            self._cut(0, 0, stop)
        return a, b

    def after(self, a: int, b: int, limit: int) -> tuple[list[int], list[int]]:
        """The first pairs above (a, b), which need not be there: their a's and their b's."""
        chunk = bisect_right(self._lows, (a, b)) - 1
        at = _place(self._a[chunk], self._b[chunk], a, b)
        if at < len(self._a[chunk]) and self._a[chunk][at] == a and self._b[chunk][at] == b:
            at += 1
        found_a: list[int] = []
        found_b: list[int] = []
        while len(found_a) < limit and chunk < len(self._a):
            stop = at + limit - len(found_a)
            found_a += self._a[chunk][at:stop]
            found_b += self._b[chunk][at:stop]
            chunk, at = chunk + 1, 0
        return found_a, found_b

    def _split(self, chunk: int) -> None:
        firsts, seconds = self._a[chunk], self._b[chunk]
        # Pairs that come in order would leave every chunk half full.
        middle = len(firsts) - 1 if chunk == len(self._a) - 1 else len(firsts) // 2
        self._lows.insert(chunk + 1, (firsts[middle], seconds[middle]))
        self._a.insert(chunk + 1, firsts[middle:])
        self._b.insert(chunk + 1, seconds[middle:])
        del firsts[middle:], seconds[middle:]

    def _cut(self, chunk: int, start: int, stop: int) -> None:
        firsts, seconds = self._a[chunk], self._b[chunk]
        self._count -= stop - start
        del firsts[start:stop], seconds[start:stop]
        if not firsts and len(self._lows) > 1:
            del self._lows[chunk], self._a[chunk], self._b[chunk]
            self._lows[0] = (LOWEST, LOWEST)  # whatever comes below the first chunk belongs to it


def _place(firsts: array[int], seconds: array[int], a: int, b: int) -> int:
    """Where (a, b) is in its chunk, or would be."""
    at = bisect_left(firsts, a)
    if at < len(firsts) and firsts[at] == a and seconds[at] < b:
        at = bisect_left(seconds, b, at, bisect_right(firsts, a, at))
    return at
