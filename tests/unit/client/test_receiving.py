"""Memory of answers is used again, and never while somebody holds a part of what came."""

from __future__ import annotations

from mainstem.client.receiving import LARGE_BYTES, ReceiveMemory


def filled(memory: ReceiveMemory, byte: int, size: int = LARGE_BYTES) -> memoryview:
    view = memory.take(size)
    assert len(view) == size
    view[:] = bytes([byte]) * size
    return view


def test_memory_that_nobody_holds_is_used_again() -> None:
    memory = ReceiveMemory()
    first = filled(memory, 1)
    part = first[10:20]
    buffer = first.obj
    del first
    second = filled(memory, 2)
    assert second.obj is not buffer, "a part of it is held"
    assert bytes(part) == bytes([1]) * 10
    del part, buffer
    third = filled(memory, 3)
    assert bytes(second[:3]) == bytes([2]) * 3
    assert third[0] == 3


def test_a_reader_who_holds_one_answer_while_the_next_comes_needs_two_pieces() -> None:
    memory, pieces, held = ReceiveMemory(), set(), None
    for number in range(20):
        following = filled(memory, number, LARGE_BYTES + number)
        pieces.add(id(following.obj))
        held = following
    assert held is not None
    assert len(pieces) == 2


def test_what_is_kept_stays_however_much_follows() -> None:
    memory = ReceiveMemory()
    kept = [filled(memory, number) for number in range(6)]
    assert [view[-1] for view in kept] == list(range(6))
    assert filled(memory, 7, 2 * LARGE_BYTES)[-1] == 7
    assert filled(memory, 8, 10)[-1] == 8
