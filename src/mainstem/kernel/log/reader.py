"""Read the bytes of places, and believe none that does not match its crc."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from fastcrc.crc32 import iscsi as crc32c

from mainstem.kernel.log.layout import Link, unpack_link, unpack_overlay
from mainstem.kernel.log.places import Place, WouldBlock
from mainstem.kernel.log.sound import LARGE_SLICE, SoundBytes
from mainstem.model.batch import BATCH_OVERHEAD, LENGTH_END, MAGIC, BatchHeader, place_batch, read_header
from mainstem.model.errors import CorruptFile
from mainstem.model.ports import BLOCK_BYTES, READ_STEP, Buffer, File
from mainstem.model.records import slice_batch
from mainstem.model.slices import Chunk, FileSlice

# The part of a batch header that a reader checks: base offset 8 | length 4 | epoch 4 | magic 1 | crc 4.
# The crc covers what follows it.
_CHECKED = Struct(">qiibI")
_SIGNED_FROM = 21
# Places that lie close together are read at once if at most this share of the bytes read is wanted by nobody.
_WASTE = 0.5
# Batches at most so far apart are looked for in memory together: between them lies the head of a frame.
NEAR = 4096
# When the disk is needed it is asked for all of a step if at least this share of it is wanted, and otherwise
# for so many batches, each where it lies.
_DENSE, _AHEAD = 1 / 32, 16

BodyId = tuple[int, int]


class BodyReader:
    """Knows the open files and where moved bodies went; turns places into batches."""

    def __init__(self, open_body: Callable[[int], File]) -> None:
        self._open_body = open_body
        self._files: dict[int, File] = {}
        self._moved: dict[BodyId, BodyId] = {}
        self.moves = 0  # so often places may have come to lie elsewhere
        # Files that were forgotten: a late reader on another thread must not keep one open for good.
        self._gone: set[int] = set()
        self._sound = SoundBytes()

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
        self.moves += 1
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

    def open_file(self, file_id: int) -> File | None:
        """If it is open and not forgotten."""
        return self._files.get(file_id)

    def mark(self) -> int:
        """As long as it is the same nothing that was sound has been doubted."""
        return self._sound.mark()

    def is_sound(self, file_id: int, start: int, end: int) -> bool:
        """Whether the batch that lies there may be sent unread."""
        return self._sound.end_of(file_id, start) >= end

    def is_in_memory(self, file_id: int, start: int, end: int) -> bool:
        """If not, what lies there is doubted from now on."""
        return not self._doubt_missing(file_id, end - start, start)

    def chunks(self, places: list[Place], max_bytes: int = 1 << 62) -> tuple[list[Chunk], int]:
        """For sending, without waiting: what is known to be sound is not even read. And how many of the
        places that was: links among them may lead to more than fits.

        Batches that lie one behind the other are one chunk.
        """
        found: list[Chunk] = []
        done = at = 0  # places before `done` are in `found`; from there to `at` they have to be read
        while (row := _next_large(places, at)) is not None:
            at = row[0]
            file_id = places[at].file_id
            cuts, after = self._sound_cuts(places, *row)
            if not cuts or self._doubt_missing(file_id, sum(cuts[-1]) - cuts[0][0], cuts[0][0]):
                at = after
                continue
            if done < at:
                done += self._read_on(found, places[done:at], max_bytes)
            if done < at or (found and sum(map(len, found)) >= max_bytes):
                return found, done
            file = self.file(file_id)
            for position, size in cuts:
                found.append(FileSlice(file, position, size))
            done = at = after
            if done == len(places):
                return found, done
        return found, done + self._read_on(found, places[done:], max_bytes)

    def _sound_cuts(self, places: list[Place], at: int, after: int) -> tuple[list[tuple[int, int]], int]:
        """(position, size) of stretches that need no reading: of the places from `at` to before `after`, and
        of those that follow closely in the same file. And the index after their places."""
        cuts: list[tuple[int, int]] = []
        file_id, end = places[at].file_id, places[at].position
        done = after
        while True:
            start, last = places[at].position, places[after - 1]
            if not 0 <= start - end <= NEAR:
                break
            end = last.position + last.size
            if end - start < LARGE_SLICE or self._sound.end_of(file_id, start) < end:
                break
            cuts.append((start, end - start))
            done = at = after
            if at == len(places) or places[at].link or places[at].file_id != file_id:
                break
            after = _after_adjacent(places, at)
        return cuts, done

    def _read_on(self, found: list[Chunk], places: list[Place], max_bytes: int) -> int:
        """Add what has to be read; how many of the places fitted."""
        try:
            more, count = self._read_places(places, False, max_bytes - sum(map(len, found)), True)
        except CorruptFile:
            if found:
                return 0
            raise
        found += more
        return count

    def batches(self, places: list[Place], wait: bool, max_bytes: int = 1 << 62) -> list[Buffer]:
        """One buffer per place, in order. With wait=False raises WouldBlock rather than wait for the disk.

        The answer ends where one is damaged; CorruptFile if that is the first.
        A link's place has the size of the link. What it leads to is known when it is read: with links the
        answer ends at the one that reaches max_bytes.
        """
        return self._read_places(places, wait, max_bytes, False)[0]

    def joined(self, places: list[Place], max_bytes: int = 1 << 62) -> tuple[list[Chunk], int]:
        """As `chunks`, but all of it is read, and waited for. May run in any thread."""
        found: list[Chunk] = []
        more, count = self._read_places(places, True, max_bytes, True)
        found += more
        return found, count

    def _read_places(
        self, places: list[Place], wait: bool, max_bytes: int, join: bool
    ) -> tuple[list[Buffer], int]:
        found: list[Buffer] = []
        index = total = 0
        announced = 0  # of the places: the disk knows that they are wanted
        while index < len(places) and total < max_bytes:
            first = places[index]
            if wait and index >= announced:
                announced = self._announce(places, index)
            if first.link:
                try:
                    found.append(self._linked(first, wait))
                except CorruptFile:
                    if found:
                        break
                    raise
                total += len(found[-1])
                index += 1
                continue
            end, wanted, stretch = _read_at_once(places, index)
            together = places[index:end]
            try:
                data, mark = self._read(first.file_id, first.position, stretch, wait)
                view = memoryview(data)
                sound = self._check(view, first.position, together, mark)
            except CorruptFile:
                if found:
                    break  # whoever reads on from here is told
                raise
            if sound < len(together):  # up to the damage, and no further
                together = together[:sound]
                end, max_bytes = index + sound, 0
                wanted = sum(place.size for place in together)
                stretch = together[-1].position + together[-1].size - first.position
                view = view[:stretch]
            if join and wanted == stretch:
                found.append(view)
            else:
                starts = [place.position - first.position for place in together]
                found += [
                    view[start : start + place.size] for start, place in zip(starts, together, strict=True)
                ]
            total += wanted
            index = end
        return found, index

    def _announce(self, places: list[Place], start: int) -> int:
        """Small batches are asked for several at once: one by one they would take the disk a turn each.
        Returns the index after those of which that was decided."""
        first = places[start]
        file_id, end = first.file_id, first.position + READ_STEP
        after, wanted = start, 0
        while after < len(places):
            place = places[after]
            if place.file_id != file_id or not first.position <= place.position < end:
                break
            after += 1
            wanted += place.size
        if first.size < wanted and wanted >= READ_STEP * _DENSE:
            self._will_need(file_id, READ_STEP, first.position)
            return after
        after, wanted = start + 1, first.size
        for place in places[after : start + _AHEAD]:
            wanted += place.size
            if wanted > READ_STEP:
                break
            after += 1
        if after - start > 1:
            for place in places[start:after]:
                self._will_need(place.file_id, place.size, place.position)
        return after

    def _will_need(self, file_id: int, size: int, position: int) -> None:
        if self._doubt_missing(file_id, size, position):
            self.file(file_id).will_need(size, position)

    def header(self, place: Place, wait: bool = True) -> BatchHeader:
        """Of a batch that the index names, without the rest of it."""
        header = read_header(self._read(place.file_id, place.position, BATCH_OVERHEAD, wait)[0])
        if header.base_offset != place.base or header.size != place.size or header.magic != MAGIC:
            path = self.file(place.file_id).path
            raise CorruptFile(path, place.position, f"the batch at offset {place.base} is not the one named")
        return header

    def _read(self, file_id: int, position: int, size: int, wait: bool) -> tuple[bytes, int]:
        """And a mark of when that began, for what is sound."""
        file = self.file(file_id)
        if wait:
            # What comes from the disk has to be checked, whatever was known of it.
            self._doubt_missing(file_id, size, position)
        mark = self._sound.mark()
        data = file.pread(size, position) if wait else file.pread_cached(size, position)
        if data is None:
            self._doubt_missing(file_id, size, position)
            raise WouldBlock
        if len(data) != size:
            raise CorruptFile(file.path, position, f"the file ends within {size} bytes that are indexed here")
        return data, mark

    def _doubt_missing(self, file_id: int, size: int, position: int) -> bool:
        """Whether some of these bytes are not in memory. Then none of their blocks is believed, but for the
        first and the last if they are there: they belong to what lies beside, too."""
        file = self.file(file_id)
        if file.is_cached(size, position):
            return False
        last = position + size - 1
        first_block = position // BLOCK_BYTES + file.is_cached(1, position)
        after_block = last // BLOCK_BYTES + 1 - file.is_cached(1, last)
        self._sound.doubt(file_id, first_block * BLOCK_BYTES, after_block * BLOCK_BYTES)
        return True

    def _check(self, data: memoryview, origin: int, places: list[Place], mark: int) -> int:
        """How many of the places lead to the batch that the index names, before one that does not; raises if
        it is the first. `data` is of the places' file, from `origin` on.

        One loop without a call for each: a reader of small batches spends much of its time here.
        """
        unpack, sound, file_id = _CHECKED.unpack_from, self._sound, places[0].file_id
        begin = reached = origin
        sound_places = len(places)
        for at, (_, base, _, position, size, _, epoch) in enumerate(places):
            start = position - origin
            found_base, length, found_epoch, magic, crc = unpack(data, start)
            bad_crc = crc32c(data[start + _SIGNED_FROM : start + size]) != crc
            if (
                bad_crc
                or found_base != base
                or length + LENGTH_END != size
                or magic != MAGIC
                or (epoch != found_epoch and epoch != -1)
            ):
                if at == 0:
                    why = "does not match its crc" if bad_crc else "is not the one that the index names"
                    raise self._corrupt(file_id, position, base, why)
                sound_places = at
                break
            if position != reached:
                sound.note(mark, file_id, begin, reached)
                begin = position
            reached = position + size
        sound.note(mark, file_id, begin, reached)
        return sound_places

    def _corrupt(self, file_id: int, position: int, base: int, why: str) -> CorruptFile:
        return CorruptFile(self.file(file_id).path, position, f"the batch at offset {base} {why}")

    # --- links ---------------------------------------------------------------------------------

    def link(self, place: Place, wait: bool) -> Link:
        """The link at a place, with its body's present address."""
        link = unpack_link(self._read(place.file_id, place.position, place.size, wait)[0])
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
        body = memoryview(self._read(link.body_file, link.body_position, link.body_size, wait)[0])
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


def _next_large(places: list[Place], start: int) -> tuple[int, int] | None:
    """The first row of places, from `start` on, that lie one behind the other and are large enough to be sent
    from their file: its index and the one after it."""
    first, first_position, file_id, end = start, -1, -1, -1
    for at in range(start, len(places)):
        next_file, _, _, position, size, link, _ = places[at]
        if position != end or link or next_file != file_id:
            if end - first_position >= LARGE_SLICE:
                return first, at
            first, first_position, file_id = at, position, next_file
            if link:  # it stands alone
                end = file_id = first_position = -1
                continue
        end = position + size
    return (first, len(places)) if end - first_position >= LARGE_SLICE else None


def _after_adjacent(places: list[Place], start: int) -> int:
    """The index after those that lie one behind the other from `start` on, which is no link."""
    file_id, _, _, position, size, _, _ = places[start]
    end = position + size
    for at in range(start + 1, len(places)):
        next_file, _, _, position, size, link, _ = places[at]
        if position != end or link or next_file != file_id:
            return at
        end += size
    return len(places)


def _read_at_once(places: list[Place], start: int) -> tuple[int, int, int]:
    """The index after those from `start` on that are worth one read, the bytes wanted, those to be read."""
    file_id, _, _, origin, size, _, _ = places[start]
    wanted = stretch = size
    for at in range(start + 1, len(places)):
        next_file, _, _, position, size, link, _ = places[at]
        reach = position + size - origin
        if link or next_file != file_id or position < origin + stretch or wanted + size < reach * _WASTE:
            return at, wanted, stretch
        wanted += size
        stretch = reach
    return len(places), wanted, stretch
