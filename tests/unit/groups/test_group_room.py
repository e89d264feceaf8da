"""Consumer and share groups have one room for their members: large ones do not lock small ones out of it."""

from __future__ import annotations

from functools import partial

import pytest
from test_consumer_group import World
from test_group_registry import TOPICS, registry
from test_group_registry import join as classic_join
from test_newer_group_memory import EMPTY, SESSION_MS, ShareWorld, held, memory_of, names

from mainstem.kernel.groups import registry as registry_module
from mainstem.kernel.groups.consumer import ConsumerGroup
from mainstem.kernel.groups.consumer_messages import ConsumerHeartbeat, ConsumerLimits
from mainstem.kernel.groups.offsets import GroupOffsets
from mainstem.kernel.groups.registry import Groups
from mainstem.kernel.groups.room import SMALL_GROUP_BYTES, Holding, Room, group_bytes
from mainstem.kernel.groups.share_messages import ShareHeartbeat, ShareLimits
from mainstem.model.errors import CoordinatorClosing, GroupFull, UnknownMember


def consumer(groups: Groups, group_id: str, epoch: int = 0, wanted: int = 200) -> None:
    request = ConsumerHeartbeat(
        "m",
        epoch,
        rebalance_timeout_ms=1_000,
        topic_names=names(wanted) if epoch == 0 else None,
        owned=frozenset(),
    )
    groups.consumer_heartbeat(group_id, request, TOPICS, 0)


def share(groups: Groups, group_id: str, epoch: int = 0, wanted: int = 200) -> None:
    request = ShareHeartbeat("m", epoch, topic_names=names(wanted) if epoch == 0 else None)
    groups.share_heartbeat(group_id, request, TOPICS, 0, ShareLimits())


def test_consumer_and_share_groups_share_one_room_apart_from_the_classic_ones():
    groups = Groups(GroupOffsets(), 0, None, ConsumerLimits(max_total_bytes=80_000))
    room = groups._assigned_room
    consumer(groups, "first")
    share(groups, "second")
    for refused in (consumer, share):
        with pytest.raises(GroupFull):
            refused(groups, "third")
    assert groups.ids() == ["first", "second"]
    assert groups._room.held == 0
    consumer(groups, "first", -1)
    consumer(groups, "third")
    share(groups, "second", -1)
    share(groups, "fourth")
    groups.tick(SESSION_MS)
    assert room.held == sum(map(group_bytes, ("first", "second", "third", "fourth")))
    share(groups, "fourth")
    groups.delete("fourth")
    assert room.held == sum(map(group_bytes, ("first", "second", "third")))
    share(groups, "fifth")
    groups.close(CoordinatorClosing())
    assert (room.held, room.small_held) == (0, 0)


def test_whoever_is_refused_as_unknown_costs_no_memory():
    groups = registry()
    with pytest.raises(UnknownMember):
        groups.consumer_heartbeat("g", ConsumerHeartbeat("m", 3, topic_names=names(10)), TOPICS, 0)
    assert groups._assigned_room.held == 0


@pytest.mark.parametrize("join", [consumer, share])
def test_groups_take_what_is_counted_for_them_with_members_and_without(join):
    kept = [Groups(GroupOffsets(), 0) for _ in range(2)]

    def work(groups: Groups, ends: bool) -> None:
        for number in range(500):
            group_id = f"{number:04000}"
            join(groups, group_id, wanted=1)
            if ends:
                join(groups, group_id, -1)

    for groups, ends in zip(kept, (False, True), strict=True):
        assert memory_of(partial(work, groups, ends)) < groups._assigned_room.held
        assert groups.count() == 500


@pytest.mark.parametrize("how", ["is long empty", "is deleted", "is a classic one from now on"])
def test_what_a_group_took_by_itself_is_given_back_when_it(how):
    groups = registry()
    consumer(groups, "g")
    consumer(groups, "g", -1)
    assert groups._assigned_room.held == EMPTY
    if how == "is long empty":
        groups.sweep(600_000)
    elif how == "is deleted":
        groups.delete("g")
    else:
        classic_join(groups, "g")
    assert groups._assigned_room.held == 0


@pytest.mark.parametrize("join", [consumer, share])
def test_ever_new_groups_that_are_left_at_once_do_not_fill_the_room(join, monkeypatch):
    monkeypatch.setattr(registry_module, "MOST_EMPTY", 3)
    groups = registry("first")
    for group_id in ("0-has-members", *map(str, range(1, 10))):
        join(groups, group_id)
        if group_id in "123456789":
            join(groups, group_id, -1)
    assert groups.ids() == ["0-has-members", "7", "8", "9", "first"]
    assert groups._assigned_room.held < 50_000
    join(groups, "8")
    join(groups, "10")
    join(groups, "10", -1)
    assert groups.ids() == ["0-has-members", "10", "7", "8", "9", "first"]


# --- small groups and large ones -----------------------------------------------------------------

TOTAL = 8 << 20


def full_room() -> Room:
    """A group in it grew beyond all limits, as its topics did."""
    world = World(max_total_bytes=TOTAL)
    world.topics.put("big", b"b" * 16, 1000)
    world.join("a", ("big",))
    world.topics.put("big", b"b" * 16, 60_000)
    world.beat("a", 1)
    room = world.group._holding._room
    assert room.held > 2 * TOTAL
    assert room.small_held == 0
    return room


def world_in(room: Room, kind: str) -> World | ShareWorld:
    if kind == "share":
        return ShareWorld(room=room)
    world = World()
    world.group = ConsumerGroup("g", 0, ConsumerLimits(), room)
    return world


KINDS = pytest.mark.parametrize("kind", ["consumer", "share"])


@KINDS
def test_small_groups_get_in_however_large_others_grew(kind):
    room = full_room()
    world = world_in(room, kind)
    for member in ("a", "b", "c"):
        world.join(member)
    world.join("d", names(5000))
    with pytest.raises(GroupFull, match=r"groups\.max_total_subscription_bytes is 8388608"):
        world.join("e", names(5000, "other"))
    assert held(world) < SMALL_GROUP_BYTES


@KINDS
def test_a_large_group_does_not_get_in_where_there_is_room_for_small_ones_only(kind):
    world = world_in(full_room(), kind)
    with pytest.raises(GroupFull, match=r"groups\.max_total_subscription_bytes is 8388608"):
        world.join("a", names(10_000))
    assert world.group.idle


@KINDS
def test_small_groups_take_a_quarter_more_together_and_no_more(kind):
    room = full_room()
    worlds = [world_in(room, kind)]
    worlds[0].join("a", names(1000))
    one = held(worlds[0])
    while room.small_held + one <= TOTAL / 4:
        worlds.append(world_in(room, kind))
        worlds[-1].join("a", names(1000))
    assert len(worlds) > 10
    last = world_in(room, kind)
    with pytest.raises(GroupFull, match=r"groups\.max_total_subscription_bytes is 8388608"):
        last.join("a", names(1000))
    worlds[0].beat("a", -1)
    last.join("a", names(900))


def test_groups_that_grow_or_shrink_are_small_only_while_they_are():
    room = Room()
    holding, other = Holding(room, 10), Holding(room)
    other.hold(5)
    for members, small in ((90, 105), (SMALL_GROUP_BYTES, 5), (0, 15)):
        holding.hold(members)
        assert room.small_held == small
    assert room.held == 15
