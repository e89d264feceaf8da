"""Translating offsets: whatever gaps, batches and other writers there are, no record is left out."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.pipeline.jobs.mirror_groups import within
from mainstem.pipeline.jobs.mirror_mapping import (
    COARSE_BATCHES,
    FINE_BATCHES,
    Copied,
    Mapping,
    Run,
    Stretch,
    Target,
    keys_of,
    thinned,
)

HERE = Target("t", "a1")


def stretch_of(offsets, target_start=0, batch=0, query="q", most=512, target=HERE):
    copied = Copied()
    copied.add(pa.array(offsets, pa.int64()))
    return Stretch(
        query=query,
        batch=batch,
        topic="t",
        partition=0,
        target=target.name,
        target_id=target.id,
        source_end=copied.source_end,
        target_start=target_start,
        records=copied.records,
        runs=thinned(copied.runs, most),
    )


def apply_all(mapping, stretches):
    for stretch in stretches:
        for key in keys_of(stretch):
            mapping.apply(key, stretch)


def test_offsets_become_runs_without_gaps():
    copied = Copied()
    copied.add(pa.array([5, 6, 7, 9, 10], pa.int64()))
    copied.add(pa.array([], pa.int64()))
    copied.add(pa.array([11, 20], pa.int64()))
    assert copied.runs == [Run(5, 0, 3), Run(9, 3, 3), Run(20, 6, 1)]
    assert (copied.records, copied.source_end) == (7, 21)


def test_what_several_tasks_copied_of_a_partition_is_put_end_to_end():
    first, second = Copied(), Copied()
    first.add(pa.array([0, 1], pa.int64()))
    second.add(pa.array([2, 4], pa.int64()))
    first.extend(second)
    assert first.runs == [Run(0, 0, 3), Run(4, 3, 1)]


@pytest.mark.parametrize(
    ("offset", "translated"), [(5, 100), (7, 102), (8, 103), (9, 103), (10, 104), (11, 105), (99, 105)]
)
def test_an_offset_is_that_of_the_next_record_in_the_target(offset, translated):
    assert stretch_of([5, 6, 7, 9, 10], target_start=100).translate(offset) == translated


ASCENDING = st.lists(st.integers(0, 400), min_size=1, unique=True).map(sorted)


@given(ASCENDING, st.integers(0, 450), st.integers(1, 20))
def test_a_stretch_never_translates_behind_a_record_and_exactly_if_all_runs_are_kept(offsets, offset, most):
    before = sum(one < offset for one in offsets)
    if offset < offsets[0]:
        return
    assert stretch_of(offsets, 7).translate(offset) == 7 + before
    assert 7 <= stretch_of(offsets, 7, most=most).translate(offset) <= 7 + before


@given(ASCENDING, st.lists(st.integers(1, 30), min_size=1), st.lists(st.integers(0, 3)), st.integers(0, 450))
def test_no_batch_and_no_other_writer_makes_a_reader_miss_a_record(offsets, sizes, others, offset):
    """A model: a target to which others write between the batches, and the offset of each copy in it."""
    mapping, where, end, rest, batch = Mapping(), {}, 0, list(offsets), 0
    while rest:
        size = sizes[batch % len(sizes)]
        some, rest = rest[:size], rest[size:]
        apply_all(mapping, [stretch_of(some, end, batch)])
        for one in some:
            where[one], end = end, end + 1
        end += others[batch % len(others)] if others else 0
        batch += 1
    translated = mapping.translate("t", 0, offset, HERE)
    wanted = [at for source, at in where.items() if source >= offset]
    if translated is None:
        assert offset < offsets[0]
    elif wanted:
        assert translated <= min(wanted)
        if not others or not any(others):
            assert translated == min(wanted)
    else:
        assert translated <= end


def test_what_was_copied_anew_by_another_query_is_what_counts():
    mapping = Mapping()
    apply_all(mapping, [stretch_of(range(10), 0, query="old")])
    apply_all(mapping, [stretch_of(range(5, 10), 10, query="new")])
    assert mapping.translate("t", 0, 7, HERE) == 12
    assert mapping.translate("t", 0, 3, HERE) == 3, "only the old one has copied that"
    assert mapping.translate("t", 0, 10, HERE) == 15


@pytest.mark.parametrize("now", [Target("t", "b2"), Target("renamed", "a1")])
def test_copies_under_another_name_or_in_a_topic_that_was_deleted_do_not_count(now):
    mapping = Mapping()
    apply_all(mapping, [stretch_of(range(100))])
    assert mapping.translate("t", 0, 50, HERE) == 50
    assert mapping.translate("t", 0, 50, now) is None
    apply_all(mapping, [stretch_of(range(100, 110), 0, batch=1, target=now)])
    assert mapping.translate("t", 0, 105, now) == 5
    assert mapping.translate("t", 0, 50, now) is None
    assert mapping.translate("t", 0, 50, HERE) == 50


def test_a_mapping_from_before_topics_had_ids_in_it_still_counts():
    mapping = Mapping()
    apply_all(mapping, [stretch_of(range(10), target=Target("t", ""))])
    assert mapping.translate("t", 0, 7, HERE) == 7


@pytest.mark.parametrize(("translated", "expected"), [(None, 5), (3, 5), (7, 7), (9, 9), (10, 5)])
def test_a_group_is_never_sent_to_where_nothing_lies_yet(translated, expected):
    assert within(translated, 5, 9) == expected


def test_an_offset_before_everything_and_a_partition_that_is_not_known_have_no_translation():
    mapping = Mapping()
    apply_all(mapping, [stretch_of([5, 6])])
    assert mapping.translate("t", 0, 4, HERE) is None
    assert mapping.translate("t", 1, 4, HERE) is None


def test_old_batches_are_thinned_out_and_still_leave_nothing_out():
    """As compaction does: the last of each key stays."""
    mapping, kept, batches = Mapping(), {}, 3 * FINE_BATCHES
    for batch in range(batches):
        stretch = stretch_of([10 * batch], target_start=batch, batch=batch)
        kept |= dict.fromkeys(keys_of(stretch), stretch)
    for key, stretch in kept.items():
        mapping.apply(key, stretch)
    assert len(kept) == FINE_BATCHES + batches // COARSE_BATCHES
    for batch in range(COARSE_BATCHES, batches, 97):
        translated = mapping.translate("t", 0, 10 * batch, HERE)
        exact = batch >= batches - FINE_BATCHES
        assert translated == batch if exact else batch - COARSE_BATCHES <= translated <= batch
