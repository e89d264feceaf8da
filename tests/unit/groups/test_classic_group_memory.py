"""What members of a classic group say of themselves, and what they are given, has bounds."""

from __future__ import annotations

from test_classic_group import REBALANCE_MS, SESSION_MS, World, stable

from mainstem.kernel.groups.classic_messages import ClassicLimits, ClassicState, JoinResult, Leaver
from mainstem.kernel.groups.room import group_bytes
from mainstem.model.errors import AssignmentTooLarge, GroupFull, MemberIdRequired, RebalanceInProgress

SOME = (("range", bytes(1000)),)
MUCH = (("range", bytes(3000)),)


OWN = group_bytes("g")


def held(world: World) -> int:
    """Beside what the group takes by itself."""
    return world.group._members.held - OWN


def test_members_whose_metadata_does_not_fit_are_refused_until_others_leave():
    world = stable("a", "b", max_group_bytes=OWN + 5000)
    assert world.error(world.join("b", protocols=(("range", bytes(5000)),))) is GroupFull
    world.join("b", protocols=MUCH)
    assert world.error(world.join(new_id="c", protocols=SOME, id_required=True)) is GroupFull
    assert world.error(world.join(new_id="c", protocols=SOME)) is GroupFull
    world.leave(Leaver("b"))
    assert world.error(world.join(new_id="c", protocols=SOME)) is not GroupFull


def test_a_member_that_asks_for_less_is_let_in_even_where_there_is_no_room():
    world = World(max_group_bytes=OWN + 4000, initial_delay_ms=100)
    world.join(new_id="a", protocols=MUCH, instance_id="one", client_id="c")
    world.advance(1000)
    world.group._limits = ClassicLimits(initial_delay_ms=0, max_group_bytes=OWN + 10)
    back = world.join(new_id="a2", protocols=SOME, instance_id="one", client_id="a longer name")
    world.advance(1000)
    assert isinstance(world.result(back), JoinResult)
    world.leave(Leaver("a2", "one"))
    assert held(world) == 0


def test_assignments_that_do_not_fit_are_refused_and_their_leader_may_try_again():
    world = World(max_group_bytes=OWN + 5000)
    world.join(new_id="a")
    refused = world.sync("a", {"a": bytes(5000), "stranger": b""})
    assert world.error(refused) is AssignmentTooLarge
    assert world.group.state is ClassicState.COMPLETING
    taken = world.sync("a", {"a": bytes(4000), "stranger": bytes(5000)})
    assert world.result(taken).assignment == bytes(4000)
    world.advance(SESSION_MS)
    assert held(world) == 0


def test_a_leader_whose_assignments_do_not_fit_goes_when_its_time_is_up():
    world = stable("a", "b", max_group_bytes=OWN + 5000)
    world.join("a")
    world.join("b")
    world.sync("a", {"b": bytes(5000)})
    waiting = world.sync("b")
    world.advance(REBALANCE_MS)
    assert world.error(waiting) is RebalanceInProgress
    assert "a" not in world.group.member_ids()


def test_ids_that_are_given_and_never_used_have_a_bound_and_are_given_back():
    world = World(max_group_bytes=OWN + 10_000)
    errors = [world.error(world.join(new_id=f"id-{n}", id_required=True)) for n in range(30)]
    given = errors.count(MemberIdRequired)
    assert 10 < given < 25
    assert errors[given:] == [GroupFull] * (30 - given)
    world.leave(Leaver("id-0"))
    assert world.error(world.join(new_id="another", id_required=True)) is MemberIdRequired
    world.advance(SESSION_MS)
    assert held(world) == 0
    assert world.error(world.join(new_id="later", id_required=True)) is MemberIdRequired
    world.join("later")
    assert held(world) == world.group._members["later"].size()
