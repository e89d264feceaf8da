"""Read the bytes of places, and believe none that does not match its crc."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from struct import Struct

from fastcrc.crc32 import iscsi as crc32c

from mainstem.kernel.log.layout import Link, unpack_link, unpack_overlay
from mainstem.kernel.log.places import Place, WouldBlock
from mainstem.kernel.log.sound import LARGE_BATCH, SoundBatches
from mainstem.model.batch import BATCH_OVERHEAD, LENGTH_END, MAGIC, BatchHeader, place_batch, read_header
from mainstem.model.errors import CorruptFile
from mainstem.model.ports import Buffer, File
from mainstem.model.records import slice_batch
from mainstem.model.slices import Chunk, FileSlice

# The part of a batch header that a reader checks: base offset 8 | length 4 | epoch 4 | magic 1 | crc 4.
# The crc covers what follows it.
_CHECKED = Struct(">qiibI")
_SIGNED_FROM = 21
# Places that lie close together are read at once if at most this share of the bytes read is wanted by nobody.
_WASTE = 0.5
# When the disk is needed it is asked for so much at once, if at least this share of it is wanted.
_WINDOW, _DENSE = 512 << 10, 1 / 32
# Batches at most so far apart are asked for together: what lies between them is the head of a frame.
_NEAR = 4096

BodyId = tuple[int, int]


class BodyReader:
    """Knows the open files and where moved bodies went; turns places into batches."""

    def __init__(self, open_body: Callable[[int], File]) -> None:
        self._open_body = open_body
        self._files: dict[int, File] = {}
        self._moved: dict[BodyId, BodyId] = {}
        # Files that were forgotten: a late reader on another thread must not keep one open for good.
        self._gone: set[int] = set()
        self._sound = SoundBatches()

    def use(self, file_id: int, file: File) -> None:
        """A file that is open already."""
        self._files[file_id] = file

    def use_written(self, file_id: int, file: File, position: int) -> None:
        """A file that is open and from `position` on written by this process, with batches it has checked."""
        self.use(file_id, file)
        self._sound.written_from(file_id, position)

    def forget(self, file_id: int) -> None:
        """The descriptor closes itself once the last read that holds it is over."""
        self._gone.add(file_id)
        self._files.pop(file_id, None)
        self._sound.forget(file_id)

    def distrust(self, file_id: int) -> None:
        """Some of this file leaves memory: none of its batches is sent before it was checked again."""
        self._sound.forget(file_id)

    def use_moved(self, moved: dict[BodyId, BodyId]) -> None:
        """Where bodies that were written elsewhere lie now; replaces what was known before."""
        self._moved = moved

    def current(self, body: BodyId) -> BodyId:
        return self._moved.get(body, body)

    def file(self, file_id: int) -> File:
        file = self._files.get(file_id)
        if file is None:
            try:
                file = self._files[file_id] = self._open_body(file_id)
            except FileNotFoundError as error:
                raise CorruptFile(str(error.filename), 0, "a file that is read from is missing") from None
            if file_id in self._gone:
                self._files.pop(file_id, None)
        return file

    def chunks(self, places: list[Place], max_bytes: int = 1 << 62) -> list[Chunk]:
        """As `batches` without waiting, but a large batch that is known to be sound is not even read.

        A slice stands for exactly one batch. On the owner's thread only.
        """
        found: list[Chunk] = []
        unread: list[Place] = []
        at = 0
        while at < len(places):
            run = self._sound_run(places, at)
            if run and self._is_cached(run):
                if not self._read_on(found, unread, max_bytes):
                    return found
                unread = []
                file = self.file(run[0].file_id)
                found += [FileSlice(file, place.position, place.size) for place in run]
                at += len(run)
                continue
            unread.append(places[at])
            at += 1
        self._read_on(found, unread, max_bytes)
        return found

    def _read_on(self, found: list[Chunk], unread: list[Place], max_bytes: int) -> bool:
        """Add what has to be read; False if links among it led to more than fits."""
        if not unread:
            return True
        read = self.batches(unread, False, max_bytes - sum(map(len, found)))
        found += read
        return len(read) == len(unread)

    def _sound_run(self, places: list[Place], start: int) -> list[Place]:
        """Those from `start` on that lie one after the other and need no reading; none if the first does."""
        run: list[Place] = []
        file_id, end = places[start].file_id, places[start].position
        for place in islice(places, start, None):
            near = place.file_id == file_id and 0 <= place.position - end <= _NEAR
            if not near or place.size < LARGE_BATCH or place.link or not self._sound.holds(place):
                break
            run.append(place)
            end = place.position + place.size
        return run

    def _is_cached(self, run: list[Place]) -> bool:
        first, last = run[0], run[-1]
        size = last.position + last.size - first.position
        if self.file(first.file_id).is_cached(size, first.position):
            return True
        self._sound.forget(first.file_id)
        return False

    def batches(self, places: list[Place], wait: bool, max_bytes: int = 1 << 62) -> list[Buffer]:
        """One buffer per place, in order. With wait=False raises WouldBlock rather than wait for the disk.

        A link's place has the size of the link. What it leads to is known when it is read: with links the
        answer ends at the one that reaches max_bytes.
        """
        found: list[Buffer] = []
        index = total = 0
        announced = (0, 0)  # file and position up to where the disk knows what is wanted
        while index < len(places) and total < max_bytes:
            first = places[index]
            if wait and (first.file_id, first.position) >= announced:
                announced = self._announce(places, index)
            if first.link:
                found.append(self._linked(first, wait))
                total += len(found[-1])
                index += 1
                continue
            end = index + 1
            wanted = stretch = first.size
            while end < len(places):
                place = places[end]
                reach = place.position + place.size - first.position
                if place.link or place.file_id != first.file_id or place.position < first.position + stretch:
                    break
                if (wanted + place.size) < reach * _WASTE:
                    break
                wanted += place.size
                stretch = reach
                end += 1
            view = memoryview(self._read(first.file_id, first.position, stretch, wait))
            for place in places[index:end]:
                start = place.position - first.position
                found.append(self._checked(view[start : start + place.size], place))
            total += wanted
            index = end
        return found

    def _announce(self, places: list[Place], start: int) -> tuple[int, int]:
        """Small batches that lie close together are asked for at once: one by one they would take the disk a
        turn each. Returns file and position up to where that was decided."""
        first = places[start]
        file_id, end = first.file_id, first.position + _WINDOW
        wanted = 0
        for place in islice(places, start, None):
            if place.file_id != file_id or not first.position <= place.position < end:
                break
            wanted += place.size
        if first.size < wanted and wanted >= _WINDOW * _DENSE:
            self.file(file_id).will_need(_WINDOW, first.position)
        return file_id, end

    def header(self, place: Place, wait: bool = True) -> BatchHeader:
        """Of a batch that the index names, without the rest of it."""
        header = read_header(self._read(place.file_id, place.position, BATCH_OVERHEAD, wait))
        if header.base_offset != place.base or header.size != place.size or header.magic != MAGIC:
            path = self.file(place.file_id).path
            raise CorruptFile(path, place.position, f"the batch at offset {place.base} is not the one named")
        return header

    def _read(self, file_id: int, position: int, size: int, wait: bool) -> bytes:
        file = self.file(file_id)
        data = file.pread(size, position) if wait else file.pread_cached(size, position)
        if data is None:
            raise WouldBlock
        if len(data) != size:
            raise CorruptFile(file.path, position, f"the file ends within {size} bytes that are indexed here")
        return data

    def _checked(self, batch: memoryview, place: Place) -> memoryview:
        base, length, epoch, magic, crc = _CHECKED.unpack_from(batch)
        if crc32c(batch[_SIGNED_FROM:]) != crc:
            why = "does not match its crc"
        elif (
            base != place.base
            or length + LENGTH_END != place.size
            or magic != MAGIC
            or place.epoch not in (-1, epoch)
        ):
            why = "is not the one that the index names"
        else:
            if place.size >= LARGE_BATCH:
                self._sound.note(place)
            return batch
        path = self.file(place.file_id).path
        raise CorruptFile(path, place.position, f"the batch at offset {place.base} {why}")

    # --- links ---------------------------------------------------------------------------------

    def link(self, place: Place, wait: bool) -> Link:
        """The link at a place, with its body's present address."""
        link = unpack_link(self._read(place.file_id, place.position, place.size, wait))
        if link is None or link.base_offset != place.base:
            path = self.file(place.file_id).path
            raise CorruptFile(path, place.position, f"the link at offset {place.base} is damaged")
        if link.body_file == 0:
            body = (place.file_id, place.position - link.body_position)
        else:
            body = (link.body_file, link.body_position)
        file_id, position = self.current(body)
        return link._replace(body_file=file_id, body_position=position)

    def _linked(self, place: Place, wait: bool) -> Buffer:
        link = self.link(place, wait)
        body = memoryview(self._read(link.body_file, link.body_position, link.body_size, wait))
        header = read_header(body)
        sound = header.size == link.body_size and header.magic == MAGIC
        if not sound or crc32c(body[_SIGNED_FROM:]) != header.crc:
            path = self.file(link.body_file).path
            raise CorruptFile(path, link.body_position, "a linked body does not match its crc")
        whole = link.first == 0 and link.records == header.record_count == header.last_offset_delta + 1
        if whole and not link.overlay and header.producer_id < 0:
            copy = bytearray(body)
            place_batch(copy, link.base_offset, link.leader_epoch)
            return copy
        headers = unpack_overlay(link.overlay).headers
        return slice_batch(
            body, link.first, link.records, link.base_offset, headers, leader_epoch=link.leader_epoch
        )
