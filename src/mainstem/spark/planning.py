"""From what was asked for to positions in partitions: topics, starts, ends. Runs on the driver."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from mainstem.client.admin import topic_names
from mainstem.client.client import EARLIEST, LATEST, Client
from mainstem.client.cluster import TopicPartition
from mainstem.model.batch import iter_batches
from mainstem.model.errors import DataLost, InvalidRequest
from mainstem.model.logs import get_log
from mainstem.spark.options import Bound, Offsets, Topics
from mainstem.spark.ranges import Positions

events = get_log(__name__)

SAMPLE_BYTES = 64 << 10  # of a partition, to tell how large its records are
SAMPLES_BYTES = 4 << 20
DEAD_SUFFIX = ".dead"  # of topics for records that could not be read
HINT = "Records were deleted, by retention or with the topic; failOnDataLoss=false goes on without them"


def find_places(client: Client, topics: Topics) -> dict[TopicPartition, bytes]:
    """The partitions that are read, as they are now, each with the id of its topic."""
    if topics.assigned:
        places = [TopicPartition(topic, index) for topic, indexes in topics.assigned for index in indexes]
        ids = {topic: client.topic(topic).id for topic, _ in topics.assigned}
        client.by_leader(places)  # which says what is missing
        return {place: ids[place.topic] for place in places}
    if topics.pattern:
        try:
            pattern = re.compile(topics.pattern)
        except re.error as error:
            raise InvalidRequest(f"subscribePattern {topics.pattern!r}: {error}") from None
        # Not what could not be read, or it would be tried again, and what cannot be read of that, and so on.
        found = (name for name in topic_names(client) if not name.endswith(DEAD_SUFFIX))
        names = [name for name in found if pattern.fullmatch(name)]
    else:
        names = sorted(set(topics.names))
    told = [client.topic(name) for name in names]
    return {TopicPartition(one.name, partition.index): one.id for one in told for partition in one.partitions}


def positions(
    client: Client, places: Iterable[TopicPartition], bound: Bound, *, committed: bool = False
) -> dict[TopicPartition, int]:
    """Where a bound lies in each partition."""
    wanted = _wanted(list(places), bound)
    # What is a time, or stands for one; the rest are offsets already.
    times = {place: time for place, (time, _) in wanted.items() if time is not None}
    found = {place: offset for place, (_, offset) in wanted.items() if offset is not None}
    ends = []
    for place, at in client.offsets(times, committed=committed).items() if times else ():
        if at.offset >= 0:
            found[place] = at.offset
        elif bound.latest_if_none:
            ends.append(place)
        else:
            raise InvalidRequest(
                f"{place} has no record at or after {times[place]} ms; "
                "startingOffsetsByTimestampStrategy=latest starts at the end instead"
            )
    if ends:
        at_end = client.offsets(dict.fromkeys(ends, LATEST), committed=committed)
        found |= {place: at.offset for place, at in at_end.items()}
    return found


def _wanted(
    places: list[TopicPartition], bound: Bound
) -> dict[TopicPartition, tuple[int | None, int | None]]:
    """Per partition: a time to look up (or EARLIEST, LATEST), or an offset."""
    if bound.everywhere is not None:
        return dict.fromkeys(places, (bound.everywhere, None))
    if bound.timestamp_ms is not None:
        return dict.fromkeys(places, (bound.timestamp_ms, None))
    if bound.timestamps_ms is not None:
        return {place: (at, None) for place, at in _each(places, bound.timestamps_ms).items()}
    assert bound.offsets is not None
    return {place: (at, None) if at < 0 else (None, at) for place, at in _each(places, bound.offsets).items()}


def _each(places: list[TopicPartition], given: Offsets) -> dict[TopicPartition, int]:
    """They must name exactly the partitions that are read: a forgotten one would be read from anywhere."""
    named = {
        TopicPartition(topic, index): at for topic, indexes in given.items() for index, at in indexes.items()
    }
    if set(named) != set(places):
        missing = ", ".join(map(str, sorted(set(places) - set(named))))
        extra = ", ".join(map(str, sorted(set(named) - set(places))))
        wrong = [f"{missing} is missing"] * bool(missing) + [f"{extra} is not read"] * bool(extra)
        raise InvalidRequest(f"offsets must be given for each partition that is read: {'; '.join(wrong)}")
    return named


def not_before(
    client: Client, start: Positions, end: Positions, time_ms: int, *, committed: bool = False
) -> dict[TopicPartition, int]:
    """The start, moved on to the first record at or after a time; to the end where there is none."""
    found = client.offsets(dict.fromkeys(start, time_ms), committed=committed) if start else {}
    return {
        place: max(offset, found[place].offset) if found[place].offset >= 0 else end[place]
        for place, offset in start.items()
    }


def bytes_per_offset(client: Client, start: Positions) -> dict[TopicPartition, int]:
    """How much an offset weighs from here on, as stored: told from the first records of each partition.

    Those that gave nothing this time are taken to be like the others.
    """
    look = partial(client.fetch, max_wait_ms=0, max_bytes=SAMPLES_BYTES, partition_max_bytes=SAMPLE_BYTES)
    found: dict[TopicPartition, int] = {}
    for fetched in look(start) if start else ():
        headers = [header for _, header in iter_batches(fetched.records)]
        skipped = sum(header.last_offset_delta + 1 for header in headers if not header.record_count)
        offsets = headers[-1].last_offset + 1 - headers[0].base_offset - skipped if headers else 0
        if offsets:
            found[fetched.place] = -(-len(fetched.records) // offsets)
    usual = sum(found.values()) // len(found) if found else 1
    return {place: found.get(place, usual) for place in start}


def beginnings(
    client: Client, known: Positions, upto: Positions, fail_on_data_loss: bool
) -> dict[TopicPartition, int]:
    """Where to read on to `upto` from: what is known, or the beginning of a partition that is new since then.

    One that reaches less far than was read was made anew; if losses are allowed it is read anew.
    """
    new = [place for place in upto if place not in known]
    if not fail_on_data_loss:
        new += [place for place in upto if place in known and known[place] > upto[place]]
    firsts = client.offsets(dict.fromkeys(new, EARLIEST)) if new else {}
    return {place: firsts[place].offset if place in firsts else known[place] for place in upto}


def within(
    client: Client, wanted: Positions, *, fail_on_data_loss: bool, committed: bool = False
) -> dict[TopicPartition, int]:
    """The same positions if what lies there still exists; moved to what does, if records may be lost."""
    firsts = client.offsets(dict.fromkeys(wanted, EARLIEST)) if wanted else {}
    ends = client.offsets(dict.fromkeys(wanted, LATEST), committed=committed) if wanted else {}
    found = {}
    for place, offset in wanted.items():
        first, end = firsts[place].offset, ends[place].offset
        if first <= offset <= end:
            found[place] = offset
            continue
        if fail_on_data_loss:
            gone = (
                f"offsets {offset} to {first - 1} are gone" if offset < first else f"nothing is at {offset}"
            )
            raise DataLost(f"{place}: {gone}; it begins at {first} and ends before {end}. {HINT}")
        events.warning("records are gone", place=str(place), asked=offset, first=first, end=end)
        found[place] = first if offset < first else end
    return found
