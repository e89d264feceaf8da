"""Share groups: who is a member, and which partitions it reads."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from mainstem.kernel.groups.assignors import Reader
from mainstem.kernel.groups.consumer_messages import HeartbeatResult, TopicInfo
from mainstem.kernel.groups.share import ShareGroup, simple_assignor
from mainstem.kernel.groups.share_messages import ShareHeartbeat, ShareLimits, ShareState
from mainstem.model.errors import (
    CoordinatorClosing,
    FencedMemberEpoch,
    GroupFull,
    GroupNotEmpty,
    GroupNotFound,
    InvalidRequest,
    UnknownMember,
)

T = b"t" * 16
LIMITS = ShareLimits(session_timeout_ms=1000, heartbeat_interval_ms=100, max_members=3)


@dataclass
class FakeTopics:
    counts: dict[str, int] = field(default_factory=lambda: {"t": 2})
    version: int = 1

    def get(self, name: str) -> TopicInfo | None:
        return TopicInfo(name.encode() * 16, self.counts[name]) if name in self.counts else None

    def names(self) -> list[str]:
        return list(self.counts)


class House:
    def __init__(self) -> None:
        self.topics = FakeTopics()
        self.group = ShareGroup("g", 0)
        self.now_ms = 0

    def beat(self, member: str, epoch: int, topics: set[str] | None = None) -> HeartbeatResult:
        names = None if topics is None else frozenset(topics)
        return self.group.heartbeat(
            ShareHeartbeat(member, epoch, topic_names=names), self.topics, self.now_ms, LIMITS
        )

    def join(self, member: str, *topics: str) -> HeartbeatResult:
        return self.beat(member, 0, set(topics or ("t",)))


@pytest.fixture
def house() -> House:
    return House()


def test_the_first_member_reads_everything(house):
    joined = house.join("a")
    assert joined == HeartbeatResult("a", 1, 100, frozenset({(T, 0), (T, 1)}))
    assert house.group.state is ShareState.STABLE


def test_an_assignment_is_told_once(house):
    house.join("a")
    assert house.beat("a", 1).assignment is None


def test_partitions_are_spread_while_there_are_enough(house):
    house.join("a")
    b = house.join("b")
    a = house.beat("a", 1)
    assert a.member_epoch == b.member_epoch == 2
    assert len(a.assignment) == len(b.assignment) == 1
    assert a.assignment | b.assignment == {(T, 0), (T, 1)}


def test_with_more_members_than_partitions_all_read_all_and_back_again(house):
    for member in "abc":
        joined = house.join(member)
    assert joined.assignment == {(T, 0), (T, 1)}
    house.beat("c", -1)
    told = [house.join(one).assignment for one in "ab"]
    assert sorted(len(one) for one in told) == [1, 1]
    assert told[0] | told[1] == {(T, 0), (T, 1)}


def test_a_new_topic_and_new_partitions_are_found_with_the_next_heartbeat(house):
    house.join("a", "t", "u")
    house.topics.counts["u"] = 1
    house.topics.version += 1
    assert (b"u" * 16, 0) in house.beat("a", 1).assignment


def test_a_changed_subscription_changes_the_assignment(house):
    house.topics.counts["u"] = 1
    house.join("a")
    assert house.beat("a", 1, {"u"}).assignment == {(b"u" * 16, 0)}


def test_a_lost_answer_is_given_again(house):
    house.join("a")
    house.join("b")
    house.beat("a", 1)
    again = house.beat("a", 1)
    assert again.member_epoch == 2
    assert again.assignment is not None


def test_a_member_may_join_again(house):
    house.join("a")
    assert house.join("a").assignment == {(T, 0), (T, 1)}


def test_an_epoch_that_never_was_is_fenced(house):
    house.join("a")
    with pytest.raises(FencedMemberEpoch):
        house.beat("a", 7)


def test_a_stranger_with_an_epoch_is_unknown(house):
    with pytest.raises(UnknownMember):
        house.beat("x", 3)
    with pytest.raises(UnknownMember):
        house.beat("x", -1)


def test_who_is_silent_for_long_is_gone(house):
    house.join("a")
    house.now_ms = 500
    house.join("b")
    assert house.group.next_deadline_ms() == 1000
    house.group.tick(1000)
    assert [one.member_id for one in house.group.describe().members] == ["b"]
    house.now_ms = 1001
    assert house.beat("b", 2).assignment == {(T, 0), (T, 1)}
    house.group.tick(5000)
    assert house.group.idle
    assert house.group.empty_since_ms == 5000


def test_a_full_group_takes_nobody(house):
    for member in "abc":
        house.join(member)
    with pytest.raises(GroupFull):
        house.join("d")


@pytest.mark.parametrize(
    "wrong",
    [
        ShareHeartbeat("", 0, topic_names=frozenset({"t"})),
        ShareHeartbeat("a", -2),
        ShareHeartbeat("a", 0),
        ShareHeartbeat("a", 0, topic_names=frozenset()),
        ShareHeartbeat("a", 0, rack_id="", topic_names=frozenset({"t"})),
    ],
)
def test_a_heartbeat_without_sense_is_refused(house, wrong):
    with pytest.raises(InvalidRequest):
        house.group.heartbeat(wrong, house.topics, 0, LIMITS)
    assert house.group.idle


def test_it_can_be_deleted_when_it_is_empty(house):
    house.join("a")
    with pytest.raises(GroupNotEmpty):
        house.group.check_delete()
    house.beat("a", -1)
    house.group.check_delete()
    house.group.close(GroupNotFound("g"))
    assert house.group.state is ShareState.DEAD
    with pytest.raises(GroupNotFound):
        house.group.check_delete()
    with pytest.raises(CoordinatorClosing):
        house.join("a")


def test_it_has_no_committed_offsets(house):
    with pytest.raises(GroupNotFound):
        house.group.check_commit("a", None, 1, 0)
    with pytest.raises(GroupNotFound):
        house.group.check_offsets_delete()


def test_every_partition_has_a_reader_whatever_was_before():
    readers = [Reader(str(one), None, frozenset({T})) for one in range(3)]
    everything = frozenset((T, one) for one in range(7))
    given = simple_assignor(readers, {T: 7}, {str(one): everything for one in range(3)})
    assert sorted(map(len, given.values())) == [2, 2, 3]
    assert frozenset().union(*given.values()) == everything
