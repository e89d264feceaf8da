from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.kernel.log import scan as scanning
from mainstem.kernel.log.layout import FRAME_HEAD, OWN_CRC, ROUND, ROUND_MAGIC, FrameKind, frame_head
from mainstem.kernel.log.log import LogOptions
from mainstem.kernel.log.scan import batch_rows, later_sync, scan, scan_file
from mainstem.model.records import Record, encode_batch
from mainstem.testing.log_model import ModelledLog
from mainstem.testing.memory_disk import MemoryDisk

FILE_ID = 3
START = 32


def frames_of(payloads: list[bytes], kind: int = FrameKind.DELTA) -> bytes:
    data = bytes(START)
    for number, payload in enumerate(payloads):
        data += frame_head(FILE_ID, len(data), kind, number, payload) + payload
    return data


def file_of(data: bytes):
    file = MemoryDisk("/d").open("/d/file", create=True)
    file.pwritev([data], 0)
    return file


def found_in(data: bytes, window_bytes: int, monkeypatch) -> tuple[list[bytes], int, str]:
    monkeypatch.setattr(scanning, "WINDOW_BYTES", window_bytes)
    payloads: list[bytes] = []
    for window in scan_file(file_of(data), START, FILE_ID, len(data)):
        payloads += [bytes(window.payload(index)) for index in range(len(window.found.kinds))]
        end, why = window.found.end, window.found.why
    return payloads, end, why


@pytest.mark.parametrize("window_bytes", [16, 17, 31, 48, 64, 100, 333, 4096])
def test_frames_are_found_wherever_the_borders_of_windows_fall(window_bytes, monkeypatch):
    payloads = [bytes([size % 251]) * size for size in (0, 1, 15, 16, 17, 500, 0, 40, 1000, 3)]
    data = frames_of(payloads)
    assert found_in(data, window_bytes, monkeypatch) == (payloads, len(data), "end")


@pytest.mark.parametrize("window_bytes", [64, 4096])
def test_a_scan_ends_at_bytes_that_were_never_written(window_bytes, monkeypatch):
    data = frames_of([b"one", b"two" * 50])
    assert found_in(data + bytes(900), window_bytes, monkeypatch) == (
        [b"one", b"two" * 50],
        len(data),
        "zero",
    )


@pytest.mark.parametrize("cut", [1, 15, 16, 20])
def test_a_frame_that_is_cut_short_ends_the_scan_where_it_begins(cut, monkeypatch):
    whole = frames_of([b"first"])
    data = frames_of([b"first", b"second frame"])[: len(whole) + cut]
    payloads, end, why = found_in(data, 64, monkeypatch)
    assert (payloads, end, why) == ([b"first"], len(whole), "short")


def test_a_size_beyond_the_end_of_the_file_reads_nothing_more(monkeypatch):
    whole = frames_of([b"first"])
    data = whole + b"\x7f\xff\xff\xff" + bytes(4) + bytes([FrameKind.DELTA]) + bytes(200)
    assert found_in(data, 64, monkeypatch) == ([b"first"], len(whole), "short")


@given(st.data())
def test_a_flipped_bit_ends_the_scan_at_its_frame_or_before(data):
    payloads = [b"a" * 30, b"b" * 5, b"c" * 100]
    whole = bytearray(frames_of(payloads))
    at = data.draw(st.integers(START, len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    found = scan(memoryview(whole), 0, START, FILE_ID)
    assert found.end <= at
    assert found.why in ("crc", "short")


def test_rows_of_batches_are_columns_and_other_frames_keep_their_place():
    first = bytes(encode_batch([Record(0, 5, None, b"x"), Record(0, 4, None, b"y")], base_offset=10))
    second = bytes(encode_batch([Record(0, 9, None, b"z")], base_offset=12, leader_epoch=4))
    head = ROUND.pack(ROUND_MAGIC, 8, 0, 0)
    data = b""
    for kind, subject, payload in [
        (FrameKind.ROUND, 0, head),
        (FrameKind.BATCH, 6, first),
        (FrameKind.DELTA, 1, b"d"),
        (FrameKind.BATCH, 7, second),
        (FrameKind.SEAL, 0, b""),
    ]:
        data += frame_head(FILE_ID, len(data), kind, subject, payload) + payload
    view = memoryview(data)
    rows = batch_rows(view, 0, scan(view, 0, 0, FILE_ID))
    assert (rows.partitions, rows.bases, rows.lasts, rows.tops) == ([6, 7], [10, 12], [11, 12], [5, 9])
    assert (rows.epochs, rows.sizes) == ([0, 4], [len(first), len(second)])
    assert (rows.others, rows.before, rows.round_number, rows.sealed) == ([2], [1], 8, True)


def round_at(position: int, synced: tuple[int, int]) -> bytes:
    payload = ROUND.pack(ROUND_MAGIC, 1, *synced)
    return frame_head(FILE_ID, position, FrameKind.ROUND, 0, payload) + payload


@pytest.mark.parametrize("at", [100, 1000, 1017, 1018, 1019, 1024, 1500])
def test_a_later_round_is_found_across_the_borders_of_windows(at, monkeypatch):
    monkeypatch.setattr(scanning, "TAIL_BYTES", 1024)
    data = bytes(at) + round_at(at, (FILE_ID, 60)) + bytes(300)
    assert later_sync(file_of(data), FILE_ID, 50, len(data)) == at


@pytest.mark.parametrize("synced", [(FILE_ID, 50), (FILE_ID, 40), (FILE_ID - 1, 5000)])
def test_a_round_that_does_not_say_that_the_bad_bytes_were_on_disk_proves_nothing(synced):
    data = bytes(100) + round_at(100, synced)
    assert later_sync(file_of(data), FILE_ID, 50, len(data)) is None


def test_the_magic_of_a_round_inside_a_payload_proves_nothing():
    forged = round_at(9999, (FILE_ID, 60))  # its crc is for another place
    data = bytes(100) + forged + ROUND_MAGIC + bytes(3) + ROUND_MAGIC[:5]
    assert later_sync(file_of(data), FILE_ID, 50, len(data)) is None


def test_no_byte_of_a_large_batch_with_its_own_crc_can_change_unnoticed():
    disk = MemoryDisk("/d")
    log = ModelledLog(disk, "/d", LogOptions(file_bytes=8192, file_frames=100, reserve_bytes=512))
    log.append_batch(1, value_bytes=1500)
    log.turn()
    data = disk.open("/d/files/0000000001.journal").pread(8192, 0)
    whole = scan(memoryview(data), 0, START, 1)
    assert whole.kinds == [FrameKind.ROUND, FrameKind.BATCH]
    first = whole.positions[1] - FRAME_HEAD.size
    assert FRAME_HEAD.unpack_from(data, first)[3] == OWN_CRC
    for at in range(first, whole.end):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        assert scan(memoryview(damaged), 0, START, 1).end == first
