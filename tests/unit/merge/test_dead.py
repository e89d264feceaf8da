"""Which dead groups are rewritten, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from mainstem.kernel.log.dead import DeadGroups
from mainstem.kernel.log.jobs import NewRun
from mainstem.kernel.log.manifest import Manifest, RunEntry
from mainstem.kernel.log.places import Span
from mainstem.kernel.log.plan import DEAD_SPACE, NOTHING_ALIVE, Choice, UpkeepOptions, keyed_choice
from mainstem.kernel.log.survey import live_part

SIZE = 1000


class OnePartition:
    """A sidecar: of the partition that has the number of the file, offsets 0 to 99."""

    def __init__(self, file_id: int) -> None:
        self._file_id = file_id
        self.partition_count = 1

    def partitions(self) -> list[int]:
        return [self._file_id]

    def span(self, partition: int) -> Span | None:
        return Span(0, 99, 0, SIZE) if partition == self._file_id else None


class Groups:
    """Of one run each. A partition without a floor is deleted."""

    def __init__(self, *file_ids: int) -> None:
        self.dead = DeadGroups(UpkeepOptions())
        self.runs = [RunEntry(file_id, SIZE, 1, file_id) for file_id in file_ids]
        self.floors: dict[int, int] = {}

    @property
    def manifest(self) -> Manifest:
        return Manifest("id", 100, runs=tuple(self.runs))

    @property
    def ready(self) -> Any:
        return {run.file_id: OnePartition(run.file_id) for run in self.runs}

    def survey(self) -> None:
        for _ in self.dead.survey(self.manifest, self.ready, self.floors.get):
            pass

    def choice(self, why: str) -> Choice | None:
        return self.dead.choice(why, self.manifest, self.ready)

    def try_next(self, why: str) -> int:
        """Which one was tried; 0: none was left."""
        choice = self.choice(why)
        if choice is None:
            return 0
        self.dead.tried(choice)
        return choice.inputs[0].file_id


def test_a_group_of_which_not_all_can_be_looked_at_is_not_said_to_be_dead():
    groups = Groups(1, 2)
    groups.floors = {1: 0}
    for _ in groups.dead.survey(groups.manifest, {2: OnePartition(2)}, groups.floors.get):  # type: ignore[dict-item]
        pass
    choices = groups.choice(NOTHING_ALIVE), groups.choice(DEAD_SPACE)
    assert [choice and choice.inputs[0].file_id for choice in choices] == [2, None]


@pytest.mark.parametrize(("why", "floor"), [(NOTHING_ALIVE, None), (DEAD_SPACE, 80)])
def test_groups_that_fail_are_tried_once_a_survey_and_behind_those_that_were_never_tried(why, floor):
    groups = Groups(1, 2, 3)
    if floor:
        groups.floors = dict.fromkeys(range(1, 9), floor)
    groups.survey()
    assert groups.try_next(why) == 1
    groups.survey()
    assert groups.try_next(why) == 2
    groups.runs.append(RunEntry(4, SIZE, 1, 4))
    groups.survey()
    assert [groups.try_next(why) for _ in range(5)] == [3, 4, 1, 2, 0]
    groups.survey()
    assert [groups.try_next(why) for _ in range(5)] == [3, 4, 1, 2, 0]


def test_a_group_of_bodies_alone_is_found_until_it_is_gone():
    groups = Groups(1)
    groups.runs[0] = RunEntry(1, SIZE, 1, 1, body_bytes=900)
    for _ in range(9):
        groups.survey()
        assert groups.choice(DEAD_SPACE) is None
    for _ in range(3):
        groups.survey()
        assert groups.choice(DEAD_SPACE) is not None
    for _ in range(3):
        groups.survey()
        assert groups.try_next(DEAD_SPACE) == 1
        assert groups.choice(DEAD_SPACE) is None
    # What a rewrite leaves has its own ten surveys.
    groups.runs = [RunEntry(5, SIZE, 1, 5, body_bytes=900)]
    groups.survey()
    assert groups.choice(DEAD_SPACE) is None


def test_a_group_that_a_rewrite_left_as_large_as_it_was_waits_until_less_of_it_lives():
    groups = Groups(1)
    groups.floors = {1: 80, 2: 80}
    groups.survey()
    choice = groups.choice(DEAD_SPACE)
    assert choice is not None
    groups.dead.tried(choice)
    groups.dead.came_off(choice, [NewRun(2, SIZE, False, 0)])
    groups.runs = [RunEntry(2, SIZE, 1, 2)]
    groups.survey()
    assert groups.choice(DEAD_SPACE) is None
    groups.floors = {2: 90}
    groups.survey()
    assert groups.choice(DEAD_SPACE) is not None


def test_a_group_that_a_rewrite_made_smaller_is_rewritten_again_if_it_is_mostly_dead():
    groups = Groups(1)
    groups.floors = {1: 80, 2: 80}
    groups.survey()
    choice = groups.choice(DEAD_SPACE)
    assert choice is not None
    groups.dead.tried(choice)
    groups.dead.came_off(choice, [NewRun(2, SIZE - 1, False, 0)])
    groups.runs = [RunEntry(2, SIZE, 1, 2)]
    groups.survey()
    assert groups.choice(DEAD_SPACE) is not None


def test_something_lives_in_a_span_as_long_as_it_reaches_the_floor():
    span = Span(0, 999, 0, 90)
    assert live_part(span, 1000) == 0
    assert live_part(span, None) == 0
    assert live_part(span, 999) == 1
    assert live_part(span, 500) == 45
    assert live_part(span, 0) == 90


def test_a_group_in_which_one_record_lives_is_not_dropped():
    groups = Groups(1)
    groups.floors = {1: 99}
    groups.runs = [RunEntry(1, 90, 1, 1)]
    groups.survey()
    assert groups.choice(NOTHING_ALIVE) is None


def test_compacted_groups_merged_with_each_other_are_told_from_those_of_a_full_level():
    new = [RunEntry(file_id, 1 << 30, 1, file_id, keyed=True) for file_id in range(2, 10)]
    runs = (RunEntry(1, 40 << 30, 2, 1, keyed=True), *new)
    ready: Any = {run.file_id: OnePartition(run.file_id) for run in runs}
    choice = keyed_choice(Manifest("id", 100, runs=runs), ready, UpkeepOptions())
    assert choice is not None
    assert [entry.file_id for entry in choice.inputs] == list(range(2, 10))
    assert choice.why not in ("level full", "compaction")
