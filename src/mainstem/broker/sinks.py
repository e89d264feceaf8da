"""Sinks: what many writers staged becomes visible in one step, once for each batch of a sink.

Writers stage batches as ordinary records of the topic STAGING, from as many processes as they like, and tell
whoever leads them at which offsets they lie. `publish` gives those batches their places in their topics: one
all-or-none frame of links to the staged bodies, together with the number of the batch. Bodies are not
copied. What nobody publishes, because its writer died, goes with the retention of the staging topic.

A sink's batches are numbered. The next one is published, the last one again is a replay (its writer did not
hear that it was), and anything else is refused: it would leave a gap, or write twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from mainstem.broker.partition import Partition
from mainstem.broker.store import Section, Store
from mainstem.broker.topics import Topics
from mainstem.kernel.log.entries import Entry, LinkEntry
from mainstem.kernel.log.layout import Link
from mainstem.kernel.log.log import Log
from mainstem.kernel.log.places import Place
from mainstem.model.batch import BatchHeader, read_header
from mainstem.model.errors import (
    BatchTooLarge,
    BodyGone,
    InvalidRequest,
    NotSupported,
    OutOfOrderSequence,
    UnknownTopic,
)
from mainstem.model.records import check_records

STAGING = "__staging"
MAX_SINK_NAME = 249
# A merge may move a body between the look-up and the link; it does so once in minutes.
ATTEMPTS = 5


class SinkPublished(msgspec.Struct, array_like=True, tag=1, frozen=True):
    sink: str
    batch_id: int


SinkDelta = SinkPublished


class Sinks:
    """The last batch of each sink that was published. A machine, see store.py."""

    def __init__(self) -> None:
        self.last: dict[str, int] = {}

    def apply(self, delta: SinkPublished) -> None:
        self.last[delta.sink] = max(delta.batch_id, self.last.get(delta.sink, -1))

    def dump(self) -> Iterator[SinkPublished]:
        for sink, batch_id in list(self.last.items()):
            yield SinkPublished(sink, batch_id)


class SinkPublisher:
    def __init__(self, store: Store, sinks: Sinks, topics: Topics) -> None:
        self._store = store
        self._sinks = sinks
        self._topics = topics
        self._under_way: dict[str, int] = {}  # batches handed to the journal and not known on disk yet

    async def publish(self, sink: str, batch_id: int, wanted: Mapping[Partition, Sequence[int]]) -> bool:
        """On disk and visible when this returns; False if it was before. `wanted` are staged offsets."""
        if not 0 < len(sink) <= MAX_SINK_NAME:
            raise InvalidRequest(f"a sink's name has 1 to {MAX_SINK_NAME} characters, not {len(sink)}")
        for attempt in range(1, ATTEMPTS + 1):
            if self._is_replay(sink, batch_id):
                return False
            staged = await self._find(wanted)
            if self._is_replay(sink, batch_id):  # while that was looked up
                return False
            try:
                done = self._link(sink, batch_id, staged)
            except BodyGone:
                if attempt == ATTEMPTS:
                    raise
                continue
            self._under_way[sink] = batch_id
            await done
            return True
        raise AssertionError("attempts is at least 1")

    def _is_replay(self, sink: str, batch_id: int) -> bool:
        if sink in self._under_way:
            raise OutOfOrderSequence(
                f"batch {self._under_way[sink]} of sink {sink!r} is just being published"
            )
        last = self._sinks.last.get(sink)
        if last is None or batch_id == last + 1:
            return False
        if batch_id == last:
            return True
        raise OutOfOrderSequence(
            f"batch {batch_id} of sink {sink!r}: {last} was published last, so {last + 1} is next"
        )

    async def _find(
        self, wanted: Mapping[Partition, Sequence[int]]
    ) -> list[tuple[Partition, list[tuple[Place, BatchHeader]]]]:
        """Where the staged batches lie, and what they are. They are read once, to be sure of them."""
        topic = self._topics.by_name.get(STAGING)
        if topic is None:
            raise UnknownTopic(f"nothing is staged: there is no topic {STAGING!r}")
        staging, log = topic.partitions[0], self._store.log
        end = staging.high_watermark

        def look() -> list[tuple[Partition, list[tuple[Place, BatchHeader]]]]:
            return [
                (partition, [_staged(log, staging, offset, end, partition) for offset in offsets])
                for partition, offsets in wanted.items()
            ]

        found: list[tuple[Partition, list[tuple[Place, BatchHeader]]]] = await self._store.in_reader(
            log.while_files_change, look
        )
        return found

    def _link(
        self, sink: str, batch_id: int, staged: Sequence[tuple[Partition, list[tuple[Place, BatchHeader]]]]
    ) -> asyncio.Future[None]:
        """Hand all of it to the journal, in this turn: offsets are given out here."""
        entries: list[Entry] = []
        reached: dict[Partition, int] = {}
        for partition, batches in staged:
            if partition.id not in self._topics.partitions:
                raise UnknownTopic(f"topic {partition.topic.name!r} was deleted meanwhile")
            offset = reached.get(partition, partition.next_offset)
            for place, header in batches:
                entries.append(LinkEntry(partition.id, _link_to(place, header, offset, partition)))
                offset += header.record_count
            reached[partition] = offset
        delta = SinkPublished(sink, batch_id)

        def on_disk() -> None:
            self._sinks.apply(delta)
            self._under_way.pop(sink, None)

        done = self._store.commit_together([(Section.SINKS, delta)], entries, then=on_disk)
        # Only now: a full disk refuses before, and then no offset is lost.
        for partition, offset in reached.items():
            partition.next_offset = offset
        return done


def _staged(
    log: Log, staging: Partition, offset: int, end: int, target: Partition
) -> tuple[Place, BatchHeader]:
    places = log.places(staging.id, offset, 1, end, wait=True) if staging.log_start <= offset < end else []
    if not places or places[0].base != offset or places[0].link:
        raise InvalidRequest(f"no batch was staged at offset {offset}, or it was there for too long")
    (batch,) = log.reader.batches(places[:1], True)
    header, policy = read_header(batch), target.topic.policy
    if policy.append_time:
        raise NotSupported(
            f"topic {target.topic.name!r} takes the broker's time; staged batches have their own"
        )
    if len(batch) > policy.max_message_bytes:
        raise BatchTooLarge(
            f"a staged batch of {len(batch)} bytes; at most {policy.max_message_bytes} may be"
        )
    if policy.compact:
        check_records(batch, need_keys=True)
    return places[0], header


def _link_to(place: Place, header: BatchHeader, offset: int, partition: Partition) -> Link:
    return Link(
        offset,
        place.file_id,
        place.position,
        place.size,
        0,
        header.record_count,
        header.max_timestamp_ms,
        leader_epoch=partition.leader_epoch,
    )
