"""What a log must hold, as plain lists, and a driver that does the same to a real log.

The model is one list: everything appended, in order. After any crash the log must hold a beginning of that
list, not shorter than what was acknowledged; each partition must read as that beginning says, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mainstem.kernel.log.entries import BatchEntry, BodyEntry, DeltaEntry, Entry, LinkEntry
from mainstem.kernel.log.journal import Append, NewPlace
from mainstem.kernel.log.layout import Link, Overlay, pack_overlay
from mainstem.kernel.log.log import LogOptions
from mainstem.model.batch import place_batch, read_header
from mainstem.model.ports import Disk
from mainstem.model.record import Headers
from mainstem.model.records import Record, encode_batch, slice_batch
from mainstem.testing.log_by_hand import LogByHand, Replayed

EVERYTHING = 1 << 60
SNAPSHOT_SECTION = 9999


@dataclass(slots=True)
class Unit:
    """One append: what replay will say about it, and what its partitions will read as."""

    replayed: tuple[Replayed, ...]
    reads: tuple[tuple[int, bytes], ...] = ()
    body: bytes = b""  # a batch that links may name
    address: tuple[int, int] = (0, 0)


class LogModel:
    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.acked = 0

    def reads(self, upto: int) -> dict[int, list[bytes]]:
        found: dict[int, list[bytes]] = {}
        for unit in self.units[:upto]:
            for partition, batch in unit.reads:
                found.setdefault(partition, []).append(batch)
        return found

    def held_by(self, replayed: list[Replayed]) -> int:
        """How many units a log holds that replays so; AssertionError if it is not a beginning of ours."""
        rest, count = list(replayed), 0
        if rest and rest[0][:2] == ("delta", SNAPSHOT_SECTION):
            count = int.from_bytes(rest.pop(0)[2], "big")
        while rest:
            expected = list(self.units[count].replayed)
            assert rest[: len(expected)] == expected, f"unit {count} is not what was appended"
            del rest[: len(expected)]
            count += 1
        return count


class ModelledLog:
    """A log and its model, driven together. `on_ack` is told how many units are acknowledged."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        options: LogOptions,
        model: LogModel | None = None,
        on_ack: Callable[[int], None] | None = None,
    ) -> None:
        self.model = model or LogModel()
        self._on_ack = on_ack
        self.hand = LogByHand(disk, folder, options)
        self.log = self.hand.log
        self._check_and_trim()
        self._ends = {
            partition: read_header(batches[-1]).last_offset + 1
            for partition, batches in self.model.reads(self.model.acked).items()
        }

    def _check_and_trim(self) -> None:
        model = self.model
        held = model.held_by(self.hand.replayed)
        assert held >= model.acked, f"{model.acked} units were acknowledged, {held} are there"
        del model.units[held:]
        model.acked = held
        self.check_reads()

    def check_reads(self) -> None:
        """Every partition reads as the model says; what is not acknowledged is not seen."""
        expected = self.model.reads(self.model.acked)
        for partition, batches in expected.items():
            found = self.log.read(partition, 0, EVERYTHING, EVERYTHING, wait=True)
            assert [bytes(batch) for batch in found] == batches, f"partition {partition} reads otherwise"
        for places in (*self.log.sealed, self.log.active_table):
            assert set(places.partitions()) <= set(expected)

    # --- appends -------------------------------------------------------------------------------

    def _batch(self, partition: int, records: int, value_bytes: int, producer_id: int = -1) -> bytearray:
        number = len(self.model.units)
        made = [
            Record(0, 1000 * number + at, b"%d" % at, (b"%d." % number) * (1 + value_bytes // 3))
            for at in range(records)
        ]
        base = self._ends.get(partition, 0)
        return encode_batch(made, base_offset=base, producer_id=producer_id)

    def _place(self, partition: int, batch: bytearray) -> NewPlace:
        header = read_header(batch)
        self._ends[partition] = header.last_offset + 1
        return NewPlace(
            partition, header.base_offset, header.last_offset, header.max_timestamp_ms, len(batch)
        )

    def _done(self, unit: Unit, at: int = 0) -> Callable[[Append], None]:
        self.model.units.append(unit)
        number = len(self.model.units)

        def done(append: Append) -> None:
            assert self.model.acked == number - 1, "acknowledged out of order"
            self.model.acked = number
            unit.address = (append.file_id, append.position + at)
            if self._on_ack is not None:
                self._on_ack(number)

        return done

    def append_batch(
        self, partition: int, records: int = 1, value_bytes: int = 10, producer_id: int = -1
    ) -> None:
        batch = self._batch(partition, records, value_bytes, producer_id)
        unit = Unit((("batch", partition, bytes(batch)),), ((partition, bytes(batch)),), bytes(batch))
        place = self._place(partition, batch)
        copied = self.log.append_batch(
            partition, batch, place.base, place.last, place.max_timestamp_ms, self._done(unit)
        )
        if copied:  # then nobody needs these bytes any more
            batch[:] = bytes(len(batch))

    def append_delta(self, section: int, payload: bytes) -> None:
        self.log.append_delta(section, payload, self._done(Unit((("delta", section, payload),))))

    def append_atomic(self, partitions: list[int], payload: bytes) -> None:
        """A delta and a batch for each partition, all or none."""
        entries: list[Entry] = [DeltaEntry(7, payload)]
        replayed: list[Replayed] = [("delta", 7, payload)]
        reads = []
        for partition in partitions:
            batch = self._batch(partition, 2, 5)
            entries.append(BatchEntry(partition, batch, self._place(partition, batch)))
            replayed.append(("batch", partition, bytes(batch)))
            reads.append((partition, bytes(batch)))
        self.log.append_atomic(entries, self._done(Unit(tuple(replayed), tuple(reads))))

    def append_fan_out(self, partitions: list[int], records: int = 3) -> None:
        """One body and a link to it for each partition, in one frame."""
        body = bytes(self._batch(1 << 30, records, 20))
        entries: list[Entry] = [BodyEntry(body)]
        replayed: list[Replayed] = []
        reads = []
        for partition in partitions:
            link, read, event = self._link(partition, body, (0, 0), 0, records, ())
            entries.append(LinkEntry(partition, link, body=0))
            replayed.append(event)
            reads.append((partition, read))
        # The body's bytes begin behind the entry's head.
        self.log.append_atomic(entries, self._done(Unit(tuple(replayed), tuple(reads), body), at=12))

    def append_link(self, number: int, partition: int, first: int, records: int, headers: Headers) -> None:
        """A place for some records of the body of an acknowledged unit."""
        unit = self.model.units[number]
        link, read, event = self._link(partition, unit.body, unit.address, first, records, headers)
        done = self._done(Unit((event,), ((partition, read),)))
        self.log.append_atomic([LinkEntry(partition, link)], done)

    def _link(
        self,
        partition: int,
        body: bytes,
        address: tuple[int, int],
        first: int,
        records: int,
        headers: Headers,
    ) -> tuple[Link, bytes, Replayed]:
        base = self._ends.get(partition, 0)
        last = base + records - 1
        self._ends[partition] = last + 1
        header = read_header(body)
        if records == header.record_count and not headers and header.producer_id < 0:
            read = bytearray(body)
            place_batch(read, base, header.leader_epoch)
        else:
            read = slice_batch(body, first, records, base, headers)
        overlay = pack_overlay(Overlay(headers)) if headers else b""
        top_ms = read_header(read).max_timestamp_ms
        link = Link(base, *address, len(body), first, records, top_ms, overlay)
        return link, bytes(read), ("link", partition, base, last)

    # --- the rest ------------------------------------------------------------------------------

    def turn(self) -> None:
        self.hand.turn()

    def snapshot(self) -> None:
        """The state at the position that the log names: here, how many units it covers."""
        writer, entry = self.log.new_snapshot()
        writer.write([(SNAPSHOT_SECTION, self.model.acked.to_bytes(8, "big"))])
        self.turn()
        self.log.add_snapshot(writer, entry)
