"""Memory of answers is used again, and never while somebody holds a part of what came."""

from __future__ import annotations

from mainstem.client.receiving import LARGE_BYTES, LARGEST_BYTES, ReceiveMemory


def filled(memory: ReceiveMemory, byte: int, size: int = LARGE_BYTES) -> memoryview:
    view = memory.take(size)
    assert len(view) == size
    view[:] = bytes([byte]) * size
    return view


def test_memory_that_nobody_holds_is_used_again() -> None:
    memory = ReceiveMemory()
    first = filled(memory, 1)
    part = first[10:20]
    place = first.nbytes and id(first.obj)
    del first
    second = filled(memory, 2)
    assert id(second.obj) != place, "a part of it is held"
    assert bytes(part) == bytes([1]) * 10
    del part
    third = filled(memory, 3)
    assert id(third.obj) == place
    assert bytes(second[:3]) == bytes([2]) * 3


def test_memory_of_an_answer_that_seldom_comes_is_not_kept() -> None:
    memory = ReceiveMemory()
    for size in (LARGE_BYTES - 1, LARGEST_BYTES + 1):
        assert len(filled(memory, 1, size).obj) == size  # type: ignore[arg-type]
    assert memory.kept_bytes == 0
    filled(memory, 1, LARGEST_BYTES)
    assert LARGEST_BYTES <= memory.kept_bytes <= 2 * LARGEST_BYTES


def test_a_reader_who_holds_one_answer_while_the_next_comes_needs_two_pieces() -> None:
    memory, held = ReceiveMemory(), None
    kept = []
    for number in range(20):
        held = filled(memory, number, LARGE_BYTES + number)
        kept.append(memory.kept_bytes)
    assert held is not None
    assert kept[1:] == [kept[1]] * 19, "nothing new after the second"


def test_what_is_kept_stays_however_much_follows() -> None:
    memory = ReceiveMemory()
    kept = [filled(memory, number) for number in range(6)]
    assert [view[-1] for view in kept] == list(range(6))
    assert filled(memory, 7, 2 * LARGE_BYTES)[-1] == 7
    assert filled(memory, 8, 10)[-1] == 8
