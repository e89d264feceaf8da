"""Sinks: what many writers staged becomes visible in one step, once for each batch of a sink.

Writers stage batches as ordinary records of the topic STAGING, from as many processes as they like, and tell
whoever leads them at which offsets they lie. `publish` gives those batches their places in their topics: one
all-or-none frame of links to the staged bodies, together with the number of the batch. Bodies are not
copied. What nobody publishes, because its writer died, goes with the retention of the staging topic.

A sink's batches are numbered. The next one is published; so is one further on, for a writer that says it may
leave numbers out. The last one again is a replay (its writer did not hear that it was published), with as
many records or fewer: what it is made from may have shrunk meanwhile, by compaction or retention. More would
mean that something of it was never written, and an older number, or a gap, that this is not the writer of
before: those are refused. Sinks that published nothing for long are forgotten; what they publish then is
taken as a beginning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from mainstem.broker.partition import Partition
from mainstem.broker.store import Section, Store
from mainstem.broker.topics import Topics
from mainstem.kernel.log.entries import Entry, LinkEntry
from mainstem.kernel.log.layout import Link
from mainstem.kernel.log.log import Log
from mainstem.kernel.log.places import Place
from mainstem.model.batch import BatchHeader
from mainstem.model.errors import (
    BatchTooLarge,
    BodyGone,
    InvalidRequest,
    NotSupported,
    OutOfOrderSequence,
    UnknownTopic,
)
from mainstem.model.logs import get_log
from mainstem.model.ports import Clock
from mainstem.model.records import check_records

Wanted: TypeAlias = Mapping[Partition, Sequence[tuple[int, int]]]  # offset and crc of each batch
Found: TypeAlias = tuple[Partition, list[tuple[Place, BatchHeader]]]

STAGING = "__staging"
MAX_SINK_NAME = 249
# All links of a publish are made in one turn of the loop.
MAX_BATCHES = 50_000
KEPT_MS = 90 * 24 * 3600 * 1000
FORGET_EVERY_MS = 24 * 3600 * 1000
# A merge may move a body between the look-up and the link; it does so once in minutes.
ATTEMPTS = 5
NEW_CHECKPOINT = (
    "Either its checkpoint was restored from a copy, or the query gives other rows when a batch is repeated. "
    "What was published stays; to go on, start the query with a new checkpoint, from where it shall go on"
)

events = get_log(__name__)


class SinkPublished(msgspec.Struct, array_like=True, tag=1, frozen=True):
    sink: str
    batch_id: int
    records: int
    at_ms: int


SinkDelta = SinkPublished


class Sinks:
    """The last batch of each sink that was published. A machine, see store.py."""

    def __init__(self) -> None:
        self.last: dict[str, SinkPublished] = {}
        self._newest_ms = 0
        self._forget_from_ms = 0  # once a sink publishes this late, others are looked over

    def apply(self, delta: SinkPublished) -> None:
        known = self.last.get(delta.sink)
        if known is None or delta.batch_id > known.batch_id:
            self.last[delta.sink] = delta
        self._newest_ms = max(self._newest_ms, delta.at_ms)
        if delta.at_ms >= self._forget_from_ms:
            # Not at each publish: they may be many.
            self._forget_from_ms = self._newest_ms + FORGET_EVERY_MS
            self.last = {sink: last for sink, last in self.last.items() if self._is_kept(last)}

    def _is_kept(self, last: SinkPublished) -> bool:
        return last.at_ms > self._newest_ms - KEPT_MS

    def dump(self) -> Iterator[SinkPublished]:
        for last in list(self.last.values()):
            if self._is_kept(last):
                yield last


class SinkPublisher:
    def __init__(self, store: Store, sinks: Sinks, topics: Topics, clock: Clock) -> None:
        self._store = store
        self._sinks = sinks
        self._topics = topics
        self._clock = clock
        # What was handed to the journal and is not known on disk yet.
        self._under_way: dict[str, asyncio.Future[None]] = {}

    async def publish(
        self, sink: str, batch_id: int, records: int, wanted: Wanted, *, may_skip: bool = False
    ) -> bool:
        """On disk and visible when this returns; False if it was before. `wanted` are offsets and crcs."""
        if not 0 < len(sink) <= MAX_SINK_NAME:
            raise InvalidRequest(f"a sink's name has 1 to {MAX_SINK_NAME} characters, not {len(sink)}")
        _check_offsets(wanted)
        for attempt in range(1, ATTEMPTS + 1):
            if await self._is_replay(sink, batch_id, records, may_skip):
                return False
            staged = await self._find(wanted)
            if await self._is_replay(sink, batch_id, records, may_skip):  # while that was looked up
                return False
            try:
                done = self._link(SinkPublished(sink, batch_id, records, self._clock.now_ms()), staged)
            except BodyGone:
                if attempt == ATTEMPTS:
                    raise
                continue
            await asyncio.shield(done)
            return True
        raise AssertionError("attempts is at least 1")

    async def _is_replay(self, sink: str, batch_id: int, records: int, may_skip: bool) -> bool:
        while sink in self._under_way:  # perhaps this very batch, by a client that has lost its patience
            await asyncio.shield(self._under_way[sink])
        last = self._sinks.last.get(sink)
        if last is None or batch_id == last.batch_id + 1 or (may_skip and batch_id > last.batch_id):
            return False
        if batch_id != last.batch_id:
            wanted = "a later one" if may_skip else str(last.batch_id + 1)
            raise OutOfOrderSequence(
                f"batch {batch_id} of sink {sink!r}: {last.batch_id} was published last, "
                f"so {wanted} is next. {NEW_CHECKPOINT}"
            )
        if records > last.records:
            raise OutOfOrderSequence(
                f"batch {batch_id} of sink {sink!r} was published with {last.records} records, and has "
                f"{records} now. {NEW_CHECKPOINT}"
            )
        if records < last.records:
            events.warning(
                "a repeated batch has fewer records than were published; nothing is written again",
                sink=sink,
                batch=batch_id,
                published=last.records,
                repeated=records,
            )
        return True

    async def _find(self, wanted: Wanted) -> list[Found]:
        """Where the staged batches lie, and what they are."""
        topic = self._topics.by_name.get(STAGING)
        if topic is None:
            raise UnknownTopic(f"nothing is staged: there is no topic {STAGING!r}")
        staging, log = topic.partitions[0], self._store.log
        end = staging.high_watermark

        def look() -> list[Found]:
            return [
                (partition, [_staged(log, staging, one, end, partition) for one in batches])
                for partition, batches in wanted.items()
            ]

        found: list[Found] = await self._store.in_reader(log.while_files_change, look)
        return found

    def _link(self, delta: SinkPublished, staged: Sequence[Found]) -> asyncio.Future[None]:
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
        given = sum(header.record_count for _, batches in staged for _, header in batches)
        if given != delta.records:
            raise InvalidRequest(f"{delta.records} records were to be published, and {given} are staged")

        def on_disk() -> None:
            self._sinks.apply(delta)
            self._under_way.pop(delta.sink, None)

        done = self._store.commit_together([(Section.SINKS, delta)], entries, then=on_disk)
        self._under_way[delta.sink] = done
        # Only now: a full disk refuses before, and then no offset is lost.
        for partition, offset in reached.items():
            partition.next_offset = offset
        return done


def _check_offsets(wanted: Wanted) -> None:
    offsets = [offset for batches in wanted.values() for offset, _ in batches]
    if len(offsets) > MAX_BATCHES:
        raise InvalidRequest(f"{len(offsets)} batches in one publish; at most {MAX_BATCHES} are taken")
    if len(set(offsets)) < len(offsets):
        raise InvalidRequest("a staged batch is named twice")


def _staged(
    log: Log, staging: Partition, wanted: tuple[int, int], end: int, target: Partition
) -> tuple[Place, BatchHeader]:
    offset, crc = wanted
    places = log.places(staging.id, offset, 1, end, wait=True) if staging.log_start <= offset < end else []
    if not places or places[0].base != offset or places[0].link:
        raise InvalidRequest(f"no batch was staged at offset {offset}, or it was there for too long")
    header, policy = log.reader.header(places[0]), target.topic.policy
    if header.crc != crc or not header.record_count:
        raise InvalidRequest(f"the batch that was staged at offset {offset} is another one")
    if header.is_control or header.is_transactional or header.producer_id >= 0:
        raise InvalidRequest(f"the batch at offset {offset} has a producer, which staged ones have not")
    if policy.append_time:
        raise NotSupported(
            f"topic {target.topic.name!r} takes the broker's time; staged batches have their own"
        )
    if header.size > policy.max_message_bytes:
        raise BatchTooLarge(
            f"a staged batch of {header.size} bytes for topic {target.topic.name!r}, "
            f"whose max.message.bytes is {policy.max_message_bytes}"
        )
    if policy.compact:
        (batch,) = log.reader.batches(places[:1], True)
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
