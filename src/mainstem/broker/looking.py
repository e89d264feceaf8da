"""Looking into producers' batches: at once where that is quick, in a thread where it may take long.

A few kilobytes can stand for 64 MiB, and to find that out takes a quarter of a second. The loop gives a batch
LIGHT_RECORDS and, unpacked, LIGHT_BYTES; what is more, or must be compressed in another way, waits for the
one thread. So many such batches make each other wait, and others only for as long as a copy of 64 MiB takes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from mainstem.broker.policy import TopicPolicy
from mainstem.model.batch import read_header
from mainstem.model.errors import BatchTooLarge, GrowsTooLarge
from mainstem.model.records import check_records, recompressed

# More than any client of today puts into a batch unless it is told to. Some milliseconds, however compressed.
LIGHT_BYTES = 2 << 20
LIGHT_RECORDS = 200_000
# A batch is compressed in another way at once only below this: packing is slower by far than unpacking.
LIGHT_PACKED_BYTES = 16 << 10


class HeavyBatch(Exception):
    """To look into this batch would hold up everybody; `look` at it elsewhere."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What came of it: the batch as the topic keeps it, which is another one if it was compressed anew."""

    policy: TopicPolicy  # it holds as long as this is the topic's
    batch: memoryview
    max_timestamp_ms: int


def glance(policy: TopicPolicy, batch: memoryview) -> int:
    """The greatest timestamp of a batch (already through `check_batch`) that its topic takes.

    Raises HeavyBatch where it would take long.
    """
    if policy.codec is not None and len(batch) > LIGHT_PACKED_BYTES and must_be_repacked(policy, batch):
        raise HeavyBatch
    if len(batch) > LIGHT_RECORDS and read_header(batch).record_count > LIGHT_RECORDS:
        raise HeavyBatch
    try:
        return check_records(batch, LIGHT_BYTES, need_keys=policy.compact)
    except GrowsTooLarge:
        raise HeavyBatch from None


def look(policy: TopicPolicy, batch: memoryview) -> Looked:
    """The same, however long it takes. Touches nothing else: it may be called from any thread."""
    max_timestamp_ms = check_records(batch, need_keys=policy.compact, pause=_let_others_run)
    if must_be_repacked(policy, batch):
        batch = repacked(policy, batch)
    return Looked(policy, batch, max_timestamp_ms)


def _let_others_run() -> None:
    time.sleep(0)


def must_be_repacked(policy: TopicPolicy, batch: memoryview) -> bool:
    return policy.codec is not None and read_header(batch).codec != policy.codec


def repacked(policy: TopicPolicy, batch: memoryview) -> memoryview:
    """The same records, compressed as the topic wants them, in another buffer."""
    assert policy.codec is not None
    made = recompressed(batch, policy.codec)
    if len(made) > policy.max_message_bytes:
        raise BatchTooLarge(
            f"a batch of {len(made)} bytes, compressed anew, is above the limit of {policy.max_message_bytes}"
        )
    return memoryview(made)


Then = Callable[[Looked | Exception], None]


class Look:
    """One batch in line for the thread."""

    def __init__(self, policy: TopicPolicy, batch: memoryview, then: Then) -> None:
        self._policy = policy
        self._wanted: tuple[memoryview, Then] | None = batch, then
        self._loop = asyncio.get_running_loop()

    def give_up(self) -> None:
        """Nobody waits for it any more. Its bytes, and what `then` knows, need not wait for its turn."""
        self._wanted = None

    def run(self) -> None:
        """In the thread."""
        wanted, self._wanted = self._wanted, None
        if wanted is None:
            return
        batch, then = wanted
        del wanted
        found: Looked | Exception
        try:
            found = look(self._policy, batch)
        except Exception as error:  # whoever waits for it tells its client, or the log
            error.__context__ = None
            found = error.with_traceback(None)  # both would keep the batch
        with suppress(RuntimeError):  # the loop has ended, and everybody's waiting with it
            self._loop.call_soon_threadsafe(then, found)


class Looker:
    """The thread, which starts with the first heavy batch."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "look")

    def look(self, policy: TopicPolicy, batch: memoryview, then: Then) -> Look:
        """`then` follows on the loop, unless it is given up. Until then the batch must stay as it is."""
        made = Look(policy, batch, then)
        self._thread.submit(made.run)
        return made

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
