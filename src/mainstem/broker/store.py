"""The log and the state that lives in it: replay on start, deltas while serving, snapshots in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import msgspec

from mainstem.broker.doorbell import Doorbell
from mainstem.kernel.log.entries import DeltaEntry, Entry
from mainstem.kernel.log.journal import Append
from mainstem.kernel.log.log import Log, LogOptions
from mainstem.kernel.log.recover import Replay
from mainstem.model.errors import CorruptFile
from mainstem.model.ports import Disk

Then = Callable[[], None]

_encode = msgspec.msgpack.Encoder().encode


class Section(IntEnum):
    """Whose deltas a frame carries. Part of the disk format: numbers are never reused."""

    NOTHING = 0  # a barrier: on disk means that everything before it is
    TOPICS = 1
    OFFSETS = 2
    TRANSACTIONS = 3
    PRODUCERS = 4
    ACCESS = 5
    QUOTAS = 6
    SINKS = 7
    QUEUES = 8
    ACKS = 9
    DELAYS = 10
    SHARES = 11


class Machine(Protocol):
    """A part of the state: `dump` gives the deltas that rebuild it, also while it goes on changing.

    It is called in the turn that notes the journal position, and what it gives is followed by a replay of
    everything after that position: re-applied deltas must do no harm.
    """

    def apply(self, delta: Any) -> None: ...

    def dump(self) -> Iterator[Any]: ...


@dataclass(frozen=True, slots=True)
class Part:
    """A machine with the type of its deltas."""

    machine: Machine
    decode: Callable[[bytes], Any]


def part(machine: Machine, delta_type: Any) -> Part:
    return Part(machine, msgspec.msgpack.Decoder(delta_type).decode)


class Rebuild:
    """Replays deltas into the machines; batches and links go to whoever owns partitions."""

    def __init__(
        self,
        parts: dict[Section, Part],
        batch: Callable[[int, memoryview], None],
        link: Callable[[int, int, int], None],
        reached: Callable[[Mapping[int, int]], None] | None = None,
    ) -> None:
        self._by_number = {int(section): held for section, held in parts.items()}
        self.batch = batch
        self.link = link
        self.reached = reached

    def delta(self, section: int, payload: bytes) -> None:
        if section == Section.NOTHING:
            return
        found = self._by_number.get(section)
        if found is None:
            raise CorruptFile("journal", 0, f"a delta of section {section}, which this version does not know")
        found.machine.apply(found.decode(payload))


class Store:
    """One per broker. All methods but `open` run on the loop."""

    def __init__(self, log: Log, parts: dict[Section, Part], doorbell: Doorbell, readers: int) -> None:
        self.log = log
        self.parts = parts
        self._loop = asyncio.get_running_loop()
        self._doorbell = doorbell
        self.readers = ThreadPoolExecutor(readers, "reader")

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: str,
        options: LogOptions,
        parts: dict[Section, Part],
        replay: Replay,
        on_failure: Callable[[BaseException], None],
        new_id: Callable[[], str],
        readers: int,
    ) -> Store:
        doorbell = Doorbell(asyncio.get_running_loop())
        try:
            log = Log.open(disk, folder, options, replay, doorbell.post, on_failure, new_id)
        except BaseException:
            doorbell.close()
            raise
        return cls(log, parts, doorbell, readers)

    def commit(
        self,
        section: Section,
        delta: Any,
        *,
        essential: bool = False,
        frees_space: bool = False,
        then: Then | None = None,
    ) -> asyncio.Future[None]:
        """Journal one delta; the future is done once it is on disk. The caller applies it.

        `then` runs in the very turn that finds it on disk, in journal order, even if nobody waits any more.
        What must not be seen before it is safe is applied there: a future wakes its waiter a turn later,
        and a snapshot begun in between would claim a delta that its state lacks.
        """
        payload = _encode(delta)
        self.log.check_room(len(payload), essential=essential, frees_space=frees_space)
        done = self._loop.create_future()
        self.log.append_delta(section, payload, _settle(done, then))
        return done

    def append(self, section: Section, delta: Any, done: Callable[[Any], None]) -> None:
        """Journal one delta for which room was made already; `done` follows once it is on disk."""
        self.log.append_delta(section, _encode(delta), done)

    def commit_together(
        self,
        deltas: Sequence[tuple[Section, Any]],
        entries: Sequence[Entry] = (),
        *,
        essential: bool = False,
        frees_space: bool = False,
        then: Then | None = None,
    ) -> asyncio.Future[None]:
        """Journal several deltas and entries so that all of them or none survive; `then` as for `commit`."""
        together: list[Entry] = [DeltaEntry(section, _encode(delta)) for section, delta in deltas]
        together += entries
        self.log.check_room(sum(map(_size, together)), essential=essential, frees_space=frees_space)
        done = self._loop.create_future()
        self.log.append_atomic(together, _settle(done, then))
        return done

    def barrier(self) -> asyncio.Future[None]:
        """Done once everything appended so far is on disk."""
        done = self._loop.create_future()
        self.log.append_delta(Section.NOTHING, b"", _settle(done))
        return done

    async def in_reader(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run a read that may wait for the disk, off the loop."""
        return await self._loop.run_in_executor(self.readers, work, *arguments)

    async def in_background(self, work: Callable[[], None]) -> None:
        await asyncio.wrap_future(self.log.background(work))

    async def close(self) -> None:
        """Everything appended is on disk and everyone was told when this returns."""
        await self._loop.run_in_executor(None, self.log.close)
        self._doorbell.deliver()  # of the last rounds
        self._doorbell.close()
        self.readers.shutdown(wait=False, cancel_futures=True)

    # --- snapshots -----------------------------------------------------------------------------

    async def snapshot(self, slice_ms: float = 1.0) -> None:
        """Write the whole state while serving goes on, in slices of the loop's time."""
        writer, entry = self.log.new_snapshot()
        time = self._loop.time
        pieces: list[tuple[int, bytes]] = []
        until = time() + slice_ms / 1000
        # Every dump is begun in this turn, the one that noted the position; see Machine.
        for section, dump in [(section, held.machine.dump()) for section, held in self.parts.items()]:
            for delta in dump:
                pieces.append((section, _encode(delta)))
                if time() >= until:
                    full, pieces = pieces, []
                    await self.in_background(lambda full=full: writer.write(full))  # type: ignore[misc]
                    until = time() + slice_ms / 1000
        await self.in_background(lambda: writer.write(pieces))
        await self.barrier()
        await self.in_background(lambda: self.log.add_snapshot(writer, entry))


def _settle(done: asyncio.Future[None], then: Then | None = None) -> Callable[[Append], None]:
    def settle(_: Append) -> None:
        if then is not None:
            then()
        if not done.done():
            done.set_result(None)

    return settle


def _size(entry: Entry) -> int:
    return 64 + len(getattr(entry, "payload", getattr(entry, "batch", b"")))
