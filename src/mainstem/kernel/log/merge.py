"""Merge finished files into runs: what still lives of them, sorted by partition and offset.

Inputs are read partition by partition, oldest file first, and never changed. What is written is synced before
anyone hears of it; the owner of the log then puts it in the place of the inputs with one manifest.

Links and bodies:
- A body whose own place lives moves with that place. One that only links name becomes a BODY frame.
- A link is written with the absolute address of its body. Where that is not known yet, its room is kept and
  filled in at the end.
- Links in files outside the merge keep the addresses they have. The run that holds a body says under which
  old addresses it is still asked for (`moved`), so that no foreign file is rewritten.
- In partitions that are compacted by key, a link becomes the batch that it reads as. Where that cannot be
  read, because a file is damaged that may lie outside, compaction holds back and the link is copied.

Partitions that are compacted go to runs of their own: compacting them again then does not rewrite the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from mainstem.kernel.log.compact import Compaction
from mainstem.kernel.log.jobs import BodyId, CompactOrder, Input, Merged, MergeJob
from mainstem.kernel.log.layout import (
    FileKind,
    Link,
    body_name,
    pack_link,
    places_name,
    run_name,
    unpack_link,
)
from mainstem.kernel.log.places import Place
from mainstem.kernel.log.reader import BodyReader
from mainstem.kernel.log.runs import RunWriter
from mainstem.kernel.log.sidecar import Sidecar, open_sidecar, place_of
from mainstem.model.batch import BATCH_OVERHEAD, LENGTH_END, MAGIC, SIGNED_FROM, read_header
from mainstem.model.errors import CorruptFile, MainstemError
from mainstem.model.ports import Buffer, Disk, File

# Places closer than this are read at once.
GAP_BYTES = 4 << 10
READ_BYTES = 1 << 20

Pace = Callable[[int], None]


def merge(disk: Disk, job: MergeJob, pace: Pace) -> Merged:
    """Write the runs; nothing is left of them if this raises. `pace` is told of bytes and may wait."""
    work = _Merge(disk, job, pace)
    try:
        return work.run()
    except BaseException:
        for out in work.outputs:
            out.abandon()
        raise


class _Found(NamedTuple):
    """A live place of an input with its bytes."""

    place: Place
    data: memoryview


class _LateLink(NamedTuple):
    out: RunWriter
    position: int
    partition: int
    link: Link
    body: BodyId


class _Merge:
    def __init__(self, disk: Disk, job: MergeJob, pace: Pace) -> None:
        self._disk = disk
        self._job = job
        self._pace = pace
        self.outputs: list[RunWriter] = []
        self._free_ids = list(reversed(job.output_ids))
        every = (*job.inputs, *job.retired, *job.outside)
        self._kinds = {entry.file_id: entry.kind for entry in every}
        self._bodies = BodyReader(self._open)
        self._inside = {entry.file_id for entry in (*job.inputs, *job.retired)}
        self._inputs = [self._sidecar(entry) for entry in job.inputs]
        # Old address -> present one, of all bodies that ever moved.
        self._moved: dict[BodyId, BodyId] = {}
        # Bodies of the inputs that links name, and under which addresses files outside do so.
        self._needed: set[BodyId] = set()
        self._asked_as: dict[BodyId, set[BodyId]] = {}
        self._located: dict[BodyId, tuple[RunWriter, int]] = {}
        self._late: list[_LateLink] = []
        # Base offsets, by compacted partition, of links that stay links.
        self._unread: dict[int, set[int]] = {}
        self._why_unread = ""
        self._read_bytes = 0
        self._kept = 0
        self._dropped = 0
        self._records_removed = 0

    def run(self) -> Merged:
        self._learn_moves()
        self._collect_needed()
        partitions = sorted({partition for sidecar in self._inputs for partition in sidecar.partitions()})
        for partition in partitions:
            if partition not in self._job.compact:
                self._copy(partition)
        for partition in partitions:
            order = self._job.compact.get(partition)
            if order is not None:
                self._compact(partition, order)
        self._write_bodies()
        self._fill_links()
        for out in self.outputs:
            out.finish()
        runs = [out.result for out in self.outputs if out.result is not None]
        return Merged(
            runs=runs,
            read_bytes=self._read_bytes,
            written_bytes=sum(run.size for run in runs),
            places_kept=self._kept,
            places_dropped=self._dropped,
            records_removed=self._records_removed,
            unread_links=sum(map(len, self._unread.values())),
            why_unread=self._why_unread,
        )

    # --- files -----------------------------------------------------------------------------------

    def _open(self, file_id: int) -> File:
        kind = self._kinds.get(file_id)
        if kind is None:
            # The job names no file without an index that can be read; bodies in there are named all the same.
            is_run = self._disk.exists(f"{self._job.folder}/{run_name(file_id)}")
            kind = FileKind.RUN if is_run else FileKind.JOURNAL
        return self._disk.open(f"{self._job.folder}/{body_name(file_id, kind)}")

    def _sidecar(self, entry: Input) -> Sidecar:
        path = f"{self._job.folder}/{places_name(entry.file_id)}"
        sidecar = open_sidecar(self._disk, path)
        if sidecar.file_id != entry.file_id or sidecar.body_file_size != entry.size:
            raise CorruptFile(path, 0, f"the sidecar belongs to another file than {entry.file_id}")
        return sidecar

    def _output(self, keyed: bool) -> RunWriter:
        """The run that is being written, or the next one."""
        out = self.outputs[-1] if self.outputs else None
        job = self._job
        if out is not None and out.keyed == keyed:
            full = out.size >= job.run_bytes or out.rows >= job.run_rows
            # The last id stays free: a class of partitions may still need its own run.
            if not full or len(self._free_ids) < 2:
                return out
        if out is not None and not out.late_links:
            out.finish()
        out = RunWriter(self._disk, job.folder, self._free_ids.pop(), keyed, job.keep_cached)
        self.outputs.append(out)
        return out

    # --- bodies that links name ------------------------------------------------------------------

    def _learn_moves(self) -> None:
        """Who names bodies of the inputs from outside, and where all bodies lie now."""
        asked = set(self._job.targets)
        retired = [self._sidecar(entry) for entry in self._job.retired]
        outside = [self._sidecar(entry) for entry in self._job.outside]
        for sidecar in outside:
            asked.update(sidecar.links)
        # Retired files first: what lives overrules them.
        for sidecar in (*retired, *outside, *self._inputs):
            for old_file, old_position, position in sidecar.moved:
                self._moved[old_file, old_position] = sidecar.file_id, position
        self._bodies.use_moved(self._moved)
        for address in asked:
            body = self._moved.get(address, address)
            if body[0] in self._inside:
                self._needed.add(body)
                self._asked_as.setdefault(body, set()).add(address)

    def _collect_needed(self) -> None:
        for sidecar in self._inputs:
            if not sidecar.link_rows:
                continue
            for partition in sidecar.partitions():
                floor = self._job.floors.get(partition, 0)
                for row in sidecar.raw_rows(partition):
                    place = place_of(sidecar.file_id, row)
                    if place.link and place.last >= floor and self._stays_link(partition, place):
                        link = self._bodies.link(place, True)
                        if link.body_file in self._inside:
                            self._needed.add((link.body_file, link.body_position))

    def _stays_link(self, partition: int, place: Place) -> bool:
        if partition not in self._job.compact:
            return True
        try:
            self._bodies.batches([place], True)
        except (MainstemError, OSError) as error:
            # Found out once, before anything is written: whoever counts records must see the same ones again.
            self._unread.setdefault(partition, set()).add(place.base)
            self._why_unread = self._why_unread or str(error)
            return True
        return False

    def _note(self, body: BodyId, out: RunWriter, position: int) -> None:
        if body in self._needed:
            self._located[body] = out, position
            for address in self._asked_as.get(body, ()):
                out.moved.add((*address, position))

    def _write_bodies(self) -> None:
        for body in sorted(self._needed - self._located.keys()):
            batch = self._read_body(body)
            out = self._output(keyed=self.outputs[-1].keyed if self.outputs else False)
            self._note(body, out, out.add_body(batch))
            self._pace(len(batch))

    def _read_body(self, body: BodyId) -> bytes:
        file = self._bodies.file(body[0])
        head = file.pread(BATCH_OVERHEAD, body[1])
        if len(head) == BATCH_OVERHEAD:
            header = read_header(head)
            if header.magic == MAGIC and header.length + LENGTH_END >= BATCH_OVERHEAD:
                batch = file.pread(header.size, body[1])
                if len(batch) == header.size and crc32c(memoryview(batch)[SIGNED_FROM:]) == header.crc:
                    return batch
        raise CorruptFile(file.path, body[1], "a linked body does not match its crc")

    def _fill_links(self) -> None:
        for late in self._late:
            out, position = self._located[late.body]
            self._put_link(late.out, late.position, late.partition, late.link, (out.file_id, position))

    def _put_link(self, out: RunWriter, position: int, partition: int, link: Link, body: BodyId) -> None:
        link = link._replace(body_file=body[0], body_position=body[1])
        out.put_link(position, partition, pack_link(link), body)

    # --- partitions as they are ------------------------------------------------------------------

    def _copy(self, partition: int) -> None:
        for place, data in self._live(partition):
            out = self._output(keyed=False)
            if place.link:
                self._copy_link(out, partition, place, data)
            else:
                top_ms = self._checked(place, data)
                position = out.add_batch(partition, place.base, place.last, top_ms, data)
                self._note((place.file_id, place.position), out, position)
            self._pace(place.size)

    def _copy_link(self, out: RunWriter, partition: int, place: Place, data: memoryview) -> None:
        link = unpack_link(data)
        if link is None or link.base_offset != place.base:
            path = self._bodies.file(place.file_id).path
            raise CorruptFile(path, place.position, f"the link at offset {place.base} is damaged")
        if link.body_file:
            address = link.body_file, link.body_position
        else:
            address = place.file_id, place.position - link.body_position
        body = self._moved.get(address, address)
        at = out.reserve_link(partition, place.base, place.last, link.max_timestamp_ms, place.size)
        if body[0] not in self._inside:
            self._put_link(out, at, partition, link, body)
        elif body in self._located:
            home, position = self._located[body]
            self._put_link(out, at, partition, link, (home.file_id, position))
        else:
            self._late.append(_LateLink(out, at, partition, link, body))
            out.late_links = True

    def _live(self, partition: int) -> Iterator[_Found]:
        """Live places of a partition in offset order, with their bytes."""
        floor = self._job.floors.get(partition, 0)
        for sidecar in self._inputs:
            wanted: list[Place] = []
            start = end = 0
            for row in sidecar.raw_rows(partition):
                _, _, base, position, size, delta, _ = row
                if base + delta < floor:
                    self._dropped += 1
                    continue
                self._kept += 1
                if wanted and not (end <= position <= end + GAP_BYTES and position - start < READ_BYTES):
                    yield from self._read(wanted, start, end - start)
                    wanted = []
                if not wanted:
                    start = position
                end = position + size
                wanted.append(place_of(sidecar.file_id, row))
            if wanted:
                yield from self._read(wanted, start, end - start)

    def _read(self, places: list[Place], start: int, size: int) -> Iterator[_Found]:
        file = self._bodies.file(places[0].file_id)
        data = file.pread(size, start)
        if len(data) != size:
            raise CorruptFile(file.path, start, f"the file ends within {size} bytes that are indexed here")
        self._read_bytes += size
        self._pace(size)
        view = memoryview(data)
        for place in places:
            at = place.position - start
            yield _Found(place, view[at : at + place.size])

    def _checked(self, place: Place, data: memoryview) -> int:
        """The greatest timestamp of a batch that is what the index says."""
        header = read_header(data)
        if (
            crc32c(data[SIGNED_FROM:]) == header.crc
            and header.base_offset == place.base
            and header.length + LENGTH_END == place.size
            and header.magic == MAGIC
            and place.epoch in (-1, header.leader_epoch)
        ):
            return header.max_timestamp_ms
        path = self._bodies.file(place.file_id).path
        raise CorruptFile(path, place.position, f"the batch at offset {place.base} is damaged")

    # --- partitions that are compacted by key ----------------------------------------------------

    def _compact(self, partition: int, order: CompactOrder) -> None:
        compaction = Compaction(order, self._job.now_ms, self._job.max_keys)
        unread = self._unread.get(partition, set())
        if unread:
            compaction.hold_back(min(unread))
        kept, dropped = self._kept, self._dropped
        compaction.study(
            lambda: (self._batch(*one) for one in self._live(partition) if one.place.base not in unread)
        )
        self._kept, self._dropped = kept, dropped
        for place, data in self._live(partition):
            if place.base in unread:
                self._copy_link(self._output(keyed=True), partition, place, data)
                self._pace(place.size)
                continue
            batch = self._batch(place, data)
            left = compaction.clean(batch)
            if left is None:
                self._kept -= 1
                self._dropped += 1
                continue
            out = self._output(keyed=True)
            top_ms = read_header(left).max_timestamp_ms
            position = out.add_batch(partition, place.base, place.last, top_ms, left)
            if left is batch and not place.link:
                self._note((place.file_id, place.position), out, position)
            self._pace(len(left))
        self._records_removed += compaction.records_removed

    def _batch(self, place: Place, data: memoryview) -> Buffer:
        if place.link:
            return self._bodies.batches([place], True)[0]
        self._checked(place, data)
        return data
