"""Which files are merged: enough of a size, no row rewritten often, large ones left alone."""

from mainstem.pipeline.jobs.lake_compaction import Policy, Sized, choose, parts

POLICY = Policy(target_bytes=1 << 20, fan_in=4, idle_s=60)


def files(*sizes):
    return [Sized(f"{number}", size) for number, size in enumerate(sizes)]


def test_a_few_small_files_are_left_until_there_are_enough():
    assert choose(files(100, 100, 100), POLICY, idle=False) == []
    assert len(choose(files(100, 100, 100, 100), POLICY, idle=False)) == 4


def test_larger_ones_wait_for_others_of_their_size():
    sizes = (100, 100, 100, 100, 50_000, 600_000)
    assert [one.size_bytes for one in choose(files(*sizes), POLICY, idle=False)] == [100] * 4


def test_a_full_class_takes_the_smaller_ones_along():
    chosen = choose(files(100, 50_000, 50_000, 50_000, 50_000), POLICY, idle=False)
    assert [one.size_bytes for one in chosen] == [100, 50_000, 50_000, 50_000, 50_000]


def test_an_idle_folder_is_merged_whole_but_for_what_is_large():
    assert [one.size_bytes for one in choose(files(100, 50_000, 700_000), POLICY, idle=True)] == [100, 50_000]
    assert choose(files(100, 700_000), POLICY, idle=True) == []


def test_nothing_is_merged_if_it_is_not_wanted():
    assert choose(files(*[100] * 50), Policy(1 << 20, 0, 60), idle=True) == []


def test_what_is_merged_becomes_files_of_about_the_target():
    assert parts(files(100, 100), POLICY) == 1
    assert parts(files(*[500_000] * 9), POLICY) == 4


def test_rows_are_rewritten_seldom_and_folders_stay_small():
    """A thousand batches, merged as the job does it."""
    held, written, most = [], 0, 0
    for number in range(1000):
        held.append(Sized(f"b{number}", 10_000))
        chosen = choose(held, POLICY, idle=False)
        if chosen:
            merged = sum(one.size_bytes for one in chosen)
            written += merged
            held = [one for one in held if one not in chosen] + [Sized(f"c{number}", merged)]
        most = max(most, sum(one.size_bytes * 2 < POLICY.target_bytes for one in held))
    assert sum(one.size_bytes for one in held) == 10_000_000
    assert written < 4 * 10_000_000
    assert most < 12
