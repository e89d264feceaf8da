"""Histories of a classic group, as real clients write them."""

import itertools

import pytest

from mainstem.kernel.groups.classic import TRANSITIONS, ClassicGroup
from mainstem.kernel.groups.classic_messages import (
    Answer,
    ClassicLimits,
    ClassicState,
    JoinedMember,
    JoinRequest,
    JoinResult,
    Leaver,
    LeaveResult,
    SyncRequest,
    SyncResult,
)
from mainstem.model.errors import (
    CoordinatorClosing,
    FencedInstanceId,
    GroupFull,
    GroupNotEmpty,
    GroupNotFound,
    IllegalGeneration,
    InconsistentProtocol,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)

RANGE = (("range", b"r"),)
SESSION_MS, REBALANCE_MS = 10_000, 60_000


class World:
    """A group with a clock; every request gets a token "<what>-<n>", answers collect by token."""

    def __init__(self, **limits: int) -> None:
        self.now_ms = 0
        self.group = ClassicGroup("g", 0, ClassicLimits(**{"initial_delay_ms": 0, **limits}))
        self.answers: dict[str, object] = {}
        self.numbers = itertools.count(1)

    def collect(self, answers: list[Answer]) -> None:
        for answer in answers:
            assert answer.token not in self.answers, "answered twice"
            self.answers[answer.token] = answer.result

    def join(self, member_id="", new_id="new", protocols=RANGE, instance_id=None, **more):
        token = f"join-{next(self.numbers)}"
        fields = {
            "protocol_type": "consumer",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "id_required": False,
            **more,
        }
        request = JoinRequest(
            member_id=member_id, new_member_id=new_id, protocols=protocols, instance_id=instance_id, **fields
        )
        self.collect(self.group.join(token, request, self.now_ms))
        return token

    def sync(self, member_id, assignments=None, generation=None, **more):
        token = f"sync-{next(self.numbers)}"
        generation = self.group.generation if generation is None else generation
        request = SyncRequest(member_id, generation, assignments=assignments or {}, **more)
        self.collect(self.group.sync(token, request, self.now_ms))
        return token

    def heartbeat(self, member_id, generation=None, instance_id=None):
        generation = self.group.generation if generation is None else generation
        self.group.heartbeat(member_id, instance_id, generation, self.now_ms)

    def leave(self, *leavers: Leaver) -> list[LeaveResult]:
        results, answers = self.group.leave(leavers, self.now_ms)
        self.collect(answers)
        return results

    def advance(self, ms: int) -> None:
        """Turn the clock, firing each deadline at its time."""
        until_ms = self.now_ms + ms
        while (at_ms := self.group.next_deadline_ms()) is not None and at_ms <= until_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self.collect(self.group.tick(self.now_ms))
        self.now_ms = until_ms

    def result(self, token):
        return self.answers.get(token)

    def error(self, token):
        return type(self.answers.get(token))


def stable(*member_ids: str, **limits: int) -> World:
    """A stable group; the first member leads; each is assigned its own name."""
    world = World(**limits)
    for member_id in member_ids:
        world.join(new_id=member_id)
        for other in member_ids[: member_ids.index(member_id)]:
            world.join(other)
    for member_id in reversed(member_ids):
        world.sync(
            member_id, {one: one.encode() for one in member_ids} if member_id == member_ids[0] else None
        )
    assert world.group.state is ClassicState.STABLE
    world.answers.clear()
    return world


# --- joining -----------------------------------------------------------------------------------


def test_the_only_member_leads_generation_one():
    world = World()
    joined = world.join(new_id="a")
    assert world.result(joined) == JoinResult(
        1, "consumer", "range", "a", "a", (JoinedMember("a", None, b"r"),), False
    )
    synced = world.sync("a", {"a": b"all"})
    assert world.result(synced) == SyncResult("consumer", "range", b"all")
    assert world.group.state is ClassicState.STABLE


def test_a_client_that_can_is_asked_to_join_again_with_its_id():
    world = World()
    first = world.join(new_id="a", id_required=True)
    assert world.result(first).member_id == "a"
    assert world.error(first) is MemberIdRequired
    assert world.group.state is ClassicState.EMPTY
    assert not world.group.idle
    again = world.join("a", id_required=True)
    assert world.result(again).leader_id == "a"


def test_an_id_given_and_not_used_is_forgotten_after_the_session_timeout():
    world = World()
    world.join(new_id="a", id_required=True)
    world.advance(SESSION_MS)
    assert world.group.idle
    assert world.error(world.join("a")) is UnknownMember


def test_an_unknown_member_id_is_refused():
    world = stable("a")
    assert world.error(world.join("stranger")) is UnknownMember


def test_a_new_member_rebalances_and_the_old_ones_learn_it_by_heartbeat():
    world = stable("a")
    joined = world.join(new_id="b")
    assert world.result(joined) is None
    assert world.group.state is ClassicState.PREPARING
    with pytest.raises(RebalanceInProgress):
        world.heartbeat("a")
    again = world.join("a")
    assert world.result(again).members == (JoinedMember("a", None, b"r"), JoinedMember("b", None, b"r"))
    assert world.result(joined) == JoinResult(2, "consumer", "range", "a", "b")


def test_followers_wait_for_the_assignment_of_the_leader():
    world = World()
    world.join(new_id="a")
    world.join(new_id="b")
    world.join("a")
    waiting = world.sync("b")
    assert world.result(waiting) is None
    led = world.sync("a", {"a": b"1", "b": b"2"})
    assert world.result(waiting).assignment == b"2"
    assert world.result(led).assignment == b"1"


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment():
    world = World()
    world.join(new_id="a")
    assert world.result(world.sync("a", {})).assignment == b""


def test_a_sync_into_a_stable_group_returns_the_current_assignment():
    world = stable("a", "b")
    assert world.result(world.sync("b")).assignment == b"b"


def test_a_rejoin_of_the_leader_rebalances():
    world = stable("a", "b")
    world.join("a")
    assert world.group.state is ClassicState.PREPARING


def test_a_follower_that_rejoins_unchanged_gets_the_current_generation():
    world = stable("a", "b")
    again = world.join("b")
    assert world.result(again) == JoinResult(world.group.generation, "consumer", "range", "a", "b")
    assert world.group.state is ClassicState.STABLE


def test_a_follower_with_changed_metadata_rebalances():
    world = stable("a", "b")
    world.join("b", protocols=(("range", b"more topics"),))
    assert world.group.state is ClassicState.PREPARING


def test_a_lost_join_answer_can_be_asked_for_again_before_sync():
    world = World()
    world.join(new_id="a")
    again = world.join("a")
    assert world.result(again).members == (JoinedMember("a", None, b"r"),)
    assert world.group.generation == 1


def test_a_second_join_of_a_waiting_member_answers_the_first():
    world = stable("a", "b")
    first = world.join("a")
    second = world.join("a")
    assert world.error(first) is RebalanceInProgress
    assert world.result(second) is None


def test_a_change_while_syncing_sends_those_who_wait_back_to_join():
    world = stable("a", "b")
    world.join("a")
    world.join("b")
    waiting = world.sync("b")
    world.join(new_id="c")
    assert world.error(waiting) is RebalanceInProgress


# --- protocols ---------------------------------------------------------------------------------


def test_another_protocol_type_or_no_common_protocol_is_inconsistent():
    world = stable("a")
    assert world.error(world.join(protocol_type="connect")) is InconsistentProtocol
    assert world.error(world.join(protocols=(("sticky", b""),))) is InconsistentProtocol
    fresh = World()
    assert fresh.error(fresh.join(protocol_type="")) is InconsistentProtocol
    assert fresh.error(fresh.join(protocols=())) is InconsistentProtocol


def test_the_common_protocol_with_most_votes_wins():
    world = World()
    world.join(new_id="a", protocols=(("range", b"1"), ("sticky", b"2"), ("mine", b"")))
    world.join(new_id="b", protocols=(("sticky", b"3"), ("range", b"4")))
    third = world.join(new_id="c", protocols=(("sticky", b"5"), ("range", b"6")))
    world.join("a", protocols=(("range", b"1"), ("sticky", b"2"), ("mine", b"")))
    world.join("b", protocols=(("sticky", b"3"), ("range", b"4")))
    assert world.result(third).protocol_name == "sticky"


def test_sync_with_another_protocol_is_inconsistent():
    world = stable("a")
    assert world.error(world.sync("a", protocol_name="sticky")) is InconsistentProtocol
    assert world.error(world.sync("a", protocol_type="connect")) is InconsistentProtocol


# --- generations and unknown members -----------------------------------------------------------


def test_wrong_generation_and_unknown_member_are_told_apart():
    world = stable("a")
    with pytest.raises(IllegalGeneration):
        world.heartbeat("a", generation=7)
    with pytest.raises(UnknownMember):
        world.heartbeat("b")
    assert world.error(world.sync("a", generation=0)) is IllegalGeneration
    assert world.error(world.sync("b")) is UnknownMember


def test_sync_during_a_rebalance_says_so():
    world = stable("a")
    world.join(new_id="b")
    assert world.error(world.sync("a")) is RebalanceInProgress


# --- time --------------------------------------------------------------------------------------


def test_a_silent_member_expires_and_the_rest_rebalance():
    world = stable("a", "b")
    world.advance(SESSION_MS - 1)
    world.heartbeat("a")
    world.advance(1)
    assert list(world.group.member_ids()) == ["a"]
    assert world.group.state is ClassicState.PREPARING
    again = world.join("a")
    assert len(world.result(again).members) == 1


def test_the_last_member_to_expire_leaves_an_empty_group_of_the_next_generation():
    world = stable("a")
    world.advance(SESSION_MS)
    assert world.group.state is ClassicState.EMPTY
    assert world.group.generation == 2
    assert world.group.empty_since_ms == SESSION_MS
    assert world.group.next_deadline_ms() is None


def test_members_that_do_not_rejoin_in_time_are_dropped_and_the_lead_moves_on():
    world = stable("a", "b")
    joined = world.join(new_id="c")
    for _ in range(6):
        world.advance(9_000)
        for member_id in ("a", "b"):
            with pytest.raises(RebalanceInProgress):
                world.heartbeat(member_id)
    world.advance(6_000)
    assert world.result(joined).leader_id == "c"
    assert list(world.group.member_ids()) == ["c"]


def test_a_waiting_member_needs_no_heartbeats():
    world = stable("a", "b")
    joined = world.join("a")
    for _ in range(5):
        world.advance(9_000)
        with pytest.raises(RebalanceInProgress):
            world.heartbeat("b")
    world.join("b")
    assert world.result(joined).generation == world.group.generation


def test_a_new_member_left_behind_goes_after_the_join_timeout():
    world = stable("a", new_member_join_ms=15_000)
    joined = world.join(new_id="b")
    for _ in range(2):
        world.advance(7_500)
        with pytest.raises(RebalanceInProgress):
            world.heartbeat("a")
    assert world.error(joined) is UnknownMember
    assert list(world.group.member_ids()) == ["a"]


def test_members_that_never_sync_are_dropped_after_the_rebalance_timeout():
    world = World()
    world.join(new_id="a")
    world.join(new_id="b")
    world.join("a")
    waiting = world.sync("b")
    for _ in range(7):
        world.advance(9_000)
        if world.group.state is ClassicState.COMPLETING:
            world.heartbeat("a")
    assert world.error(waiting) is RebalanceInProgress
    assert list(world.group.member_ids()) == ["b"]


def test_the_first_rebalance_waits_for_more_members_and_again_when_some_came():
    world = World(initial_delay_ms=3_000)
    first = world.join(new_id="a")
    world.advance(2_000)
    second = world.join(new_id="b")
    world.advance(1_000)
    assert world.result(first) is None
    world.advance(2_999)
    assert world.result(first) is None
    world.advance(1)
    assert world.group.generation == 1
    assert world.result(first).leader_id == "a"
    assert world.result(second).leader_id == "a"


def test_the_first_rebalance_ends_when_the_rebalance_timeout_is_used_up():
    world = World(initial_delay_ms=3_000)
    first = world.join(new_id="m0", rebalance_timeout_ms=7_000)
    for second in range(1, 11):
        world.advance(1_000)
        world.join(new_id=f"m{second}", rebalance_timeout_ms=7_000)
        if world.result(first) is not None:
            break
    assert second == 7


def test_session_timeouts_have_bounds():
    world = World()
    assert world.error(world.join(session_timeout_ms=5_999)) is InvalidSessionTimeout
    assert world.error(world.join(session_timeout_ms=1_800_001)) is InvalidSessionTimeout


def test_a_full_group_refuses_new_members_and_keeps_its_own():
    world = stable("a", "b", max_members=2)
    assert world.error(world.join(new_id="c")) is GroupFull
    assert world.result(world.join("b")).member_id == "b"


# --- leaving -----------------------------------------------------------------------------------


def test_leaving_rebalances_the_rest_at_once():
    world = stable("a", "b")
    assert world.leave(Leaver("b")) == [LeaveResult("b", None)]
    assert world.group.state is ClassicState.PREPARING
    assert world.leave(Leaver("a")) == [LeaveResult("a", None)]
    assert world.group.state is ClassicState.EMPTY


def test_a_batch_of_leavers_is_answered_one_by_one():
    world = stable("a", "b")
    results = world.leave(Leaver("a"), Leaver("nobody"), Leaver("b"))
    assert [type(result.error) for result in results] == [type(None), UnknownMember, type(None)]
    assert world.group.state is ClassicState.EMPTY


def test_a_member_that_leaves_while_it_waits_gets_its_answer():
    world = stable("a", "b")
    joined = world.join("a")
    world.leave(Leaver("a"))
    assert world.error(joined) is UnknownMember


# --- static members ----------------------------------------------------------------------------


def static(world: World, instance_id: str, member_id: str, **more) -> str:
    return world.join(new_id=member_id, instance_id=instance_id, id_required=True, **more)


def stable_static() -> World:
    """x (static, leads) and y (static) are stable."""
    world = World()
    static(world, "ix", "x")
    static(world, "iy", "y")
    world.join("x", instance_id="ix")
    world.sync("y")
    world.sync("x", {"x": b"for x", "y": b"for y"})
    return world


def test_a_static_member_is_not_asked_to_join_again():
    world = World()
    assert world.result(static(world, "ix", "x")).member_id == "x"


def test_a_static_member_that_comes_back_takes_its_place_without_a_rebalance():
    world = stable_static()
    generation = world.group.generation
    joined = static(world, "iy", "y2")
    assert world.result(joined) == JoinResult(generation, "consumer", "range", "x", "y2")
    assert world.result(world.sync("y2", instance_id="iy")).assignment == b"for y"
    assert world.group.state is ClassicState.STABLE
    with pytest.raises(FencedInstanceId):
        world.heartbeat("y", instance_id="iy")
    with pytest.raises(UnknownMember):
        world.heartbeat("y")
    assert world.error(world.join("y", instance_id="iy")) is FencedInstanceId


def test_a_static_leader_that_comes_back_keeps_the_lead_and_skips_the_assignment():
    world = stable_static()
    result = world.result(static(world, "ix", "x2"))
    assert (result.leader_id, result.skip_assignment, len(result.members)) == ("x2", True, 2)


def test_a_static_leader_of_an_old_client_is_told_that_its_former_self_leads():
    world = stable_static()
    result = world.result(static(world, "ix", "x2", skips_assignment=False))
    assert (result.leader_id, result.skip_assignment, result.members) == ("x", False, ())


def test_a_static_member_that_comes_back_while_others_sync_rebalances():
    world = World()
    static(world, "ix", "x")
    static(world, "iy", "y")
    world.join("x", instance_id="ix")
    waiting = world.sync("y", instance_id="iy")
    static(world, "iy", "y2")
    assert world.error(waiting) is FencedInstanceId
    assert world.group.state is ClassicState.PREPARING


def test_a_static_member_that_misses_a_rebalance_stays_until_its_session_ends():
    world = stable_static()
    joined = world.join(new_id="z", session_timeout_ms=SESSION_MS, rebalance_timeout_ms=8_000)
    world.join("x", instance_id="ix", rebalance_timeout_ms=8_000)
    for _ in range(8):
        world.advance(8_000)
        try:
            world.heartbeat("y", instance_id="iy")
        except RebalanceInProgress:
            continue
        except IllegalGeneration:
            break
    assert "y" in world.group.member_ids()
    assert world.result(joined).generation == world.group.generation


def test_an_operator_removes_a_static_member_by_its_instance():
    world = stable_static()
    assert world.leave(Leaver("", "iy"), Leaver("", "nobody"))[0] == LeaveResult("", "iy")
    assert list(world.group.member_ids()) == ["x"]


def test_leaving_with_a_fenced_id_is_refused():
    world = stable_static()
    static(world, "iy", "y2")
    (result,) = world.leave(Leaver("y", "iy"))
    assert type(result.error) is FencedInstanceId


# --- commits, admin ----------------------------------------------------------------------------


def test_commits_of_members_are_checked_and_count_as_heartbeats():
    world = stable("a")
    world.advance(SESSION_MS - 1)
    world.group.check_commit("a", None, world.group.generation, world.now_ms)
    world.advance(SESSION_MS - 1)
    assert world.group.state is ClassicState.STABLE
    with pytest.raises(IllegalGeneration):
        world.group.check_commit("a", None, 7, world.now_ms)
    with pytest.raises(UnknownMember):
        world.group.check_commit("b", None, 1, world.now_ms)


def test_a_commit_from_outside_needs_an_empty_group_unless_in_a_transaction():
    World().group.check_commit("", None, -1, 0)
    world = stable("a")
    with pytest.raises(UnknownMember):
        world.group.check_commit("", None, -1, 0)
    world.group.check_commit("", None, -1, 0, in_txn=True)


def test_a_commit_between_join_and_sync_says_rebalance_in_progress():
    world = World()
    world.join(new_id="a")
    with pytest.raises(RebalanceInProgress):
        world.group.check_commit("a", None, 1, 0)
    world.group.check_commit("a", None, 1, 0, in_txn=True)


def test_a_commit_during_the_join_phase_is_still_allowed():
    world = stable("a")
    world.join(new_id="b")
    world.group.check_commit("a", None, world.group.generation, 0)


def test_only_an_empty_group_can_be_deleted():
    world = stable("a")
    with pytest.raises(GroupNotEmpty):
        world.group.check_delete()
    world.group.check_offsets_delete()
    world.leave(Leaver("a"))
    world.group.check_delete()
    world.group.close(GroupNotFound("g"))
    with pytest.raises(GroupNotFound):
        world.group.check_delete()


def test_offsets_of_a_live_group_that_reads_no_topics_cannot_be_deleted():
    world = World()
    world.join(new_id="w", protocol_type="connect")
    with pytest.raises(GroupNotEmpty):
        world.group.check_offsets_delete()


def test_describe_shows_members_and_only_a_stable_protocol():
    world = stable("a", "b")
    view = world.group.describe()
    assert (view.state.value, view.protocol_type, view.protocol_name) == ("Stable", "consumer", "range")
    assert [(one.member_id, one.metadata, one.assignment) for one in view.members] == [
        ("a", b"r", b"a"),
        ("b", b"r", b"b"),
    ]
    world.join(new_id="c")
    view = world.group.describe()
    assert (view.state.value, view.protocol_name, view.members[0].metadata) == ("PreparingRebalance", "", b"")


def test_closing_answers_everyone_who_waits():
    world = stable("a", "b")
    joined = world.join("a")
    world.collect(world.group.close(CoordinatorClosing("g")))
    assert world.error(joined) is CoordinatorClosing
    assert world.group.state is ClassicState.DEAD
    assert world.group.next_deadline_ms() is None
    assert world.error(world.join(new_id="b")) is CoordinatorClosing


def test_every_state_has_its_row():
    assert set(TRANSITIONS) == set(ClassicState)
