"""How much of a finished file still lives, estimated from floors and the directory of its sidecar.

All of this runs on the owner's thread, and lets it go on with other things after so many look-ups.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import islice

from mainstem.kernel.log.jobs import MergeJob
from mainstem.kernel.log.places import Span
from mainstem.kernel.log.sidecar import Sidecar

Floor = Callable[[int], int | None]
# Yields True when there is more to do right away, False when it rests until the next tick.
Watch = Generator[bool, None, None]
# A merge is looked at in so many slices a tick, some hundredths of the owner's time, however many it takes.
# It is given up when no more than this share of it still lives.
_WATCH_SLICES, _WORTH_ENDING = 16, 0.25


def live_part(span: Span, floor: int | None) -> int:
    """Bytes at or above the floor, as if they were spread evenly over the offsets. 0: nothing is."""
    if floor is None or span.last_offset < floor:
        return 0
    if floor <= span.first_offset:
        return span.total_bytes
    offsets = span.last_offset - span.first_offset + 1
    return -(-span.total_bytes * (span.last_offset - floor + 1) // offsets)


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


def watched(
    sidecars: Sequence[Sidecar],
    job: MergeJob,
    floor_now: Floor,
    slice_steps: int,
    abandon: Callable[[], bool],
) -> Watch:
    """Gives a merge up when most of what lived when it began is deleted; `sidecars` are those of its inputs.

    Whatever has no place counts as alive: bodies that only links name, of which nobody counts the links.
    """
    total, floors = sum(entry.size for entry in job.inputs), job.floors
    given_up = False
    while not given_up:
        lived = lives = total
        walk = ((partition, places) for places in sidecars for partition in places.partitions())
        for step, (partition, places) in enumerate(walk, 1):
            span = places.span(partition)
            assert span is not None
            lived -= span.total_bytes - live_part(span, floors[partition])
            lives -= span.total_bytes - live_part(span, floor_now(partition))
            if step % slice_steps == 0:
                yield step % (slice_steps * _WATCH_SLICES) != 0
        if lives <= lived * _WORTH_ENDING:
            given_up = abandon()
        yield False
