"""Which merge is begun, and which rests, while clients leave no time for any."""

from itertools import combinations

import pytest

from mainstem.kernel.log.plan import NOTHING_ALIVE, Choice
from mainstem.kernel.log.turns import Turns

COMPACTION, TIER, DEAD, DROP = (
    Choice([], 1, why) for why in ("compaction", "level full", "dead space", NOTHING_ALIVE)
)
LEVEL0 = Choice([], 1, "level 0", due_ms=0)
YOUNG = LEVEL0._replace(due_ms=5000)
WAITING = [COMPACTION, TIER, DEAD]


def noted(*due: Choice, now_ms: int = 0) -> Turns:
    turns = Turns(1000)
    turns.note(due, now_ms, surveyed=True)
    return turns


def test_what_is_not_late_comes_behind_level_0_and_only_if_all_may():
    turns = noted(LEVEL0, *WAITING)
    assert not turns.any_late(999)
    assert turns.in_turn(LEVEL0, WAITING, 999, all_may=False) == []
    assert turns.in_turn(LEVEL0, WAITING, 999, all_may=True) == [LEVEL0, *WAITING]
    assert turns.in_turn(None, WAITING, 999, all_may=False) == []


def test_level_0_is_late_by_the_age_of_its_files_whenever_it_was_noted():
    turns = noted(LEVEL0, now_ms=999)
    assert turns.in_turn(LEVEL0, [], 999, all_may=False) == []
    assert turns.in_turn(LEVEL0, [], 1000, all_may=False) == [LEVEL0]
    turns.note([YOUNG], 1001, surveyed=False)
    assert turns.in_turn(YOUNG, [], 5999, all_may=False) == []
    assert turns.in_turn(YOUNG, [], 6000, all_may=False) == [YOUNG]


def test_what_is_late_takes_turns_with_level_0_and_with_what_else_is_late():
    turns = noted(LEVEL0, *WAITING)
    begun = []
    for now_ms in range(1000, 1008):
        turns.note([LEVEL0, *WAITING], now_ms, surveyed=True)
        first, *others = turns.in_turn(LEVEL0, WAITING, now_ms, all_may=False)
        assert len(others) == 3
        turns.tried(first)
        begun.append(first)
    assert begun == [LEVEL0, COMPACTION, LEVEL0, TIER, LEVEL0, DEAD, LEVEL0, COMPACTION]


def test_a_drop_comes_first_from_the_moment_it_is_found_and_takes_nobodys_turn():
    turns = noted(LEVEL0, DROP, TIER)
    assert turns.in_turn(YOUNG, [DROP, TIER], 0, all_may=True) == [DROP, YOUNG, TIER]
    turns.tried(LEVEL0)
    turns.tried(DROP)
    turns.came_off(DROP)
    turns.note([DROP], 1000, surveyed=False)
    assert turns.in_turn(LEVEL0, [DROP, TIER], 1000, all_may=False) == [DROP, TIER, LEVEL0]


@pytest.mark.parametrize("choice", [DROP, LEVEL0])
def test_what_came_off_is_late_no_more(choice):
    turns = noted(choice)
    assert turns.any_late(1000)
    turns.tried(choice)
    turns.came_off(choice)
    assert not turns.any_late(1000)


def test_drops_that_do_not_come_off_take_turns_until_one_does():
    turns = noted(LEVEL0, DROP, TIER)
    for choice in (DROP, LEVEL0, DROP):
        assert turns.in_turn(LEVEL0, [DROP, TIER], 1000, all_may=False)[0] == choice
        turns.tried(choice)
    assert turns.in_turn(LEVEL0, [DROP, TIER], 1000, all_may=False) == [LEVEL0, TIER, DROP]
    turns.came_off(DROP)
    turns.note([DROP], 1000, surveyed=False)
    assert turns.in_turn(LEVEL0, [DROP, TIER], 1000, all_may=False) == [DROP, LEVEL0, TIER]


@pytest.mark.parametrize("count", range(1, 6))
def test_no_merge_that_fails_each_time_keeps_another_waiting_for_ever(count):
    """In turn, or with no room for the first one or two: what is tried for nothing had its turn, too."""
    for due in combinations([LEVEL0, DROP, *WAITING], count):
        for no_room in range(3):
            turns = noted(*due)
            level0 = LEVEL0 if LEVEL0 in due else None
            others = [choice for choice in due if choice is not LEVEL0]
            tried: list[Choice] = []
            for _ in range(40):
                for choice in turns.in_turn(level0, others, 1000, all_may=False)[: no_room + 1]:
                    turns.tried(choice)
                    tried.append(choice)
            for at in range(len(tried) - 12):
                assert set(due_whys(due)) == set(due_whys(tried[at : at + 12]))


def due_whys(choices) -> list[str]:
    return [choice.why for choice in choices]


def test_only_what_is_late_goes_before_the_others():
    turns = noted(TIER)
    turns.note(WAITING, 500, surveyed=True)
    assert turns.any_late(1000)
    assert turns.in_turn(None, WAITING, 1000, all_may=False) == [TIER]
    assert turns.in_turn(None, WAITING, 1000, all_may=True) == [TIER, COMPACTION, DEAD]


def test_what_fails_in_a_quiet_moment_lets_the_others_go_first():
    turns = noted(*WAITING)
    turns.tried(COMPACTION)
    assert turns.in_turn(None, WAITING, 0, all_may=True) == [TIER, DEAD, COMPACTION]


def test_what_was_not_due_at_a_survey_is_put_off_anew():
    turns = noted(TIER)
    turns.note([], 500, surveyed=True)
    turns.note([TIER], 600, surveyed=True)
    assert not turns.any_late(1599)
    assert turns.any_late(1600)


def test_what_is_not_found_between_two_surveys_stays_late():
    """A group that was tried and failed is not found again before the next."""
    turns = noted(DEAD)
    turns.note([], 1000, surveyed=False)
    turns.note([DEAD], 1060, surveyed=True)
    assert turns.in_turn(None, [DEAD], 1060, all_may=False) == [DEAD]


def begun(turns: Turns, choice: Choice, now_ms: int) -> Turns:
    turns.tried(choice)
    turns.begin(choice, now_ms)
    return turns


def test_a_merge_rests_for_so_long_in_all_and_then_no_more():
    turns = begun(noted(LEVEL0), LEVEL0, 0)
    assert turns.rests(True, 100)
    assert not turns.rests(False, 400)
    assert turns.rests(True, 5000)
    assert turns.rests(True, 5699)
    assert not turns.rests(True, 5700)
    assert not turns.rests(True, 9000)


def test_what_is_late_and_what_is_dropped_do_not_rest():
    assert begun(noted(COMPACTION), COMPACTION, 999).rests(True, 999)
    assert not begun(noted(COMPACTION), COMPACTION, 1000).rests(True, 1001)
    assert not begun(noted(LEVEL0), LEVEL0, 1000).rests(True, 1001)
    assert not begun(noted(DROP), DROP, 0).rests(True, 1)


@pytest.mark.parametrize(("other", "late_ms"), [(TIER, 1000), (LEVEL0, 1000), (DROP, 0)])
def test_a_merge_does_not_rest_in_front_of_one_that_is_late(other, late_ms):
    turns = begun(noted(COMPACTION, other), COMPACTION, 0)
    if late_ms:
        assert turns.rests(True, late_ms - 1)
    assert not turns.rests(True, late_ms)
    turns.end()
    assert not turns.is_one_in_hand
    assert not turns.rests(True, late_ms)
