"""Histories of a consumer-protocol group."""

import pytest

from mainstem.kernel.groups.consumer import ConsumerGroup
from mainstem.kernel.groups.consumer_messages import (
    ConsumerHeartbeat,
    ConsumerLimits,
    ConsumerState,
    HeartbeatResult,
    TopicInfo,
)
from mainstem.model.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupFull,
    GroupNotEmpty,
    IllegalGeneration,
    InvalidRegularExpression,
    InvalidRequest,
    StaleMemberEpoch,
    UnknownMember,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)

ORDERS, USERS = b"o" * 16, b"u" * 16


class FakeTopics:
    def __init__(self, **topics: tuple[bytes, int]) -> None:
        self.version = 0
        self.by_name = {name: TopicInfo(*info) for name, info in topics.items()}

    def put(self, name, topic_id, partitions):
        self.by_name[name] = TopicInfo(topic_id, partitions)
        self.version += 1

    def drop(self, name):
        del self.by_name[name]
        self.version += 1

    def get(self, name):
        return self.by_name.get(name)

    def names(self):
        return self.by_name


class World:
    def __init__(self, **limits):
        self.now_ms = 0
        self.topics = FakeTopics(orders=(ORDERS, 4))
        self.group = ConsumerGroup("g", 0, ConsumerLimits(**limits))

    def join(self, member_id, names=("orders",), **more) -> HeartbeatResult:
        fields = {
            "rebalance_timeout_ms": 30_000,
            "owned": frozenset(),
            "topic_names": None if names is None else frozenset(names),
            **more,
        }
        return self.group.heartbeat(ConsumerHeartbeat(member_id, 0, **fields), self.topics, self.now_ms)

    def beat(self, member_id, epoch, owned=None, **more) -> HeartbeatResult:
        owned = None if owned is None else frozenset(owned)
        request = ConsumerHeartbeat(member_id, epoch, owned=owned, **more)
        return self.group.heartbeat(request, self.topics, self.now_ms)

    def advance(self, ms):
        until_ms = self.now_ms + ms
        while (at_ms := self.group.next_deadline_ms()) is not None and at_ms <= until_ms:
            self.now_ms = at_ms
            self.group.tick(at_ms)
        self.now_ms = until_ms


def orders(*partitions: int):
    return frozenset((ORDERS, partition) for partition in partitions)


def two_members() -> World:
    """a and b, reconciled at epoch 2, two partitions each."""
    world = World()
    world.join("a")
    world.join("b")
    told = world.beat("a", 1, orders(0, 1, 2, 3)).assignment
    world.beat("a", 1, told)
    world.beat("b", 2)
    assert world.group.state is ConsumerState.STABLE
    return world


def assigned(world, member_id):
    return next(one.assigned for one in world.group.describe().members if one.member_id == member_id)


def test_the_first_member_gets_everything_with_its_join():
    world = World()
    assert world.join("a") == HeartbeatResult("a", 1, 5_000, orders(0, 1, 2, 3))
    assert world.group.state is ConsumerState.STABLE


def test_a_member_without_id_gets_one():
    world = World()
    assert world.join("", new_member_id="made").member_id == "made"


def test_a_plain_heartbeat_is_answered_without_the_assignment():
    world = World()
    world.join("a")
    assert world.beat("a", 1).assignment is None


def test_a_full_heartbeat_is_answered_with_the_assignment():
    world = World()
    world.join("a")
    again = world.beat(
        "a", 1, orders(0, 1, 2, 3), rebalance_timeout_ms=30_000, topic_names=frozenset({"orders"})
    )
    assert again.assignment == orders(0, 1, 2, 3)


def test_a_partition_moves_only_after_its_owner_says_it_gave_it_up():
    world = World()
    world.join("a")
    assert world.join("b") == HeartbeatResult("b", 2, 5_000, frozenset())
    revoke = world.beat("a", 1, orders(0, 1, 2, 3))
    assert (revoke.member_epoch, len(revoke.assignment)) == (1, 2)
    assert world.beat("b", 2).assignment is None
    assert world.beat("a", 1).member_epoch == 1
    assert world.group.state is ConsumerState.RECONCILING
    assert world.beat("a", 1, revoke.assignment).member_epoch == 2
    assert world.beat("b", 2).assignment == orders(0, 1, 2, 3) - revoke.assignment
    assert world.group.state is ConsumerState.STABLE


def test_those_of_a_leaver_are_free_at_once():
    world = two_members()
    assert world.beat("b", -1).member_epoch == -1
    assert world.group.state is ConsumerState.ASSIGNING
    assert world.beat("a", 2) == HeartbeatResult("a", 3, 5_000, orders(0, 1, 2, 3))


def test_a_silent_member_is_put_out_and_unknown_afterwards():
    world = two_members()
    world.advance(44_999)
    world.beat("a", 2)
    world.advance(1)
    assert world.beat("a", 2).assignment == orders(0, 1, 2, 3)
    with pytest.raises(UnknownMember):
        world.beat("b", 2)


def test_a_member_that_does_not_give_up_in_time_is_put_out():
    world = World()
    world.join("a")
    world.join("b")
    world.beat("a", 1, orders(0, 1, 2, 3))
    for _ in range(3):
        world.advance(10_000)
        if world.now_ms < 30_000:
            world.beat("a", 1, orders(0, 1, 2, 3))
        world.beat("b", 2 if world.now_ms < 30_000 else world.group.describe().members[0].member_epoch)
    with pytest.raises(UnknownMember):
        world.beat("a", 1)
    assert assigned(world, "b") == orders(0, 1, 2, 3)


def test_the_last_member_to_leave_leaves_an_empty_group():
    world = World()
    world.join("a")
    world.now_ms = 7
    world.beat("a", -1)
    assert (world.group.state, world.group.empty_since_ms) == (ConsumerState.EMPTY, 7)
    assert world.group.next_deadline_ms() is None
    world.group.check_delete()


def test_a_wrong_epoch_is_fenced_but_the_previous_one_passes_if_what_is_owned_fits():
    world = two_members()
    with pytest.raises(FencedMemberEpoch):
        world.beat("a", 3)
    with pytest.raises(FencedMemberEpoch):
        world.beat("a", 1)
    with pytest.raises(FencedMemberEpoch):
        world.beat("a", 1, orders(0, 1, 2, 3))
    again = world.beat("a", 1, assigned(world, "a"))
    assert (again.member_epoch, again.assignment) == (2, assigned(world, "a"))


def test_a_lost_join_answer_is_given_again():
    world = World()
    assert world.join("a") == world.join("a")
    assert world.group.epoch == 1


def test_a_fenced_member_that_joins_again_starts_from_nothing_and_gets_its_share():
    world = two_members()
    world.beat("a", 2)
    world.join("c")
    world.beat("a", 2, assigned(world, "a"))
    back = world.join("b")
    assert back.member_epoch == world.group.epoch
    assert back.assignment <= orders(0, 1, 2, 3) - assigned(world, "a")


def test_a_changed_subscription_makes_a_new_assignment():
    world = two_members()
    world.topics.put("users", USERS, 2)
    result = world.beat("a", 2, assigned(world, "a"), topic_names=frozenset({"users"}))
    assert result.assignment <= {(USERS, 0), (USERS, 1)} | assigned(world, "a")
    assert world.group.epoch == 3


def test_partitions_added_to_a_topic_are_given_out():
    world = World()
    world.join("a")
    world.topics.put("orders", ORDERS, 6)
    assert world.beat("a", 1) == HeartbeatResult("a", 2, 5_000, orders(0, 1, 2, 3, 4, 5))


def test_a_topic_that_comes_later_or_goes_changes_the_assignment():
    world = World()
    world.join("a", ["orders", "users"])
    world.topics.put("users", USERS, 1)
    assert (USERS, 0) in world.beat("a", 1).assignment
    world.topics.drop("orders")
    told = world.beat("a", 2, orders(0, 1, 2, 3) | {(USERS, 0)}).assignment
    assert told == {(USERS, 0)}


def test_an_unrelated_topic_changes_nothing():
    world = World()
    world.join("a")
    world.topics.put("other", USERS, 1)
    assert world.beat("a", 1) == HeartbeatResult("a", 1, 5_000)


def test_a_pattern_finds_topics_now_and_soon_after_they_come():
    world = World()
    first = world.join("a", None, topic_regex="ord.*|use.*")
    assert first.assignment == orders(0, 1, 2, 3)
    world.topics.put("users", USERS, 1)
    assert world.beat("a", 1).assignment is None
    world.advance(5_000)
    assert (USERS, 0) in world.beat("a", 1).assignment
    assert world.group.reads("users")
    gone = world.beat("a", 2, topic_regex="", topic_names=frozenset({"users"}))
    assert gone.assignment == {(USERS, 0)}


def test_a_bad_pattern_is_refused_and_changes_nothing():
    world = World()
    with pytest.raises(InvalidRegularExpression):
        world.join("a", None, topic_regex="(")
    assert world.group.idle


def test_members_choose_the_assignor_by_majority():
    world = World()
    world.join("a", assignor="range")
    assert world.group.describe().assignor == "range"
    with pytest.raises(UnsupportedAssignor):
        world.join("b", assignor="clever")


@pytest.mark.parametrize(
    "request_",
    [
        ConsumerHeartbeat("a", 0, owned=frozenset(), topic_names=frozenset()),
        ConsumerHeartbeat("a", 0, rebalance_timeout_ms=1, topic_names=frozenset()),
        ConsumerHeartbeat("a", 0, rebalance_timeout_ms=1, owned=orders(1), topic_names=frozenset()),
        ConsumerHeartbeat("a", 0, rebalance_timeout_ms=1, owned=frozenset()),
        ConsumerHeartbeat("", 1),
        ConsumerHeartbeat("a", -2),
        ConsumerHeartbeat("a", -3),
        ConsumerHeartbeat("a", 1, instance_id=""),
        ConsumerHeartbeat("a", 1, rack_id=""),
    ],
)
def test_a_heartbeat_that_makes_no_sense_is_refused(request_):
    world = World()
    with pytest.raises(InvalidRequest):
        world.group.heartbeat(request_, world.topics, 0)
    assert world.group.idle


def test_a_full_group_takes_nobody_new():
    world = World(max_members=1)
    world.join("a")
    with pytest.raises(GroupFull):
        world.join("b")
    world.beat("a", 1)


# --- static members ----------------------------------------------------------------------------


def static_pair() -> World:
    world = World()
    world.join("a", instance_id="ia")
    world.join("b", instance_id="ib")
    told = world.beat("a", 1, orders(0, 1, 2, 3)).assignment
    world.beat("a", 1, told)
    world.beat("b", 2)
    return world


def test_a_static_member_that_left_for_a_while_keeps_its_partitions_for_its_return():
    world = static_pair()
    mine = assigned(world, "b")
    assert world.beat("b", -2, instance_id="ib").member_epoch == -2
    assert world.beat("a", 2).assignment is None
    assert world.group.epoch == 2
    back = world.join("b2", instance_id="ib")
    assert (back.member_epoch, back.assignment) == (2, mine)
    with pytest.raises(FencedInstanceId):
        world.beat("b", 2, instance_id="ib")
    assert world.group.state is ConsumerState.STABLE


def test_an_instance_id_in_use_is_not_released():
    world = static_pair()
    with pytest.raises(UnreleasedInstanceId):
        world.join("b2", instance_id="ib")


def test_a_static_member_that_stays_away_loses_its_place():
    world = static_pair()
    world.beat("b", -2, instance_id="ib")
    world.advance(44_999)
    world.beat("a", 2)
    world.advance(1)
    assert world.beat("a", 2).assignment == orders(0, 1, 2, 3)
    assert world.join("b2", instance_id="ib").member_epoch == 4


def test_a_static_member_can_leave_for_good():
    world = static_pair()
    world.beat("b", -1, instance_id="ib")
    assert world.beat("a", 2).assignment == orders(0, 1, 2, 3)


# --- commits -----------------------------------------------------------------------------------


def test_commits_need_the_current_epoch_of_a_member():
    world = two_members()
    world.group.check_commit("a", None, 2, 0)
    with pytest.raises(StaleMemberEpoch):
        world.group.check_commit("a", None, 1, 0)
    with pytest.raises(IllegalGeneration):
        world.group.check_commit("a", None, 1, 0, in_txn=True)
    with pytest.raises(UnknownMember):
        world.group.check_commit("", None, -1, 0)
    World().group.check_commit("", None, -1, 0)


def test_offsets_may_be_read_by_anyone_who_does_not_claim_to_be_a_member():
    world = two_members()
    world.group.check_fetch(None, -1)
    world.group.check_fetch("a", 2)
    with pytest.raises(StaleMemberEpoch):
        world.group.check_fetch("a", 1)
    with pytest.raises(UnknownMember):
        world.group.check_fetch("x", 1)


def test_a_group_with_members_cannot_be_deleted():
    with pytest.raises(GroupNotEmpty):
        two_members().group.check_delete()


def test_describe_tells_has_and_is_to_have_apart():
    world = World()
    world.join("a", client_id="app", client_host="/127.0.0.1", rack_id="r1")
    world.join("b")
    view = world.group.describe()
    first, second = view.members
    assert (first.assigned, len(first.target), first.client_id, first.rack_id) == (
        orders(0, 1, 2, 3),
        2,
        "app",
        "r1",
    )
    assert (second.assigned, len(second.target)) == (frozenset(), 2)
    assert (view.group_epoch, view.assignment_epoch, view.assignor) == (2, 2, "uniform")
