"""The journal's writer: one thread that puts everyone's appends on disk, a round at a time.

Rules that everything else rests on:
- A round is what was waiting when the writer looked, up to a limit: one write, one sync, then everybody is
  told. There is no timer; under load rounds grow by themselves.
- A round lies in one file. Its head says what was on disk before it, so that recovery can tell a torn tail
  from damage.
- Space is taken when a file is prepared, never when a round is written.
- When a write or a sync fails, nobody is told anything any more: the process has to end.

Types for the compiler are in journal.pxd.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from time import perf_counter
from typing import Protocol

from fastcrc.crc32 import iscsi as crc32c

from mainstem.kernel.log.direct import DirectWriter
from mainstem.kernel.log.layout import (
    FRAME_HEAD,
    FRAME_HEAD_BYTES,
    OWN_CRC,
    ROUND,
    ROUND_FRAME_BYTES,
    ROUND_MAGIC,
    SEED,
    FrameKind,
    frame_head,
)
from mainstem.kernel.log.stage import Stage, Stages
from mainstem.model.batch import SIGNED_FROM
from mainstem.model.errors import StorageFailed
from mainstem.model.meters import LATENCY_SECONDS, Histogram
from mainstem.model.ports import BLOCK_BYTES, Buffer, File

# A round takes at most this many bytes, so that one large burst does not hold up everyone behind it.
MAX_ROUND_BYTES = 16 << 20
SEAL_FRAME_BYTES = FRAME_HEAD_BYTES
# A file that was not filled with zeros is left for one that was, if it has more room than this.
WORTH_LEAVING_BYTES = 64 << 20
_LARGE_BATCH_BYTES = 1024
_BATCH = int(FrameKind.BATCH)  # plain, which is faster to handle
_OWN_CRC = OWN_CRC
_HEAD_BYTES = FRAME_HEAD_BYTES


class NewPlace:
    """A place that an entry of an atomic append creates; `at` is where its bytes start in the payload."""

    __slots__ = ("at", "base", "body", "last", "link", "max_timestamp_ms", "partition", "size")

    def __init__(self, partition: int, base: int, last: int, max_timestamp_ms: int, size: int) -> None:
        self.partition = partition
        self.base = base
        self.last = last
        self.max_timestamp_ms = max_timestamp_ms
        self.size = size
        self.at = 0
        self.link = False
        # Of a link: its body, (file, position), unless that lies in the same frame.
        self.body: tuple[int, int] | None = None


class Append:
    """One frame to be written. `done` is called on the owner's thread once it is on disk.

    With `early` set that is once the operating system has it: a power cut may take it back.
    """

    __slots__ = ("done", "early", "file_id", "kind", "payload", "places", "position", "stage", "subject")

    def __init__(
        self,
        kind: int,
        subject: int,
        payload: Buffer,
        places: tuple[NewPlace, ...],
        done: Callable[[Append], None] | None,
    ) -> None:
        self.kind = kind
        self.subject = subject
        self.payload = payload
        self.places = places
        self.done = done
        self.early = False
        self.stage: Stage | None = None  # that the payload lies in
        # Set by the writer: the payload's place on disk.
        self.file_id = 0
        self.position = 0


class BatchAppend(Append):
    """A batch in a frame of its own, with its one place: the append that there are most of."""

    __slots__ = ("base", "last", "max_timestamp_ms")

    def __init__(
        self,
        partition: int,
        batch: Buffer,
        base: int,
        last: int,
        max_timestamp_ms: int,
        done: Callable[[Append], None] | None,
        early: bool,
    ) -> None:
        self.kind = _BATCH
        self.subject = partition
        self.payload = batch
        self.places = ()
        self.done = done
        self.early = early
        self.stage = None
        self.base = base
        self.last = last
        self.max_timestamp_ms = max_timestamp_ms


class JournalFile:
    """A journal file that is written or ready to be. Zeros were written to it up to `filled_to`."""

    __slots__ = ("capacity", "file", "file_id", "filled_to", "frames", "position")

    def __init__(self, file_id: int, file: File, position: int, capacity: int, frames: int = 0) -> None:
        self.file_id = file_id
        self.file = file
        self.position = position
        self.capacity = capacity
        self.frames = frames
        self.filled_to = 0

    @property
    def filled(self) -> bool:
        return self.filled_to >= self.capacity


class Supply(Protocol):
    """Where the writer gets its next file from."""

    @property
    def next_capacity(self) -> int:
        """Bytes that the prepared file will take; 0 if none is ready."""

    @property
    def next_filled(self) -> bool:
        """Whether the prepared file is filled with zeros already."""

    def take_next(self) -> JournalFile:
        """The prepared file, or a new one made on the spot."""


class Round:
    """What one write put on disk; `sealed` is the file that was finished just before it, if any.

    `end` is where the round ends: by the time the owner looks, `file.position` may be a later round's.
    `plain` rounds hold batches only, each in a frame of its own. What went `direct` is not in memory.
    The payloads lie in `stage`, if there is one: the owner gives it back when nobody looks at them any more.
    """

    __slots__ = ("appends", "bytes", "direct", "end", "file", "plain", "sealed", "stage")

    def __init__(
        self,
        appends: list[Append],
        plain: bool,
        file: JournalFile,
        sealed: JournalFile | None,
        size: int,
        direct: bool,
        stage: Stage | None,
    ) -> None:
        self.appends = appends
        self.plain = plain
        self.file = file
        self.end = file.position
        self.sealed = sealed
        self.bytes = size
        self.direct = direct
        self.stage = stage


def _at_once(call: Callable[[], None]) -> None:
    call()


class JournalWriter:
    """Owns the active file. `submit` and `give_back` are for the owner's thread only, where `post` also runs
    `on_round`."""

    def __init__(
        self,
        active: JournalFile,
        *,
        max_frames: int,
        supply: Supply,
        post: Callable[[Callable[[Round], None], Round], object],
        on_round: Callable[[Round], None],
        on_failure: Callable[[BaseException], None],
        round_number: int = 0,
    ) -> None:
        self._active = active
        self._max_frames = max_frames
        self._supply = supply
        self._post = post
        self._on_round = on_round
        self._on_failure = on_failure
        self._round_number = round_number
        self._synced = (active.file_id, active.position)
        self.sync_seconds = Histogram(LATENCY_SECONDS)
        self._pending: deque[Append] = deque()
        # Large rounds are laid out in memory as they come, in the stage that is open. Under the lock: its
        # appends follow each other in `_pending`, and the writer takes all of them together.
        self._stage: Stage | None = None
        self._stages = Stages()
        self._staging = threading.Lock()
        self._early = False  # something was written and not synced
        self._direct = DirectWriter()
        # The owner knows whether anybody reads what is being written.
        self.is_unread: Callable[[], bool] = lambda: False
        self._leaving = False  # the active file is to be finished, though it is not full
        self._idle = False
        self._waking = False
        # An owner with an event loop lets the writer start when its turn is over: then one round takes all
        # that came in the turn, instead of several that each take a part.
        self.after_turn: Callable[[Callable[[], None]], object] = _at_once
        self._closing = False
        self._failed = False
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, append: Append) -> None:
        # Without the lock: if a stage is opened after this look, the append comes before what lies there, and
        # moves it. The writer sees that.
        if self._stage is None:
            self._pending.append(append)
        else:
            with self._staging:
                self._put_on_stage(append)
                self._pending.append(append)
        if self._idle and not self._waking:
            self._waking = True
            self.after_turn(self._wake_up)

    def _put_on_stage(self, append: Append) -> None:
        """If one is open and has room, or there is another. If not, the round ends before this append."""
        stage = self._stage
        if stage is None:
            return
        copy = None
        if not append.early:
            copy = stage.put(append.payload)
            if copy is None and stage.count:
                following = self._stages.take(stage.position + stage.size)
                if following is not None:
                    stage = self._stage = following
                    copy = stage.put(append.payload)
        if copy is None:
            self._stage = None
            if not stage.count:
                self._stages.give_back(stage)
            return
        append.payload = copy
        append.stage = stage
        if append.kind != _BATCH:
            stage.plain = False

    def give_back(self, stage: Stage) -> None:
        """By the owner's thread, when nobody looks at the round that lay there any more."""
        self._stages.give_back(stage)

    def leave(self) -> None:
        """Finish the active file, full or not, once the next one is ready. By the owner's thread."""
        self._leaving = True
        self._wake_up()

    def _wake_up(self) -> None:
        self._waking = False
        self._wake.put(None)

    def close(self) -> None:
        """Write what is pending, then end. The last rounds are posted before this returns."""
        self._closing = True
        self._wake.put(None)
        if self._thread.is_alive():
            self._thread.join()
        else:
            self.run_pending()

    def stop(self) -> None:
        """Tell nobody anything any more: something else has failed, and the process is about to end."""
        self._failed = True
        self._wake.put(None)

    def run_pending(self) -> None:
        """Write all that is pending, on the caller's thread: for owners that did not `start`, and by it."""
        try:
            while self._pending and not self._failed:
                self._write_round()
            if self._leaving and not self._failed:
                self._leave_file()
        except BaseException as error:  # nobody is told anything any more; the process has to end
            self._failed = True
            self._on_failure(error)

    # --- the writer's own thread ---------------------------------------------------------------

    def _run(self) -> None:
        while not self._failed:
            if self._pending or self._leaving:
                self.run_pending()
                continue
            # Say "idle" first, then look again: a submit in between sees the word or is seen.
            self._idle = True
            if not self._pending and not self._leaving:
                if self._closing:
                    return
                self._wake.get()
            self._idle = False

    def _take(self) -> tuple[list[Append], int, bool]:
        """The next round: in order, and either all early or none, so that one answer fits all of it. What
        lies in a stage is a round of its own.

        With its size, and whether it is plain.
        """
        pending = self._pending
        appends: list[Append] = []
        append = pending[0]
        stage = append.stage
        if stage is not None:
            for _ in range(stage.count):
                appends.append(pending.popleft())
            if self._stage is stage:
                self._stage = None
            return appends, stage.size, stage.plain
        size, plain = ROUND_FRAME_BYTES, True
        early = append.early
        while size < MAX_ROUND_BYTES and append.early == early and append.stage is None:
            appends.append(pending.popleft())
            size += _HEAD_BYTES + len(append.payload)
            if append.kind != _BATCH:
                plain = False
            if not pending:
                break
            append = pending[0]
        return appends, size, plain

    def _write_round(self) -> None:
        with self._staging:
            appends, size, plain = self._take()
            full = self._is_full(size, len(appends))
            if not full and not appends[0].early:
                self._open_stage(self._active.position + size)
        stage = appends[0].stage
        sealed = self._begin_next() if full else None
        active = self._active
        if active.position + size + SEAL_FRAME_BYTES > active.capacity:
            # A round larger than a whole file: the file grows to hold it.
            active.capacity = active.position + size + SEAL_FRAME_BYTES
            active.file.allocate(active.capacity)
        frames = self._frames(appends, active)
        direct = False
        if appends[0].early:
            active.file.pwritev(frames, active.position)
            self._early = True
        else:
            began_s = perf_counter()
            direct = self._write_through(active, frames, size, stage)
            self.sync_seconds.observe(perf_counter() - began_s)
            self._synced = (active.file_id, active.position + size)
        active.position += size
        active.frames += len(appends) + 1
        self._post(self._on_round, Round(appends, plain, active, sealed, size, direct, stage))

    def _begin_next(self) -> JournalFile:
        """The file that is finished by that."""
        # The next file first: if there is no room for one, this file stays the last and can be opened.
        following = self._supply.take_next()
        sealed = self._active
        self._seal(sealed)
        self._active = following
        self._leaving = False
        return sealed

    def _leave_file(self) -> None:
        """Nothing is to be written: the next file begins with a round of nothing, and all else is as ever."""
        self._leaving = False
        if self._active.frames <= 1 or not self._next_is_as_large():
            return
        sealed = self._begin_next()
        active = self._active
        active.file.pwritev(self._frames([], active), active.position)
        active.file.fdatasync()
        active.position += ROUND_FRAME_BYTES
        active.frames += 1
        self._early = False
        self._synced = (active.file_id, active.position)
        self._post(self._on_round, Round([], True, active, sealed, ROUND_FRAME_BYTES, False, None))

    def _open_stage(self, position: int) -> None:
        """For the next round. It will begin there, unless its file is full then or something came between."""
        if (
            self._stage is None
            and not self._pending
            and not self._early
            and self.is_unread()
            and self._direct.may_take(self._active.file_id)
        ):
            self._stage = self._stages.take(position)

    def _write_through(
        self, active: JournalFile, frames: list[Buffer], size: int, stage: Stage | None
    ) -> bool:
        """Whether it went past the page cache. What was written early goes to disk with it, at the latest."""
        file, position = active.file, active.position
        if self._early:
            file.pwritev(frames, position)
            file.fdatasync()
            self._early = False
            return False
        if self.is_unread():
            # A stage was laid out for where this round was to begin; if that moved, it has to be copied.
            if stage is not None and stage.lead == position % BLOCK_BYTES:
                stage.put_heads(frames)
                if self._direct.write_staged(file, active.file_id, stage, position, active.capacity):
                    return True
            elif self._direct.write(file, active.file_id, frames, position, size, active.capacity):
                return True
        file.write_through(frames, position)
        return False

    def _is_full(self, size: int, count: int) -> bool:
        active = self._active
        if active.frames == 0:
            return False
        if active.position + size + SEAL_FRAME_BYTES > active.capacity:
            return True
        if self._is_worth_leaving(active):
            return True
        # The number of frames is a soft limit: not worth waiting for a file, or dying on a full disk.
        if self._leaving and self._next_is_as_large():
            return True
        return active.frames + count >= self._max_frames and self._supply.next_capacity > 0

    def _next_is_as_large(self) -> bool:
        """What was admitted to the active file must fit there."""
        return self._supply.next_capacity >= self._active.capacity

    def _is_worth_leaving(self, active: JournalFile) -> bool:
        """The first file after a start is not filled with zeros; once the next one is, it is faster there."""
        return (
            active.capacity - active.position > WORTH_LEAVING_BYTES
            and not active.filled
            and self._supply.next_filled
            and self._supply.next_capacity >= active.capacity
        )

    def _frames(self, appends: list[Append], active: JournalFile) -> list[Buffer]:
        """The bytes of a round, and the positions it gives to its appends."""
        file_id, position = active.file_id, active.position
        self._round_number += 1
        payload: Buffer = ROUND.pack(ROUND_MAGIC, self._round_number, *self._synced)
        chunks: list[Buffer] = [frame_head(file_id, position, FrameKind.ROUND, 0, payload), payload]
        position += ROUND_FRAME_BYTES
        pack_seed, pack_head, add = SEED.pack, FRAME_HEAD.pack, chunks.append
        for append in appends:
            payload, kind, subject = append.payload, append.kind, append.subject
            size = len(payload)
            # A batch's own crc was checked when it came: that of a large one is not worth another look.
            flags = _OWN_CRC if kind == _BATCH and size > _LARGE_BATCH_BYTES else 0
            covered = payload[:SIGNED_FROM] if flags else payload
            crc = crc32c(pack_seed(file_id, position, kind, flags, 0, subject, size))
            add(pack_head(size, crc32c(covered, crc), kind, flags, 0, subject))
            add(payload)
            append.file_id = file_id
            position += _HEAD_BYTES
            append.position = position
            position += size
        return chunks

    def _seal(self, file: JournalFile) -> None:
        head = frame_head(file.file_id, file.position, FrameKind.SEAL, 0, b"")
        file.file.pwritev([head], file.position)
        file.file.fdatasync()
        file.position += SEAL_FRAME_BYTES
        if file.position > file.capacity:
            raise StorageFailed(f"{file.file.path}: no room for the seal at {file.position}")
