"""What members of consumer and share groups want, and what follows from it, has bounds."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest
from test_consumer_group import World
from test_share_group import FakeTopics

from mainstem.kernel.groups.consumer_messages import ConsumerLimits
from mainstem.kernel.groups.room import Room, group_bytes
from mainstem.kernel.groups.share import ShareGroup
from mainstem.kernel.groups.share_messages import ShareHeartbeat, ShareLimits
from mainstem.model.errors import GroupFull, GroupNotFound

SESSION_MS = 45_000
EMPTY = group_bytes("g")  # what a group takes that had members


def names(count: int, prefix: str = "n") -> frozenset[str]:
    """Of topics that need not exist."""
    return frozenset(f"{prefix}-{number}" for number in range(count))


def held(world: World | ShareWorld) -> int:
    return world.group._holding.held


def memory_of(work: Callable[[], None]) -> int:
    """Bytes more than before, as Python counts them."""
    gc.collect()
    tracemalloc.start()
    work()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return taken


class ShareWorld:
    def __init__(self, max_group_bytes: int = 64 << 20, room: Room | None = None) -> None:
        self.topics = FakeTopics()
        self.group = ShareGroup("g", 0, room)
        self.limits = ShareLimits(SESSION_MS, max_group_bytes=max_group_bytes)

    def beat(self, member, epoch, topics=None, **more):
        request = ShareHeartbeat(member, epoch, topic_names=topics, **more)
        return self.group.heartbeat(request, self.topics, 0, self.limits)

    def join(self, member, topics=frozenset({"t"}), **more):
        return self.beat(member, 0, topics, **more)


# --- consumer groups -----------------------------------------------------------------------------


def test_a_consumer_that_names_too_many_topics_is_refused_and_nothing_changes():
    world = World(max_group_bytes=50_000)
    with pytest.raises(GroupFull):
        world.join("a", names(1000))
    assert world.group.idle
    assert (held(world), world.group.epoch) == (0, 0)
    world.join("a", names(10))
    before = held(world)
    with pytest.raises(GroupFull):
        world.join("b", names(1000))
    with pytest.raises(GroupFull):
        world.beat("a", 1, topic_names=names(1000, "other"))
    assert held(world) == before
    assert world.group.describe().members[0].topic_names == names(10)
    assert world.beat("a", 1).member_epoch == 1


def test_a_consumer_gives_back_what_it_does_not_want_any_more():
    world = World(max_group_bytes=100_000)
    world.join("a", names(400))
    with pytest.raises(GroupFull):
        world.join("b", names(400, "b"))
    most = held(world)
    world.beat("a", 1, topic_names=frozenset({"orders"}))
    assert held(world) < most / 5
    world.join("b", names(400, "b"))


@pytest.mark.parametrize(
    "how", ["leaves", "is silent", "is fenced as a static member", "the group is deleted"]
)
def test_what_a_consumer_held_is_given_back_when_it_goes(how):
    world = World()
    world.join("a", names(100), instance_id="one" if "static" in how else None, client_id="c" * 1000)
    world.topics.put("n-5", b"5" * 16, 7)
    world.beat("a", 1)
    assert held(world) > 100 * 100
    if how == "leaves":
        world.beat("a", -1)
    elif how == "the group is deleted":
        world.group.close(GroupNotFound("g"))
    else:
        if "static" in how:
            world.beat("a", -2, instance_id="one")
            world.join("b", ("orders",), instance_id="one")
            assert held(world) < 100 * 100
        world.advance(SESSION_MS)
    assert held(world) == (0 if "deleted" in how else EMPTY)


def test_members_that_want_the_same_take_it_once():
    world = World()
    world.join("a", names(1000))
    one = held(world)
    for number in range(20):
        world.join(f"m{number}", names(1000))
    assert held(world) < 2 * one
    world.beat("a", -1)
    assert held(world) > one
    assert world.group.reads("n-999")


def test_a_member_whose_wish_shrinks_is_let_in_even_where_there_is_no_room():
    world = World(max_group_bytes=1_000_000)
    world.join("a", names(1000))
    world.group._limits = ConsumerLimits(max_group_bytes=10)
    assert world.beat("a", 1, topic_names=names(999)).member_epoch == 2
    with pytest.raises(GroupFull):
        world.beat("a", 2, topic_names=names(1001))


def test_what_a_pattern_matches_is_counted_before_it_is_kept():
    world = World(max_group_bytes=100_000)
    for number in range(1000):
        world.topics.put(f"t-{number}", b"%016d" % number, 1)
    with pytest.raises(GroupFull):
        world.join("a", None, topic_regex="t-.*")
    assert world.group.idle
    assert not world.group._subscriptions._patterns
    assert world.join("a", None, topic_regex="t-1.").assignment


def test_partitions_are_counted_also_when_they_come_later():
    world = World(max_group_bytes=100_000)
    world.join("a")
    before = held(world)
    world.topics.put("orders", b"o" * 16, 1000)
    assert len(world.beat("a", 1).assignment) == 1000
    assert held(world) > before + 100_000
    with pytest.raises(GroupFull):
        world.join("b")


def test_ids_that_clients_choose_are_counted_whenever_they_grow():
    world = World(max_group_bytes=20_000)
    world.join("a", client_id="short")
    with pytest.raises(GroupFull):
        world.join("b", client_id="c" * 30_000)
    before = held(world)
    world.beat("a", 1, client_id="c" * 10_000)
    assert held(world) == before + 10_000 - len("short")
    world.beat("a", 1, client_id="")
    world.beat("a", -1)
    assert held(world) == EMPTY


def test_a_consumer_that_wants_nothing_new_is_not_refused_but_keeps_its_old_names_where_room_is_lacking():
    world = World(max_group_bytes=20_000)
    world.join("a", client_id="c", client_host="here")
    world.topics.put("orders", b"o" * 16, 1000)
    longer = {"client_id": "c" * 100, "client_host": "elsewhere", "rack_id": "r"}
    assert len(world.beat("a", 1, client_id="c", client_host="here").assignment) == 1000
    before = held(world)
    assert before > 300_000
    epoch = world.join("a", **longer).member_epoch  # it was fenced, and says all that it said before
    assert world.beat("a", epoch, topic_names=frozenset({"orders"}), **longer).member_epoch == epoch
    me = world.group.describe().members[0]
    assert (me.client_id, me.client_host, me.rack_id) == ("c", "here", None)
    assert held(world) == before
    with pytest.raises(GroupFull):
        world.beat("a", epoch, topic_names=frozenset({"orders", "more"}), **longer)
    world.beat("a", epoch, client_id="d")
    assert world.group.describe().members[0].client_id == "d"


def test_a_longer_id_that_a_static_member_comes_back_with_needs_room():
    world = World(max_group_bytes=20_000)
    world.join("a", instance_id="one")
    world.beat("a", -2, instance_id="one")
    with pytest.raises(GroupFull):
        world.join("b" * 20_000, instance_id="one")
    world.group._limits = ConsumerLimits(max_group_bytes=10)
    assert world.join("b", instance_id="one").member_id == "b"


def test_a_hundred_thousand_topics_of_three_partitions_fit_also_after_a_restart():
    world = World()
    for number in range(100_000):
        world.topics.put(f"some-topic-{number}", b"%016d" % number, 3)
    for _ in range(2):
        assert len(world.join("a", None, topic_regex="some.*").assignment) == 300_000
        world.beat("a", -1)


def test_a_hundred_thousand_topics_fit_by_name():
    world = World()
    for number in range(100_000):
        world.topics.put(f"some-topic-{number}", b"%016d" % number, 1)
    assert len(world.join("a", names(100_000, "some-topic")).assignment) == 100_000


def test_a_refusal_names_the_setting_that_has_to_grow():
    world = World(max_group_bytes=50_000)
    with pytest.raises(GroupFull, match=r"groups\.max_subscription_bytes is 50000"):
        world.join("a", names(1000))
    world = World(max_total_bytes=50_000)
    with pytest.raises(GroupFull, match=r"groups\.max_total_subscription_bytes is 50000"):
        world.join("a", names(1000))
    share = ShareWorld(50_000)
    with pytest.raises(GroupFull, match=r"groups\.max_subscription_bytes is 50000"):
        share.join("a", names(1000))


# --- what members hold and nobody wants ----------------------------------------------------------


def holder(partitions: int = 20_000, **more) -> World:
    """A member with many partitions of a topic."""
    world = World()
    world.topics.put("big", b"b" * 16, partitions)
    world.join("a", ("big",), **more)
    return world


def big(*partitions: int) -> list[tuple[bytes, int]]:
    return [(b"b" * 16, partition) for partition in partitions]


def test_partitions_that_a_member_does_not_give_up_take_what_is_counted_for_them():
    kept: list[World] = []

    def work() -> None:
        kept.append(holder())
        kept[0].beat("a", 1, topic_names=frozenset({"x"}))

    assert memory_of(work) < held(kept[0])
    assert len(kept[0].group._owners) == 20_000
    before = held(kept[0])
    kept[0].beat("a", 1)
    assert held(kept[0]) == before
    kept[0].beat("a", 1, owned=())
    assert held(kept[0]) < before / 100


def test_partitions_of_a_topic_that_is_gone_are_counted_until_they_are_given_up():
    world = holder()
    world.topics.drop("big")
    world.beat("a", 1)
    assert held(world) > 20_000 * 100
    world.beat("a", 1, owned=())
    assert held(world) < 20_000


def test_partitions_of_a_target_that_are_with_another_member_take_what_is_counted_for_them():
    kept: list[World] = []

    def work() -> None:
        kept.append(holder(assignor="range"))
        for member in ("b", "c"):  # the target's partitions are not the objects that `a` has
            kept[0].join(member, ("big",), assignor="range")

    assert memory_of(work) < held(kept[0])


@pytest.mark.parametrize("slowly", [False, True])
def test_partitions_that_were_given_up_leave_no_memory_behind(slowly):
    kept: list[World] = []

    def work() -> None:
        world = holder()
        for left in (10_000, 3_000, 700, 100, 1) if slowly else (1,):
            world.topics.put("big", b"%016d" % left, left)  # under another id, so what is held has to go
            result = world.beat("a", world.group._members["a"].epoch)
            world.beat("a", result.member_epoch, owned=())
        assert len(world.group._owners) == 1
        kept.append(world)

    # CPython keeps some thousand free tuples for its own use.
    assert memory_of(work) < held(kept[0]) + 250_000


def test_what_a_static_member_was_giving_up_is_not_counted_when_it_goes_for_a_while():
    world = holder(instance_id="one")
    world.beat("a", 1, topic_names=frozenset({"x"}), instance_id="one")
    assert held(world) > 20_000 * 100
    world.beat("a", -2, instance_id="one")
    assert held(world) < 20_000


def test_room_for_what_a_member_will_hold_is_asked_for_when_it_joins():
    world = World(max_group_bytes=250_000)
    world.topics.put("big", b"b" * 16, 1000)
    with pytest.raises(GroupFull):
        world.join("a", ("big",))
    world.group._limits = ConsumerLimits(max_group_bytes=350_000)
    world.join("a", ("big",))
    assert 250_000 < held(world) <= 350_000


# --- share groups --------------------------------------------------------------------------------


def test_a_member_of_a_share_group_that_names_too_many_topics_is_refused_and_nothing_changes():
    world = ShareWorld(50_000)
    with pytest.raises(GroupFull):
        world.join("a", names(1000))
    assert world.group.idle
    assert (held(world), world.group.epoch) == (0, 0)
    world.join("a")
    before = held(world)
    with pytest.raises(GroupFull):
        world.beat("a", 1, names(1000))
    assert held(world) == before
    assert world.group.describe().members[0].topic_names == {"t"}
    assert world.beat("a", 1).member_epoch == 1


def test_a_member_of_a_share_group_that_wants_nothing_new_is_not_refused_where_room_is_lacking():
    world = ShareWorld()
    world.join("a", client_id="c", client_host="here")
    world.limits = ShareLimits(SESSION_MS, max_group_bytes=10)
    before = held(world)
    for topics in (None, frozenset({"t"})):
        world.beat("a", 1, topics, client_id="c" * 100, client_host="elsewhere", rack_id="r")
    me = world.group.describe().members[0]
    assert (me.client_id, me.client_host, me.rack_id) == ("c", "here", None)
    assert held(world) == before
    with pytest.raises(GroupFull):
        world.beat("a", 1, frozenset({"t", "u"}))
    world.beat("a", 1, client_id="d")
    assert world.group.describe().members[0].client_id == "d"


@pytest.mark.parametrize("how", ["leaves", "is silent", "the group is deleted"])
def test_what_a_member_of_a_share_group_held_is_given_back_when_it_goes(how):
    world = ShareWorld()
    world.join("a", names(100))
    world.join("b", names(100, "b") | {"t"}, rack_id="r")
    assert held(world) > 200 * 100
    world.beat("b", 2, frozenset({"t"}))
    assert held(world) - EMPTY < 200 * 100
    if how == "leaves":
        world.beat("a", -1)
        world.beat("b", -1)
    elif how == "is silent":
        world.group.tick(SESSION_MS)
    else:
        world.group.close(GroupNotFound("g"))
    assert held(world) == (0 if "deleted" in how else EMPTY)


def test_members_of_a_share_group_that_have_not_heard_of_a_new_target_hold_no_copy_of_their_own():
    world = ShareWorld()
    for number in range(10):
        world.join(f"m{number}")
    told = [one for one in world.group._members.values() if one.epoch > 2]  # by then all read all
    assert len(told) == 8
    assert len({id(one.assigned) for one in told}) == 1


def test_what_members_of_a_share_group_were_told_and_still_are_to_read_is_counted_once():
    world = ShareWorld()
    world.topics.counts["t"] = 100
    for number in range(101):
        world.join(f"m{number:03}")
    for number in range(101):
        world.beat(f"m{number:03}", world.group._members[f"m{number:03}"].epoch)
    before = held(world)
    world.join("m101")
    assert held(world) < before  # what was told before all read all has gone
    assert world.group._outdated_size == 0


def test_members_that_heard_of_assignments_far_apart_hold_no_copy_of_their_own():
    """All read all, but for moments: between one member's leaving and the next one's joining each partition
    has one member."""
    world = ShareWorld()
    world.topics.counts["t"] = 50
    for number in range(50):
        world.join(f"m{number}")
    world.join("x")
    for number in range(1, 50):
        world.beat(f"m{number}", world.group._members[f"m{number}"].epoch)
        world.beat("x", -1)
        world.beat("m0", world.group._members["m0"].epoch)
        world.join("x")
    told = [one.assigned for one in world.group._members.values() if len(one.assigned) == 50]
    assert len(told) > 40
    assert len({id(one) for one in told}) == 1


def test_what_members_of_a_share_group_were_told_is_counted_although_no_target_has_it():
    kept: list[ShareWorld] = []

    def work() -> None:
        world = ShareWorld()
        world.topics.counts["t"] = 2000
        for number in range(100):  # each is told its share of the time, and never asks again
            world.join(f"m{number}")
        kept.append(world)

    assert memory_of(work) < held(kept[0])
    group = kept[0].group
    assert sum(len(one.assigned) for one in group._members.values()) > 5 * 2000
    before = held(kept[0])
    for number in range(100):
        kept[0].beat(f"m{number}", group._members[f"m{number}"].epoch)
    kept[0].beat("m0", -1)
    kept[0].beat("m1", group._members["m1"].epoch)
    assert held(kept[0]) < before / 2
    for number in range(1, 100):
        kept[0].beat(f"m{number}", -1)
    assert held(kept[0]) == EMPTY
