"""All groups behind one door: which kind, which error, one timer."""

import pytest

from mainstem.kernel.groups import registry as registry_module
from mainstem.kernel.groups.classic_messages import (
    ClassicLimits,
    ClassicView,
    JoinRequest,
    JoinResult,
    Leaver,
    SyncRequest,
)
from mainstem.kernel.groups.consumer_messages import ConsumerHeartbeat, ConsumerView, TopicInfo
from mainstem.kernel.groups.offsets import CommittedOffset, GroupOffsets, OffsetsCommitted, OffsetsDeleted
from mainstem.kernel.groups.registry import GroupKind, Groups, ListedGroup
from mainstem.model.errors import (
    CoordinatorClosing,
    GroupFull,
    GroupNotEmpty,
    GroupNotFound,
    GroupSubscribedToTopic,
    InconsistentProtocol,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    UnknownMember,
)

TOPIC = b"t" * 16


class OneTopic:
    version = 0

    def get(self, name):
        return TopicInfo(TOPIC, 2) if name == "orders" else None

    def names(self):
        return ["orders"]


TOPICS = OneTopic()


def registry(*with_offsets: str) -> Groups:
    offsets = GroupOffsets()
    for group_id in with_offsets:
        offsets.apply(OffsetsCommitted(group_id, [CommittedOffset(TOPIC, 0, 5, -1, "", 0)]))
    return Groups(offsets, 0, ClassicLimits(initial_delay_ms=0))


def join(groups, group_id, new_id="a", now_ms=0, **more):
    fields = {
        "member_id": "",
        "session_timeout_ms": 10_000,
        "id_required": False,
        "protocols": (("range", b""),),
        **more,
    }
    request = JoinRequest(
        new_member_id=new_id,
        protocol_type="consumer",
        rebalance_timeout_ms=60_000,
        **fields,
    )
    return groups.join(group_id, "token", request, now_ms)


def consumer_join(groups, group_id, member_id="m", now_ms=0):
    request = ConsumerHeartbeat(
        member_id, 0, rebalance_timeout_ms=1_000, topic_names=frozenset({"orders"}), owned=frozenset()
    )
    return groups.consumer_heartbeat(group_id, request, TOPICS, now_ms)


def test_members_of_all_groups_share_one_room_and_give_it_back():
    groups = Groups(GroupOffsets(), 0, ClassicLimits(initial_delay_ms=0, max_total_bytes=25_000))
    much = (("range", bytes(15_000)),)

    def fits(group_id: str) -> bool:
        (answer,) = join(groups, group_id, new_id=group_id, protocols=much)
        return not isinstance(answer.result, GroupFull)

    assert fits("first")
    assert not fits("second")
    assert groups.ids() == ["first"]
    groups.leave("first", [Leaver("first")], 0)
    assert fits("second")
    groups.tick(10_000_000)  # its session is over
    assert fits("third")
    groups.close(CoordinatorClosing())
    assert fits("fourth")


def test_a_first_join_makes_a_group_and_lists_it():
    groups = registry()
    (answer,) = join(groups, "g")
    assert isinstance(answer.result, JoinResult)
    assert groups.list() == [ListedGroup("g", GroupKind.CLASSIC, "CompletingRebalance", "consumer")]


def test_a_refused_first_join_leaves_nothing_behind():
    groups = registry()
    (answer,) = join(groups, "g", session_timeout_ms=1)
    assert isinstance(answer.result, InvalidSessionTimeout)
    assert groups.list() == []
    (answer,) = join(groups, "")
    assert isinstance(answer.result, InvalidGroupId)
    with pytest.raises(InvalidRequest):
        groups.consumer_heartbeat("g", ConsumerHeartbeat("m", 0), TOPICS, 0)
    assert groups.list() == []


def test_whoever_claims_to_be_a_member_of_no_group_is_unknown():
    groups = registry("g")
    (answer,) = join(groups, "g", member_id="old")
    assert isinstance(answer.result, UnknownMember)
    (answer,) = groups.sync("g", "token", SyncRequest("old", 3), 0)
    assert isinstance(answer.result, UnknownMember)
    with pytest.raises(UnknownMember):
        groups.heartbeat("g", "old", None, 3, 0)
    with pytest.raises(UnknownMember):
        groups.leave("g", [Leaver("old")], 0)
    with pytest.raises(UnknownMember):
        groups.check_commit("g", "old", None, 3, 0)
    with pytest.raises(UnknownMember):
        groups.consumer_heartbeat("g", ConsumerHeartbeat("old", 3), TOPICS, 0)
    groups.check_commit("g", "", None, -1, 0)


def test_one_timer_serves_all_groups():
    groups = registry()
    join(groups, "late", now_ms=500)
    join(groups, "early", now_ms=0)
    consumer_join(groups, "third")
    assert groups.next_deadline_ms() == 10_000
    groups.heartbeat("early", "a", None, 1, 5_000)
    assert groups.next_deadline_ms() == 10_500
    groups.tick(10_500)
    assert {one.group_id: one.state for one in groups.list()} == {
        "early": "CompletingRebalance",
        "late": "Empty",
        "third": "Stable",
    }
    assert groups.next_deadline_ms() == 15_000


def test_a_rebalance_that_time_ends_answers_through_the_registry():
    groups = Groups(GroupOffsets(), 0, ClassicLimits(initial_delay_ms=3_000))
    assert join(groups, "g") == []
    assert groups.tick(2_999) == []
    (answer,) = groups.tick(3_000)
    assert (answer.token, answer.result.generation) == ("token", 1)


def test_an_empty_group_changes_its_kind_and_a_live_one_does_not():
    groups = registry()
    join(groups, "g")
    with pytest.raises(GroupNotFound):
        consumer_join(groups, "g")
    groups.leave("g", [Leaver("a")], 0)
    assert consumer_join(groups, "g").member_epoch == 1
    assert groups.kind("g") is GroupKind.CONSUMER
    (answer,) = join(groups, "g")
    assert isinstance(answer.result, InconsistentProtocol)
    groups.consumer_heartbeat("g", ConsumerHeartbeat("m", -1), TOPICS, 0)
    (answer,) = join(groups, "g")
    assert isinstance(answer.result, JoinResult)
    assert isinstance(groups.describe("g"), ClassicView)


def test_offsets_alone_make_an_empty_group():
    groups = registry("g")
    assert groups.describe("g").state.value == "Empty"
    assert groups.list() == [ListedGroup("g", GroupKind.CLASSIC, "Empty", "")]
    groups.check_delete("g")
    groups.check_offsets_delete("g")
    with pytest.raises(GroupNotFound):
        groups.describe("other")
    with pytest.raises(GroupNotFound):
        groups.check_delete("other")
    with pytest.raises(GroupNotFound):
        groups.kind("other")


def test_listing_filters_by_state_and_kind_in_any_case():
    groups = registry("offsets-only")
    join(groups, "classic")
    consumer_join(groups, "modern")
    assert isinstance(groups.describe("modern"), ConsumerView)
    assert [one.group_id for one in groups.list(states=["stable"])] == ["modern"]
    assert [one.group_id for one in groups.list(kinds=["Classic"])] == ["classic", "offsets-only"]
    assert [one.group_id for one in groups.list(["EMPTY"], ["classic"])] == ["offsets-only"]


def test_deleting_needs_an_empty_group():
    groups = registry()
    join(groups, "g")
    with pytest.raises(GroupNotEmpty):
        groups.check_delete("g")
    groups.leave("g", [Leaver("a")], 0)
    groups.check_delete("g")
    assert groups.delete("g") == []
    assert groups.list() == []


def test_offsets_of_topics_that_the_group_reads_stay():
    groups = registry()
    consumer_join(groups, "g")
    with pytest.raises(GroupSubscribedToTopic):
        groups.check_offsets_delete("g", "orders")
    groups.check_offsets_delete("g", "users")


def test_offsets_expire_only_without_members_and_count_from_the_last_one_or_the_start():
    groups = registry("alone", "live", "left")
    join(groups, "live")
    join(groups, "left")
    groups.leave("left", [Leaver("a")], 40)
    assert list(groups.expired(99, 100)) == []
    assert list(groups.expired(100, 100)) == [OffsetsDeleted("alone", [(TOPIC, 0)], 0)]
    expired = [delta.group for delta in groups.expired(140, 100)]
    assert expired == ["alone", "left"]


def test_sweeping_forgets_empty_groups_but_not_since_when_they_are_empty():
    groups = registry("left")
    join(groups, "left")
    join(groups, "no-offsets")
    join(groups, "live")
    for group_id in ("left", "no-offsets"):
        groups.leave(group_id, [Leaver("a")], 40)
    groups.sweep(1_040, keep_ms=1_000)
    assert [one.group_id for one in groups.list()] == ["left", "live"]
    assert list(groups.expired(139, 100)) == []
    assert [delta.group for delta in groups.expired(140, 100)] == ["left"]


def test_only_so_many_empty_groups_are_kept_and_of_others_since_when_they_are_empty(monkeypatch):
    monkeypatch.setattr(registry_module, "MOST_EMPTY", 1)
    groups = registry("left")
    for group_id, at_ms in (("left", 40), ("other", 50)):
        join(groups, group_id)
        groups.leave(group_id, [Leaver("a")], at_ms)
    assert groups.ids() == ["left", "other"]
    assert (groups.describe("left").generation, groups.describe("other").generation) == (0, 2)
    assert list(groups.expired(139, 100)) == []
    assert [delta.group for delta in groups.expired(140, 100)] == ["left"]


def test_groups_whose_members_fall_silent_together_are_not_all_kept(monkeypatch):
    monkeypatch.setattr(registry_module, "MOST_EMPTY", 2)
    groups = registry()
    for number in range(5):
        consumer_join(groups, f"modern-{number}")
        join(groups, f"classic-{number}")
    groups.tick(100_000)
    assert groups.ids() == ["modern-3", "modern-4"]


def test_closing_answers_everyone_in_every_group():
    groups = Groups(GroupOffsets(), 0)
    assert join(groups, "g") == join(groups, "h") == []
    answers = groups.close(CoordinatorClosing("the broker stops"))
    assert [type(answer.result) for answer in answers] == [CoordinatorClosing, CoordinatorClosing]
    assert groups.next_deadline_ms() is None


def test_commits_and_fetches_are_checked_by_the_group_there_is():
    groups = registry()
    consumer_join(groups, "g")
    groups.check_commit("g", "m", None, 1, 0)
    groups.check_fetch("g", "m", 1)
    with pytest.raises(UnknownMember):
        groups.check_fetch("g", "x", 1)
    groups.check_fetch("nowhere", "x", 1)
    with pytest.raises(InvalidGroupId):
        groups.check_commit("", "", None, -1, 0)
