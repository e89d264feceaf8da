"""How much of a finished file still lives, estimated from floors and the directory of its sidecar."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from itertools import islice

from mainstem.kernel.log.places import Span
from mainstem.kernel.log.sidecar import Sidecar

Floor = Callable[[int], int | None]


def live_part(span: Span, floor: int | None) -> int:
    """Bytes at or above the floor, as if they were spread evenly over the offsets."""
    if floor is None or span.last_offset < floor:
        return 0
    if floor <= span.first_offset:
        return span.total_bytes
    offsets = span.last_offset - span.first_offset + 1
    return span.total_bytes * (span.last_offset - floor + 1) // offsets


def count_live(sidecars: Iterable[Sidecar], floor: Floor, slice_steps: int) -> Generator[None, None, int]:
    """Returns bytes of live places; yields after every `slice_steps` look-ups."""
    live = step = 0
    for sidecar in sidecars:
        for partition in sidecar.partitions():
            span = sidecar.span(partition)
            if span is not None:
                live += live_part(span, floor(partition))
            step += 1
            if step % slice_steps == 0:
                yield
    return live


def partitions_of(sidecars: Iterable[Sidecar], slice_steps: int) -> Generator[None, None, list[int]]:
    """Returns all that they hold, sorted; yields after every `slice_steps` of them."""
    found: set[int] = set()
    for sidecar in sidecars:
        left = iter(sidecar.partitions())
        while few := list(islice(left, slice_steps)):
            found.update(few)
            yield
    return sorted(found)
