"""What is known to be sound: what was added and not doubted since."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mainstem.kernel.log.sound import LARGE_SLICE, SoundBytes, Stretches


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 60), st.integers(1, 12)), max_size=40))
def test_stretches_are_what_was_added_and_not_cut_out(steps):
    stretches, known = Stretches(), set()
    for is_cut, start, size in steps:
        some = set(range(start, start + size))
        reached = {*some, start - 1, start + size}
        assert stretches.touches(start, start + size) == bool(known & reached)
        (stretches.cut if is_cut else stretches.add)(start, start + size)
        known = known - some if is_cut else known | some
    for position in range(80):
        end = position
        while end in known:
            end += 1
        assert stretches.end_of(position) == end
    assert len(stretches) == sum(at in known and at - 1 not in known for at in range(80))


def note(sound: SoundBytes, file_id: int, start: int, size: int = LARGE_SLICE) -> None:
    sound.note(sound.mark(), file_id, start, start + size)


def test_only_so_many_stretches_are_remembered():
    sound = SoundBytes(max_stretches=3)
    places = [(number % 2, 2 * number * LARGE_SLICE) for number in range(4)]
    for place in (*places[:3], *places[:3]):
        note(sound, *place)
    assert [sound.end_of(*place) > place[1] for place in places] == [True, True, True, False]
    note(sound, *places[3])
    assert not any(sound.end_of(*place) > place[1] for place in places), "all are given up, not any few"
    note(sound, *places[3])
    file_id, start = places[3]
    assert sound.end_of(file_id, start) == start + LARGE_SLICE
    sound.forget(file_id)
    assert sound.end_of(file_id, start) == start


def test_small_stretches_are_remembered_only_beside_others():
    sound = SoundBytes()
    note(sound, 1, 100, LARGE_SLICE - 1)
    assert sound.end_of(1, 100) == 100
    note(sound, 1, 100)
    note(sound, 1, 100 + LARGE_SLICE, 10)
    assert sound.end_of(1, 100) == 110 + LARGE_SLICE


def test_what_was_read_before_it_was_doubted_is_not_believed_however_late_it_is_told():
    sound = SoundBytes()
    before = sound.mark()
    sound.forget(1)
    for file_id in (1, 2):
        sound.note(before, file_id, 0, LARGE_SLICE)
    assert (sound.end_of(1, 0), sound.end_of(2, 0)) == (0, LARGE_SLICE)
    note(sound, 1, 0)
    assert sound.end_of(1, 0) == LARGE_SLICE
    early = sound.mark()
    for file_id in range(10, 2000):
        sound.forget(file_id)
    sound.note(early, 10, 0, LARGE_SLICE)
    assert sound.end_of(10, 0) == 0, "though not all doubts are remembered"


def test_only_the_doubted_part_of_what_was_read_meanwhile_is_not_believed():
    sound = SoundBytes()
    mark, middle = sound.mark(), 10 * LARGE_SLICE
    sound.doubt(1, middle, middle + 100)
    sound.note(mark, 1, 0, 2 * middle)
    assert sound.end_of(1, 0) == middle
    after = middle + 100
    assert [sound.end_of(1, at) for at in (middle, after - 1, after)] == [middle, after - 1, 2 * middle]


def test_what_was_written_is_believed_on_both_sides_of_a_doubt():
    sound = SoundBytes()
    sound.written_from(1, 1000)
    sound.doubt(1, 500_000, 600_000)
    assert [sound.end_of(1, at) > at for at in (999, 1000, 499_999, 500_000, 599_999, 600_000)] == [
        False,
        True,
        True,
        False,
        False,
        True,
    ]
    sound.doubt(1, 100_000, 100_100)
    assert sound.end_of(1, 1000) == 100_000
    assert sound.end_of(1, 600_000) > 1 << 60
