"""A lake's folder: what was begun is brought to an end, and folders are replaced in one step."""

import os
import threading

import pytest

from mainstem.model.errors import InvalidRequest, StorageFailed
from mainstem.pipeline.counting import Tally
from mainstem.pipeline.jobs.lake_folder import Lake, State, is_data, next_name
from mainstem.pipeline.jobs.lake_writer import Writer
from mainstem.spark.sink import query_of_task


def staged(lake, *names):
    moves = []
    for name in names:
        source = lake.staging / name
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(name)
        moves.append((os.path.relpath(source, lake.folder), name))
    return moves


def listing(lake):
    return {
        str(file.path.relative_to(lake.folder)): file.path.read_text()
        for leaf in lake.leaves()
        for file in lake.files(leaf)
    }


def test_a_published_batch_is_visible_and_counted(tmp_path):
    lake = Lake(str(tmp_path / "lake"))
    with lake.locked():
        moves = staged(lake, "day=1/a.parquet", "day=2/b.parquet")
        done = lake.publish(State(query="q", batch=3, positions={"t": {"0": 7}}, moves=moves))
    assert (done.held, done.moves) == ({"t": {"0": 7}}, [])
    assert lake.state() == done
    assert listing(lake) == {"day=1/a.parquet": "day=1/a.parquet", "day=2/b.parquet": "day=2/b.parquet"}


def test_a_lake_may_be_named_by_a_link(tmp_path):
    (tmp_path / "disk/lake").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "disk/lake")
    lake = Lake(str(tmp_path / "x/../link"))
    with lake.locked():
        lake.publish(State(query="q", batch=0, moves=staged(lake, "day=1/a.parquet")))
    assert (tmp_path / "disk/lake/day=1/a.parquet").exists()


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_moves_that_were_cut_off_are_ended_by_the_next(tmp_path, moved):
    lake = Lake(str(tmp_path / "lake"))
    with lake.locked():
        moves = staged(lake, "day=1/a.parquet", "day=2/b.parquet")
        begun = State(query="q", batch=0, positions={"t": {"0": 2}}, moves=moves)
        lake._save(begun)
        lake._move(moves[:moved])
        assert lake.state().held == {}
        after = lake.recover()
    assert after.held == {"t": {"0": 2}}
    assert sorted(listing(lake)) == ["day=1/a.parquet", "day=2/b.parquet"]


def test_a_file_that_is_neither_staged_nor_in_its_place_is_told_and_not_forgotten(tmp_path):
    lake = Lake(str(tmp_path / "lake"))
    with lake.locked():
        moves = staged(lake, "day=1/a.parquet", "day=2/b.parquet")
        lake._save(State(query="q", batch=0, positions={"t": {"0": 2}}, moves=moves))
        (lake.staging / "day=2/b.parquet").unlink()
        for _ in range(2):
            with pytest.raises(StorageFailed, match=r"not whole: \S+/day=2/b.parquet is missing"):
                lake.recover()
    assert lake.state().moves, "the next start is told the same"


@pytest.mark.parametrize(
    ("query", "batch", "expected"),
    [
        ("q", 8, True),
        ("q", 7, False),
        ("q", 6, "the checkpoint is older than the lake"),
        ("q", 9, "the lake .* is older than the checkpoint"),
        ("other", 0, True),
        ("other", 3, "not the one that wrote"),
    ],
)
def test_only_the_batch_behind_the_last_is_written_and_the_last_is_known_again(
    tmp_path, query, batch, expected
):
    state = State(query="q", batch=7)
    writer = Writer(Lake(str(tmp_path / "lake")), None, state, Tally())
    if isinstance(expected, bool):
        assert writer._is_next(state, query, batch) is expected
    else:
        with pytest.raises(InvalidRequest, match=expected):
            writer._is_next(state, query, batch)


def test_what_was_staged_and_never_noted_is_cleared_away(tmp_path):
    lake = Lake(str(tmp_path / "lake"))
    with lake.locked():
        staged(lake, "day=1/a.parquet")
        assert lake.recover() == State()
    assert not lake.staging.exists()
    assert listing(lake) == {}


def test_a_listing_never_finds_a_folder_half_replaced(tmp_path):
    """One thread replaces four files by one, and that by another; others list all the while."""
    lake = Lake(str(tmp_path / "lake"))
    leaf = lake.folder / "day=1"
    with lake.locked():
        names = [f"day=1/{i}.parquet" for i in range(4)]
        lake.publish(State(query="q", batch=0, moves=staged(lake, *names, "day=1/stays.parquet")))
    seen, stop = set(), threading.Event()

    def look():
        while not stop.is_set():
            seen.add(frozenset(name for name in os.listdir(leaf)))

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    expected = {frozenset([*(f"{i}.parquet" for i in range(4)), "stays.parquet"])}
    for _ in range(50):
        old = [file.path for file in lake.files(leaf) if file.path.name != "stays.parquet"]
        fresh = lake.workspace() / "new"
        fresh.write_text("merged")
        lake.replace(leaf, old, [fresh])
        expected.add(frozenset(os.listdir(leaf)))
    stop.set()
    for thread in threads:
        thread.join()
    assert seen <= expected
    assert len(expected) == 51
    assert (leaf / "stays.parquet").read_text() == "day=1/stays.parquet"
    with lake.locked():
        lake.recover()
    assert len(listing(lake)) == 2


def test_only_one_writes_at_a_time(tmp_path):
    lake = Lake(str(tmp_path / "lake"))
    with lake.locked(), pytest.raises(InvalidRequest, match="another job"), Lake(str(lake.folder)).locked():
        pass


def test_a_state_of_another_version_is_refused(tmp_path):
    lake = Lake(str(tmp_path / "lake"))
    with lake.locked():
        lake._save(State(version=2))
    with pytest.raises(InvalidRequest, match="newer"):
        lake.state()


def test_hidden_names_are_not_data():
    assert is_data(next_name("1f2e3d4c-aaaa", 17, 0))
    assert next_name("1f2e3d4c-aaaa", 17, 0) == "b00000017-1f2e3d4c-0000.parquet"
    assert not any(map(is_data, (".part.parquet.crc", "_common_metadata", "_x.parquet", "_SUCCESS")))


def test_work_outside_of_a_streaming_query_is_refused():
    with pytest.raises(InvalidRequest, match="no query id"):
        query_of_task()
