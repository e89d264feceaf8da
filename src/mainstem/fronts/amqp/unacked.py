"""Deliveries of a channel that wait for their acknowledgement, as runs of tags rather than one by one. Pure.

Tags count up from 1 on every channel. One hand-over of a queue is one run: consecutive tags for consecutive
offsets of one lane. Acknowledging in order takes whole runs from the front; out of order splits them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

# Runs taken from the front are cut off once there are so many of them.
_SLACK = 64


class Source(Protocol):
    """Where messages came from: a queue, or a stream, which keeps them anyway."""

    def ack(self, lane: int, first: int, stop: int) -> None: ...

    def give_back(self, lane: int, first: int, stop: int, failed: bool = True) -> None: ...

    def reject(self, lane: int, first: int, stop: int) -> None: ...


class Reader(Protocol):
    """A consumer of a channel."""

    tag: str

    def settled(self, count: int) -> None:
        """So many of its deliveries, or of others of its channel, are held no more: there may be room."""

    def wake(self) -> None:
        """There may be something to take, and room for it."""

    def stop(self) -> None: ...


class Held(NamedTuple):
    """Tags `tag` up to below `stop` are offsets `first` and following of a lane. No consumer: basic.get."""

    tag: int
    stop: int
    queue: Source
    lane: int
    first: int
    consumer: Reader | None

    @property
    def first_after(self) -> int:
        """The offset behind them."""
        return self.first + self.stop - self.tag

    def part(self, tag: int, stop: int) -> Held:
        return Held(tag, stop, self.queue, self.lane, self.first + tag - self.tag, self.consumer)


def stretches(taken: Iterable[Held]) -> Iterator[tuple[Source, int, int, int]]:
    """(queue, lane, first, stop): runs whose offsets follow each other are one, whoever they went to."""
    queue: Source | None = None
    lane = first = stop = 0
    for held in taken:
        if held.queue is queue and held.lane == lane and held.first == stop:
            stop += held.stop - held.tag
            continue
        if queue is not None:
            yield queue, lane, first, stop
        queue, lane, first = held.queue, held.lane, held.first
        stop = first + held.stop - held.tag
    if queue is not None:
        yield queue, lane, first, stop


class Unacked:
    __slots__ = ("_head", "_runs", "_tags", "count")

    def __init__(self) -> None:
        self._runs: list[Held] = []
        self._tags: list[int] = []  # where each run begins
        self._head = 0  # runs before it are gone
        self.count = 0  # of deliveries

    def hold(self, held: Held) -> None:
        """One more run, whose tags are above all others."""
        self._runs.append(held)
        self._tags.append(held.tag)
        self.count += held.stop - held.tag

    def take(self, first: int, last: int) -> tuple[list[Held], int | None]:
        """Those tags one by one: what was held, up to the first one that was not, and that one."""
        runs, head = self._runs, self._head
        if head < len(runs):
            run = runs[head]
            if run.tag == first and run.stop == last + 1:  # the usual case
                self._drop(head + 1)
                self.count -= run.stop - run.tag
                return [run], None
        reached = first
        for run in runs[self._find(first) : bisect_left(self._tags, last + 1, head)]:
            if run.tag > reached:
                break
            reached = run.stop
        reached = min(reached, last + 1)
        return self._cut(first, reached), reached if reached <= last else None

    def take_upto(self, last: int) -> list[Held] | None:
        """All up to a tag that must itself be held; 0 means whatever there is. None: it is not held."""
        if last == 0:
            return self.take_all()
        at = self._find(last)
        if at >= len(self._runs) or self._runs[at].tag > last:
            return None
        return self._cut(0, last + 1)

    def take_all(self) -> list[Held]:
        taken = self._runs[self._head :]
        self._runs, self._tags, self._head, self.count = [], [], 0, 0
        return taken

    def put_back(self, taken: Iterable[Held]) -> None:
        """What was taken is held again, each at its place."""
        for run in taken:
            at = bisect_left(self._tags, run.tag, self._head)
            self._runs.insert(at, run)
            self._tags.insert(at, run.tag)
            self.count += run.stop - run.tag

    def _find(self, tag: int) -> int:
        """The run that holds a tag, or the first one behind it."""
        at = bisect_right(self._tags, tag, self._head) - 1
        return at if at >= self._head and self._runs[at].stop > tag else at + 1

    def _cut(self, first: int, stop: int) -> list[Held]:
        low = self._find(first)
        high = bisect_left(self._tags, stop, low)
        taken = self._runs[low:high]
        if not taken:
            return taken
        kept = []
        run = taken[0]
        if run.tag < first:
            kept.append(run.part(run.tag, first))
            taken[0] = run.part(first, run.stop)
        run = taken[-1]
        if run.stop > stop:
            kept.append(run.part(stop, run.stop))
            taken[-1] = run.part(run.tag, stop)
        for run in taken:
            self.count -= run.stop - run.tag
        if low == self._head and not kept:
            self._drop(high)
        else:
            self._runs[low:high] = kept
            self._tags[low:high] = [run.tag for run in kept]
        return taken

    def _drop(self, head: int) -> None:
        """The first runs are gone; moving the rest waits until it is worth it."""
        if head > _SLACK and head * 2 > len(self._runs):
            del self._runs[:head]
            del self._tags[:head]
            head = 0
        self._head = head
