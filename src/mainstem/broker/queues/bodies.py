"""Where messages of a lane lie, so that they can get another place without being written again."""

from __future__ import annotations

from typing import NamedTuple

from mainstem.broker.queues.lanes import QueueLane
from mainstem.broker.store import Store
from mainstem.kernel.log.entries import LinkEntry
from mainstem.kernel.log.layout import Link, Overlay, pack_overlay, unpack_overlay
from mainstem.kernel.log.log import Log
from mainstem.kernel.log.places import WouldBlock
from mainstem.model.errors import CorruptFile
from mainstem.model.record import Headers


class Body(NamedTuple):
    """A body with the number of a message's record in it, and the headers that are laid over it already."""

    file_id: int
    position: int
    size: int
    first: int
    overlay: Headers
    max_timestamp_ms: int

    def link_to(self, lane: QueueLane, count: int, headers: Headers) -> LinkEntry:
        """A place at the end of a lane for `count` messages from this one on. The lane's end moves."""
        partition = lane.partition
        link = Link(
            partition.next_offset,
            self.file_id,
            self.position,
            self.size,
            self.first,
            count,
            self.max_timestamp_ms,
            pack_overlay(Overlay(headers)) if headers else b"",
            partition.leader_epoch,
        )
        partition.next_offset += count
        return LinkEntry(partition.id, link)


async def find_body(store: Store, lane: QueueLane, first: int, stop: int) -> tuple[Body, int]:
    """Of message `first`, and up to which one (at most `stop`) they lie there together.

    Mostly known without the disk, and then at once: whoever does this often has to let others have a turn.
    """
    log = store.log
    try:
        return _find(log, lane, first, stop, wait=False)
    except (WouldBlock, CorruptFile):  # the second one: it is being moved by a merge, or really so
        found: tuple[Body, int] = await store.in_reader(
            log.while_files_change, lambda: _find(log, lane, first, stop, wait=True)
        )
        return found


def _find(log: Log, lane: QueueLane, first: int, stop: int, *, wait: bool) -> tuple[Body, int]:
    place = log.places(lane.partition.id, first, 1, lane.partition.high_watermark, wait=wait)[0]
    stop = min(stop, place.last + 1)
    if not place.link:
        top_ms = log.reader.header(place, wait).max_timestamp_ms
        return Body(place.file_id, place.position, place.size, first - place.base, (), top_ms), stop
    link = log.reader.link(place, wait)
    return (
        Body(
            link.body_file,
            link.body_position,
            link.body_size,
            link.first + first - place.base,
            unpack_overlay(link.overlay).headers,
            link.max_timestamp_ms,
        ),
        stop,
    )
