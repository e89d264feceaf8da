from __future__ import annotations

from mainstem.kernel.log.cached import CachedFiles, Part

MIB = 1 << 20


def cached_files(*sizes: int, most_bytes: int = 10 * MIB, lag_bytes: int = 0) -> CachedFiles:
    """Of which the files 1, 2 and so on were written and read; a step is 1 MiB."""
    cached = CachedFiles(most_bytes, file_bytes=8 * MIB, lag_bytes=lag_bytes)
    for file_id, size in enumerate(sizes, 1):
        cached.finished(file_id, size)
    return cached


def test_the_oldest_leaves_from_its_beginning_on_as_more_is_written():
    cached = cached_files(4 * MIB, 4 * MIB)
    assert cached.written(MIB, 2 * MIB) == []
    assert cached.written(MIB, 3 * MIB) == [Part(1, 0, MIB)]
    assert cached.written(MIB, 6 * MIB) == [Part(1, at * MIB, MIB) for at in (1, 2, 3)]
    assert cached.written(MIB, 7 * MIB) == [Part(2, 0, MIB)]


def test_it_is_looked_at_once_for_every_step_that_was_written():
    cached = cached_files(40 * MIB)
    assert cached.written(MIB - 1, MIB) == []
    assert cached.written(1, MIB)


def test_a_run_takes_the_place_of_the_files_it_was_made_of():
    cached = cached_files(4 * MIB, 4 * MIB, 1 * MIB)
    assert cached.keeps({1, 2})
    cached.merged({1, 2}, {1, 2}, [(7, 5 * MIB), (8, 3 * MIB)])
    assert not cached.keeps({1})
    assert cached.keeps({7, 8, 3})
    leaving = cached.written(MIB, 10 * MIB)
    assert [part.file_id for part in leaving] == [7] * 5 + [8] * 3 + [3]


def test_a_run_of_newer_files_leaves_after_the_older_ones():
    cached = cached_files(MIB, MIB, MIB)
    cached.merged({2, 3}, {2, 3}, [(7, 2 * MIB)])
    assert [part.file_id for part in cached.written(MIB, 10 * MIB)] == [1, 7, 7]


def test_files_that_are_gone_take_no_room_from_others():
    cached = cached_files(6 * MIB, 4 * MIB)
    assert cached.written(MIB, 2 * MIB) == [Part(1, 0, MIB), Part(1, MIB, MIB)]
    cached.merged({1}, {1}, [])
    assert cached.written(MIB, 6 * MIB) == []
    assert cached.written(MIB, 7 * MIB) == [Part(2, 0, MIB)]


def test_a_file_that_is_still_read_from_after_its_merge_counts_until_it_is_gone():
    cached = cached_files(MIB, 2 * MIB, 3 * MIB)
    cached.merged({2}, set(), [(7, 2 * MIB)])
    assert cached.written(MIB, 2 * MIB) == []
    assert cached.written(MIB, 3 * MIB) == [Part(1, 0, MIB)]
    cached.merged({3}, {2, 3}, [(8, 3 * MIB)])
    assert cached.written(MIB, 5 * MIB) == []
    assert [part.file_id for part in cached.written(MIB, 10 * MIB)] == [7, 7, 8, 8, 8]


def test_what_has_begun_to_leave_is_not_kept_when_it_is_merged():
    cached = cached_files(6 * MIB, 4 * MIB)
    cached.written(MIB, MIB)
    assert not cached.keeps({1})
    assert not cached.keeps({1, 2})
    assert cached.keeps({2})


def test_files_of_an_earlier_process_are_not_kept():
    assert not cached_files(MIB).keeps({1, 99})


def test_what_nobody_reads_is_not_kept_when_it_is_merged():
    cached = cached_files(MIB)
    cached.written(10 * MIB, 0)
    assert not cached.keeps({1})
    cached.was_read()
    assert cached.keeps({1})


def test_what_somebody_is_at_stays_with_all_that_is_newer_as_far_as_there_is_room_for_it():
    cached = cached_files(4 * MIB, 4 * MIB, lag_bytes=5 * MIB)
    cached.was_read_in(1)
    assert cached.written(MIB, 7 * MIB) == []
    assert cached.written(MIB, 8 * MIB) == [Part(1, 0, MIB)]
    cached.was_read_in(1)
    assert cached.written(MIB, 8 * MIB) == []


def test_what_nobody_is_at_any_more_leaves_and_what_is_newer_stays_if_somebody_is_there():
    cached = cached_files(4 * MIB, 4 * MIB, lag_bytes=20 * MIB)
    cached.was_read_in(1)
    for active in range(3, 11):
        assert cached.written(MIB, active * MIB) == []
    cached.was_read_in(2)  # the reader of the first went on
    assert cached.written(MIB, 11 * MIB) == [Part(1, at * MIB, MIB) for at in range(4)]
    assert cached.written(MIB, 20 * MIB) == []
