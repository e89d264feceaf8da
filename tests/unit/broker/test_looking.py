"""Which batches the loop looks into itself, and what a thread finds in the others."""

import asyncio
import threading

import pytest
from zstandard import ZstdCompressor

from mainstem.broker import looking
from mainstem.broker.looking import LIGHT_BYTES, HeavyBatch, Looker, glance, look
from mainstem.broker.policy import Policies
from mainstem.model.batch import GZIP, LZ4, NO_CODEC, SNAPPY, ZSTD, read_header
from mainstem.model.errors import InvalidRecord
from mainstem.model.records import Record, decode_records, encode_batch

PLAIN = Policies({}).of({})


def made(size: int, codec: int = NO_CODEC, value: bytes = b"v" * 1000) -> memoryview:
    """A batch whose records take about so many bytes when they are not compressed."""
    records = [Record(0, 1000 + n, b"k", value) for n in range(max(1, size // len(value)))]
    return memoryview(encode_batch(records, codec=codec))


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_what_grows_large_is_left_to_the_thread_and_is_sound(codec):
    batch = made(LIGHT_BYTES * 2, codec)
    with pytest.raises(HeavyBatch):
        glance(PLAIN, batch)
    looked = look(PLAIN, batch)
    assert looked.batch is batch
    assert looked.max_timestamp_ms == read_header(batch).max_timestamp_ms
    small = made(LIGHT_BYTES // 2, codec)
    assert glance(PLAIN, small) == read_header(small).max_timestamp_ms


def test_zstd_that_does_not_say_how_large_it_is_goes_the_same_way():
    plain = made(LIGHT_BYTES * 2)
    packed = ZstdCompressor(write_content_size=False).compress(bytes(plain[61:]))
    batch = bytearray(made(LIGHT_BYTES * 2, ZSTD)[:61]) + packed
    with pytest.raises(HeavyBatch):
        glance(PLAIN, memoryview(batch))
    assert look(PLAIN, memoryview(batch)).max_timestamp_ms == read_header(plain).max_timestamp_ms


@pytest.mark.parametrize("size", [1000, LIGHT_BYTES * 2])
def test_what_is_not_compressed_is_light_however_large_it_is(size):
    batch = made(size)
    assert glance(PLAIN, batch) == read_header(batch).max_timestamp_ms


def test_what_must_be_compressed_anew_is_light_only_while_it_is_small():
    policy = Policies({}).of({"compression.type": "zstd"})
    small, large = made(1000), made(looking.LIGHT_PACKED_BYTES * 2)
    assert glance(policy, small) == 1000
    with pytest.raises(HeavyBatch):
        glance(policy, large)
    looked = look(policy, large)
    assert read_header(looked.batch).codec == ZSTD
    assert decode_records(looked.batch) == decode_records(large)
    assert read_header(large).codec == NO_CODEC  # what came is as it was


def test_garbage_is_refused_at_once_and_by_the_thread():
    batch = bytearray(made(1000, ZSTD))
    batch[70:80] = bytes(10)
    with pytest.raises(InvalidRecord):
        glance(PLAIN, memoryview(batch))
    with pytest.raises(InvalidRecord):
        look(PLAIN, memoryview(batch))


def test_who_gives_up_is_not_told_and_the_next_in_line_is(monkeypatch):
    begun, may_end = threading.Event(), threading.Event()
    seen = []

    def slow(policy, batch):
        seen.append(batch)
        begun.set()
        may_end.wait(30)
        return look(policy, batch)

    monkeypatch.setattr(looking, "look", slow)

    async def run() -> list[str]:
        looker, told = Looker(), []
        last = asyncio.get_running_loop().create_future()
        batches = [made(1000 * (n + 1)) for n in range(3)]
        looker.look(PLAIN, batches[0], lambda _: told.append("first"))
        waiting = looker.look(PLAIN, batches[1], lambda _: told.append("second"))
        looker.look(PLAIN, batches[2], last.set_result)
        await asyncio.to_thread(begun.wait, 30)
        waiting.give_up()
        may_end.set()
        async with asyncio.timeout(30):
            found = await last
        assert found.max_timestamp_ms == 1002
        assert seen == [batches[0], batches[2]]
        looker.close()
        return told

    assert asyncio.run(run()) == ["first"]
