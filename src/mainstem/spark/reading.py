"""A stretch of a partition as Arrow record batches. Runs in executors, each with a connection of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from mainstem.client import codes
from mainstem.client.ahead import Ahead
from mainstem.client.client import EARLIEST, Client
from mainstem.client.cluster import Fetched, FetchLimits
from mainstem.client.patience import patiently
from mainstem.client.settings import ClientSettings
from mainstem.model.errors import DataLost
from mainstem.model.logs import get_log
from mainstem.spark.columns import Collector
from mainstem.spark.planning import DEAD_SUFFIX, HINT
from mainstem.spark.ranges import Range
from mainstem.spark.workers import settle

if TYPE_CHECKING:
    from mainstem.spark.typed import BadRecord, Typing

events = get_log(__name__)

# Large enough that a request costs little, small enough that the first rows come soon.
# A broker may send less at once.
FETCH_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a task needs to know besides its range."""

    settings: ClientSettings
    names: tuple[str, ...]
    committed: bool
    fail_on_data_loss: bool
    patience_s: float
    typing: Typing | None = None
    dead_letter_topic: str = ""  # if empty, one for each topic, named after it
    dead_letter_suffix: str = ""  # in such a name, after that of the topic


def read(piece: Range, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    settle()
    with Client(options.settings) as client:
        batches = _records(client, piece, options)
        if options.typing is None:
            yield from batches
            return
        for batch in batches:
            typed, bad = options.typing.apply(batch)
            if bad:
                _set_aside(piece, options, bad)
            if len(typed):
                yield typed


def _records(client: Client, piece: Range, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    limits = FetchLimits(max_bytes=FETCH_BYTES, partition_max_bytes=FETCH_BYTES, committed=options.committed)
    collector = Collector(piece.place.topic, piece.place.partition, options.names)
    start = piece.start
    while start < piece.end:
        for fetched in Ahead(client, piece.place, limits, options.patience_s).read(start, piece.end):
            if fetched.error_code:
                start = _behind_loss(client, fetched, piece, options)
                break
            if fetched.next_offset == fetched.offset:
                _check_end(fetched, piece, options)
                start = piece.end  # compaction left nothing of the rest
                break
            yield from collector.add(fetched, piece.end, options.committed)
        else:
            start = piece.end
    yield from collector.rest()


def _set_aside(piece: Range, options: ReadOptions, bad: Sequence[BadRecord]) -> None:
    """With a client of its own: that of the reader has a request under way."""
    from mainstem.spark.dead_letters import send  # seldom needed

    own = piece.place.topic + options.dead_letter_suffix + DEAD_SUFFIX
    topic = options.dead_letter_topic or own
    with Client(options.settings) as client:
        patiently(lambda: send(client, topic, piece.place, bad), options.patience_s)
    events.warning("records could not be read", place=str(piece.place), records=len(bad), sent_to=topic)


def _behind_loss(client: Client, fetched: Fetched, piece: Range, options: ReadOptions) -> int:
    """Where to go on after an error: behind what retention took meanwhile, if that may be left out."""
    if fetched.error_code != codes.OFFSET_OUT_OF_RANGE:
        fetched.check()
    # An answer with an error does not tell where the partition begins.
    first = client.offsets({piece.place: EARLIEST})[piece.place].offset
    if options.fail_on_data_loss or first <= fetched.offset:
        raise _lost(fetched, piece, first)
    events.warning("records are gone", place=str(piece.place), asked=fetched.offset, first=first)
    return first


def _check_end(fetched: Fetched, piece: Range, options: ReadOptions) -> None:
    """Nothing came. That is well if the partition reaches as far as it did when this was planned."""
    end = fetched.last_stable_offset if options.committed else fetched.high_watermark
    if end < piece.end and options.fail_on_data_loss:
        raise _lost(fetched, piece, fetched.log_start)


def _lost(fetched: Fetched, piece: Range, first: int) -> DataLost:
    wanted = f"offsets {fetched.offset} to {piece.end} were to be read"
    return DataLost(f"{piece.place}: {wanted}, and it begins at {first}. {HINT}")
