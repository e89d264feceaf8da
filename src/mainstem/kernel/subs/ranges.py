"""A set of offsets, kept as sorted ranges.

A range [first, stop) is two edges; the edges of all ranges, ascending, lie in chunks of arrays:

    ranges   [3, 7) [9, 10) [20, 90)
    edges    3 7 9 10 20 90          an offset is in the set if an odd number of edges is at or below it

Rules: edges ascend strictly, so ranges never touch; a chunk holds whole ranges and is never empty; `_lows`
holds each chunk's first edge. A chunk is short, so that a change in the middle of a million ranges moves a
few kilobytes, and an array costs 16 bytes a range.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

MAX_EDGES = 1024  # of a chunk; even
FEW_EDGES = MAX_EDGES // 8  # a chunk that shrank below this joins a neighbour, if both then stay small


class RangeSet:
    """Sorted, disjoint, half-open ranges of integers (64 bits)."""

    __slots__ = ("_chunks", "_lows", "count")

    def __init__(self) -> None:
        self.count = 0  # offsets, not ranges
        self._chunks: list[array[int]] = []
        self._lows: list[int] = []

    # --- change --------------------------------------------------------------------------------

    def add(self, first: int, stop: int) -> int:
        """Put [first, stop) in; returns how many of them are new."""
        if first >= stop:
            return 0
        new = stop - first
        last = self._chunks[-1] if self._chunks else None
        if last is None or (first > last[-1] and len(last) >= MAX_EDGES):
            self._chunks.append(array("q", (first, stop)))
            self._lows.append(first)
        elif first == last[-1]:  # the usual case: a run grows at its end
            last[-1] = stop
        elif first > last[-1]:
            last.append(first)
            last.append(stop)
        else:
            new -= self._replace(first, stop, present=True)
        self.count += new
        return new

    def remove(self, first: int, stop: int) -> int:
        """Take [first, stop) out; returns how many of them were there."""
        if first >= stop or not self._chunks:
            return 0
        head = self._chunks[0]
        low = head[0]
        if first <= low < stop < head[1]:  # the usual case: the oldest go first
            gone = stop - low
            head[0] = self._lows[0] = stop
        elif first <= low and stop >= self._chunks[-1][-1]:
            gone = self.count
            self._chunks.clear()
            self._lows.clear()
        else:
            gone = self._replace(first, stop, present=False)
        self.count -= gone
        return gone

    def clear(self) -> None:
        self.count = 0
        self._chunks.clear()
        self._lows.clear()

    def _replace(self, first: int, stop: int, *, present: bool) -> int:
        """Make all of [first, stop) present or absent; returns how many were present."""
        chunks, lows = self._chunks, self._lows
        at = max(bisect_right(lows, first) - 1, 0)
        to = max(bisect_right(lows, stop, at) - 1, at)
        head, tail = chunks[at], chunks[to]
        i = bisect_left(head, first)
        j = bisect_right(tail, stop)
        # The edges i to j (touching ones too) go. At an odd place one is inside a range.
        if at == to and i == j:
            were = stop - first if i & 1 else 0
            if (i & 1) == present:
                return were
            head.insert(i, stop)
            head.insert(i, first)
            self._tidy(at)
            return were
        if at == to and i + 1 == j:  # one range grows or shrinks at one end
            edge = head[i]
            head[i] = stop if (i & 1) == present else first
            lows[at] = head[0]
            return edge - first if i & 1 else stop - edge
        edges = array("q", (first,) if i & 1 else ())
        if at == to:
            edges += head[i:j]
        else:
            edges += head[i:]
            for chunk in chunks[at + 1 : to]:
                edges += chunk
            edges += tail[:j]
        if j & 1:
            edges.append(stop)
        were = sum(edges[1::2]) - sum(edges[::2])
        put = array("q")
        if (i & 1) != present:
            put.append(first)
        if (j & 1) != present:
            put.append(stop)
        if at == to:
            head[i:j] = put
        else:
            chunks[at : to + 1] = [head[:i] + put + tail[j:]]
            del lows[at + 1 : to + 1]
        self._tidy(at)
        return were

    def _tidy(self, at: int) -> None:
        """Put the rules right again for a chunk whose edges changed."""
        chunks, lows = self._chunks, self._lows
        chunk = chunks[at]
        size = len(chunk)
        if not size:
            del chunks[at], lows[at]
            return
        lows[at] = chunk[0]
        if size > MAX_EDGES:
            middle = size // 4 * 2
            chunks[at : at + 1] = [chunk[:middle], chunk[middle:]]
            lows.insert(at + 1, chunk[middle])
        elif size < FEW_EDGES and len(chunks) > 1:
            left = at if at + 1 < len(chunks) else at - 1
            if len(chunks[left]) + len(chunks[left + 1]) <= MAX_EDGES // 2:
                chunks[left] += chunks[left + 1]
                del chunks[left + 1], lows[left + 1]

    # --- look ----------------------------------------------------------------------------------

    def __contains__(self, offset: int) -> bool:
        return bool(self._chunks) and bisect_right(self._chunk_of(offset), offset) & 1 == 1

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for chunk in self._chunks:
            for i in range(0, len(chunk), 2):  # not by slices: many want only the first few
                yield chunk[i], chunk[i + 1]

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def first(self) -> int:
        """The lowest offset. There must be one."""
        return self._chunks[0][0]

    def next_missing(self, offset: int) -> int:
        """The lowest offset at or above this one that is not in the set."""
        if not self._chunks:
            return offset
        chunk = self._chunk_of(offset)
        i = bisect_right(chunk, offset)
        return chunk[i] if i & 1 else offset

    def within(self, first: int, stop: int) -> list[tuple[int, int]]:
        """What of [first, stop) is in the set, as ranges."""
        found: list[tuple[int, int]] = []
        at = max(bisect_right(self._lows, first) - 1, 0)
        i = bisect_right(self._chunks[at], first) & ~1 if self._chunks else 0
        for chunk in self._chunks[at : bisect_left(self._lows, stop)]:
            j = bisect_left(chunk, stop, i)
            found.extend(zip(chunk[i:j:2], chunk[i + 1 : j + 1 : 2], strict=True))
            i = 0
        if found:
            found[0] = (max(found[0][0], first), found[0][1])
            found[-1] = (found[-1][0], min(found[-1][1], stop))
        return found

    def lowest(self, count: int) -> list[tuple[int, int]]:
        """The lowest offsets, up to `count` of them, as ranges."""
        found: list[tuple[int, int]] = []
        if count <= 0:
            return found
        for first, stop in self:
            if stop - first >= count:
                found.append((first, first + count))
                break
            found.append((first, stop))
            count -= stop - first
        return found

    def _chunk_of(self, offset: int) -> array[int]:
        return self._chunks[max(bisect_right(self._lows, offset) - 1, 0)]
