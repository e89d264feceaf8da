"""The sidecar of a finished file: its places on disk, sorted by partition and offset.

    0      32          96
    +------+-----------+-----------+---------~---+----------~+-----------~+
    | head | summary   | directory | row blocks  | links     | moved      |
    +------+-----------+-----------+---------~---+----------~+-----------~+

- summary: counts of everything, the crc of directory, links and moved, and its own.
- directory: one entry per partition; it is what stays in memory while the file lives.
- row blocks: 4096 bytes each: 102 rows of 40 bytes and, at the end, their crc; read when needed.
- links: bodies (file, position) in other files that links in this file name; a merge must keep those alive.
- moved: where bodies that links may name went to: (old file, old position, new position).

Numbers are little-endian: whole columns are loaded at once.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from struct import Struct

from fastcrc.crc32 import iscsi as crc32c

from mainstem.kernel.log.layout import FILE_HEAD, FileKind, check_file_head, file_head
from mainstem.kernel.log.places import Place, Span, WouldBlock, new_tuple
from mainstem.model.errors import CorruptFile
from mainstem.model.ports import Disk, File

# rows 8 | partitions 4 | links 4 | moved 4 | crc of directory 4 | of links 4 | of moved 4 | body file size 8
# | rows that are links 8 | reserved 12 | crc 4
SUMMARY = Struct("<QIIIIIIQQ12xI")
SUMMARY_AT = FILE_HEAD.size
DIRECTORY_AT = SUMMARY_AT + SUMMARY.size
# partition | first row | rows | first offset | last offset | greatest timestamp | bytes
DIRECTORY = Struct("<IIIqqqq")
# partition | flags | base offset | position | size | last offset - base offset | running max timestamp
ROW = Struct("<IIqqIIq")
ROWS_PER_BLOCK = 102
BLOCK_BYTES = 4096
BLOCK_CRC = Struct("<I")
LINK_TARGET = Struct("<QQ")
MOVED = Struct("<QQQ")
FLAG_LINK = 1
# The upper 24 bits of a row's flags: leader epoch + 1, or 0 when it is not known.
EPOCH_SHIFT = 8
EPOCHS = 1 << 24
MAX_STOPS = 1024  # places where readers stopped that are remembered
# Blocks kept in memory per file: enough that a reader that walks on does not read a block twice.
CACHED_BLOCKS = 32


class SidecarWriter:
    """Builds a sidecar from rows that come sorted by (partition, offset)."""

    def __init__(self, file_id: int) -> None:
        self.file_id = file_id
        self._directory = bytearray()
        self._blocks = bytearray()
        self._block = bytearray()
        self._rows = 0
        self._link_rows = 0
        self._partition = -1
        self._entry: list[int] = []

    def add(self, partition: int, place: Place, max_timestamp_ms: int) -> None:
        if partition != self._partition:
            self._end_partition()
            self._partition = partition
            self._entry = [partition, self._rows, 0, place.base, place.last, max_timestamp_ms, 0]
        entry = self._entry
        entry[2] += 1
        entry[4] = place.last
        entry[5] = max(entry[5], max_timestamp_ms)
        entry[6] += place.size
        flags = FLAG_LINK if place.link else 0
        if place.epoch + 1 < EPOCHS:
            flags |= (place.epoch + 1) << EPOCH_SHIFT
        self._block += ROW.pack(
            partition, flags, place.base, place.position, place.size, place.last - place.base, entry[5]
        )
        self._rows += 1
        self._link_rows += place.link
        if len(self._block) == ROWS_PER_BLOCK * ROW.size:
            self._end_block()

    def write(
        self,
        disk: Disk,
        path: str,
        body_file_size: int,
        links: Iterable[tuple[int, int]] = (),
        moved: Iterable[tuple[int, int, int]] = (),
    ) -> None:
        self._end_partition()
        if self._block:
            self._end_block()
        link_bytes = b"".join(LINK_TARGET.pack(*link) for link in sorted(set(links)))
        moved_bytes = b"".join(MOVED.pack(*entry) for entry in sorted(set(moved)))
        summary = SUMMARY.pack(
            self._rows,
            len(self._directory) // DIRECTORY.size,
            len(link_bytes) // LINK_TARGET.size,
            len(moved_bytes) // MOVED.size,
            crc32c(bytes(self._directory)),
            crc32c(link_bytes),
            crc32c(moved_bytes),
            body_file_size,
            self._link_rows,
            0,
        )[:-4]
        summary += crc32c(summary).to_bytes(4, "little")
        head = file_head(FileKind.PLACES, self.file_id)
        file = disk.open(f"{path}.new", create=True)
        try:
            file.truncate(0)
            file.pwritev([head, summary, self._directory, self._blocks, link_bytes, moved_bytes], 0)
            file.fsync()
        finally:
            file.close()
        disk.rename(f"{path}.new", path)
        disk.sync_folder(path.rsplit("/", 1)[0])

    def _end_partition(self) -> None:
        if self._entry:
            self._directory += DIRECTORY.pack(*self._entry)

    def _end_block(self) -> None:
        block = self._block.ljust(BLOCK_BYTES - BLOCK_CRC.size, b"\0")
        self._blocks += block + BLOCK_CRC.pack(crc32c(bytes(block)))
        self._block = bytearray()


class Sidecar:
    """A sidecar in use: the directory in memory, rows by block from disk."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.path = file.path
        # Part of it could not be read: upkeep makes it again. Whoever finds out says so, on any thread.
        self.damaged = False
        self.file_id = check_file_head(file.pread(FILE_HEAD.size, 0), FileKind.PLACES, file.path)
        summary = file.pread(SUMMARY.size, SUMMARY_AT)
        if len(summary) < SUMMARY.size or crc32c(summary[:-4]) != int.from_bytes(summary[-4:], "little"):
            raise CorruptFile(file.path, SUMMARY_AT, "the summary does not match its crc")
        rows, count, links, moved, directory_crc, links_crc, moved_crc, *rest, _ = SUMMARY.unpack(summary)
        self.body_file_size, self.link_rows = rest
        self.row_count = rows
        self._rows_at = DIRECTORY_AT + count * DIRECTORY.size
        blocks = -(-rows // ROWS_PER_BLOCK)
        links_at = self._rows_at + blocks * BLOCK_BYTES
        directory = self._section(DIRECTORY_AT, count * DIRECTORY.size, directory_crc, "directory")
        self._load_directory(directory)
        self._links = links_at, links * LINK_TARGET.size, links_crc
        moved_at = links_at + links * LINK_TARGET.size
        self.moved: list[tuple[int, int, int]] = [
            (old_file, old_position, position)
            for old_file, old_position, position in MOVED.iter_unpack(
                self._section(moved_at, moved * MOVED.size, moved_crc, "moved bodies")
            )
        ]
        if file.size() != moved_at + moved * MOVED.size:
            raise CorruptFile(file.path, file.size(), "the sidecar has the wrong length")
        self._cache: dict[int, bytes] = {}
        # By index of the partition and offset: the row with which a reader goes on that stopped there.
        self._stops: dict[tuple[int, int], int] = {}

    @property
    def links(self) -> list[tuple[int, int]]:
        """Bodies in other files that links in this one name; read from disk, since only a merge asks."""
        return list(LINK_TARGET.iter_unpack(self._section(*self._links, "links")))

    def _section(self, at: int, size: int, crc: int, what: str) -> bytes:
        data = self._file.pread(size, at) if size else b""
        if len(data) != size or crc32c(data) != crc:
            self.damaged = True
            raise CorruptFile(self.path, at, f"the {what} of the sidecar does not match its crc")
        return data

    def _load_directory(self, data: bytes) -> None:
        columns = list(zip(*DIRECTORY.iter_unpack(data), strict=True)) or [()] * 7
        self._partitions = array("I", columns[0])
        self._first_row = array("I", columns[1])
        self._row_counts = array("I", columns[2])
        self._first = array("q", columns[3])
        self._last = array("q", columns[4])
        self._top_ms = array("q", columns[5])
        self._bytes = array("q", columns[6])

    @property
    def partition_count(self) -> int:
        return len(self._partitions)

    def partitions(self) -> list[int]:
        return list(self._partitions)

    def _index(self, partition: int) -> int:
        index = bisect_left(self._partitions, partition)
        found = index < len(self._partitions) and self._partitions[index] == partition
        return index if found else -1

    def span(self, partition: int) -> Span | None:
        index = self._index(partition)
        if index < 0:
            return None
        return new_tuple(
            Span, (self._first[index], self._last[index], self._top_ms[index], self._bytes[index])
        )

    def find(self, partition: int, offset: int, max_bytes: int, wait: bool = True) -> list[Place]:
        index = self._index(partition)
        if index < 0 or self._last[index] < offset:
            return []
        first = self._first_row[index]
        end = first + self._row_counts[index]

        def last_offset(row: int) -> int:
            fields = self._row(row, wait)
            return int(fields[2] + fields[5])

        # Readers walk forward: most go on where one stopped.
        row = self._stops.get((index, offset), -1)
        if row < 0:
            row = bisect_left(range(end), offset, lo=first, key=last_offset)
        found: list[Place] = []
        total = 0
        file_id = self.file_id
        # What `place_of` does, without a call for each row: readers of small batches pass here often.
        while row < end and (not found or total < max_bytes):
            for _, flags, base, position, size, delta, _ in self._rows_from(row, end, wait):
                epoch = (flags >> EPOCH_SHIFT) - 1
                link = bool(flags & FLAG_LINK)
                found.append(new_tuple(Place, (file_id, base, base + delta, position, size, link, epoch)))
                total += size
                row += 1
                if total >= max_bytes:
                    break
        if len(self._stops) >= MAX_STOPS:
            self._stops.clear()
        # The last one may be too much for this reader, who then begins with it.
        if len(found) > 1:
            self._stops[index, found[-2].last + 1] = row - 1
        self._stops[index, found[-1].last + 1] = row
        return found

    def find_time(self, partition: int, timestamp_ms: int, wait: bool = True) -> Place | None:
        index = self._index(partition)
        if index < 0 or self._top_ms[index] < timestamp_ms:
            return None
        first = self._first_row[index]
        end = first + self._row_counts[index]
        row = bisect_left(range(end), timestamp_ms, lo=first, key=lambda at: self._row(at, wait)[6])
        return self._place(self._row(row, wait))

    def rows(self, partition: int) -> list[tuple[Place, int]]:
        """All places of a partition with their running maximum timestamp; reads the disk."""
        index = self._index(partition)
        if index < 0:
            return []
        first = self._first_row[index]
        found = (self._row(row, True) for row in range(first, first + self._row_counts[index]))
        return [(self._place(fields), fields[6]) for fields in found]

    def raw_rows(self, partition: int) -> Iterator[tuple[int, ...]]:
        """All rows of a partition, field by field as ROW has them; reads the disk."""
        index = self._index(partition)
        if index < 0:
            return
        row = self._first_row[index]
        end = row + self._row_counts[index]
        while row < end:
            yield from self._rows_from(row, end, True)
            row += ROWS_PER_BLOCK - row % ROWS_PER_BLOCK

    def _rows_from(self, row: int, end: int, wait: bool) -> Iterator[tuple[int, ...]]:
        """Those of the block that `row` lies in, from there on and before `end`."""
        number, at = divmod(row, ROWS_PER_BLOCK)
        block = self._cache.get(number) or self._read_block(number, wait)
        count = min(end - row, ROWS_PER_BLOCK - at)
        return ROW.iter_unpack(memoryview(block)[at * ROW.size : (at + count) * ROW.size])

    def _place(self, fields: tuple[int, ...]) -> Place:
        return place_of(self.file_id, fields)

    def _row(self, row: int, wait: bool) -> tuple[int, ...]:
        block_number, at = divmod(row, ROWS_PER_BLOCK)
        block = self._cache.get(block_number)
        if block is None:
            block = self._read_block(block_number, wait)
        return ROW.unpack_from(block, at * ROW.size)

    def _read_block(self, number: int, wait: bool) -> bytes:
        at = self._rows_at + number * BLOCK_BYTES
        block = self._file.pread(BLOCK_BYTES, at) if wait else self._file.pread_cached(BLOCK_BYTES, at)
        if block is None:
            raise WouldBlock
        crc_at = BLOCK_BYTES - BLOCK_CRC.size
        if len(block) != BLOCK_BYTES or crc32c(block[:crc_at]) != BLOCK_CRC.unpack_from(block, crc_at)[0]:
            self.damaged = True
            raise CorruptFile(self.path, at, "a block of the sidecar does not match its crc")
        if len(self._cache) >= CACHED_BLOCKS:
            # Readers walk forward: the block that was read first is the one least likely to be read again.
            # As a list, because another reader's thread may change the cache meanwhile.
            self._cache.pop(list(self._cache)[0], None)  # noqa: RUF015
        self._cache[number] = block
        return block


def place_of(file_id: int, row: tuple[int, ...]) -> Place:
    _, flags, base, position, size, delta, _ = row
    epoch = (flags >> EPOCH_SHIFT) - 1
    return new_tuple(Place, (file_id, base, base + delta, position, size, bool(flags & FLAG_LINK), epoch))


def open_sidecar(disk: Disk, path: str) -> Sidecar:
    return Sidecar(disk.open(path))


assert ROWS_PER_BLOCK * ROW.size + BLOCK_CRC.size <= BLOCK_BYTES
