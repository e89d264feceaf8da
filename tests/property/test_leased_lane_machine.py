"""A leased lane against a table of offsets, and against itself replayed from what it gave to the journal."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mainstem.kernel.subs.leased_lane import LeasedLane, Settled
from mainstem.kernel.subs.leases import Leases

LIMIT = 3
HOLDERS = st.sampled_from(["a", "b", "c"])
OFFSETS = st.integers(0, 40)


class LeasedLaneMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.leases: Leases[LeasedLane, str] = Leases()
        self.lane = LeasedLane(self.leases)
        self.replica = LeasedLane(Leases())
        self.now_ms = 0
        self.end = 0
        self.floor = 0  # as far as it was sought or trimmed
        self.done: set[int] = set()
        self.held: dict[int, tuple[str, int]] = {}  # offset -> holder, deadline
        self.failed: dict[int, int] = {}

    # --- the model -------------------------------------------------------------------------------

    def ready(self) -> list[int]:
        return [one for one in range(self.floor, self.end) if one not in self.done and one not in self.held]

    def mine(self, holder: str, first: int, stop: int) -> list[int]:
        return [one for one in range(first, stop) if self.held.get(one, ("", 0))[0] == holder]

    def finish(self, offsets: list[int]) -> None:
        for one in offsets:
            del self.held[one]
            self.failed.pop(one, None)
            self.done.add(one)

    def fail(self, offsets: list[int]) -> None:
        again = [one for one in offsets if self.failed.get(one, 0) + 1 < LIMIT]
        self.finish([one for one in offsets if one not in again])
        for one in again:
            del self.held[one]
            self.failed[one] = self.failed.get(one, 0) + 1

    def check(self, settled: Settled) -> None:
        self.replica.replay(settled)

    # --- what happens ----------------------------------------------------------------------------

    @rule(more=st.integers(0, 10))
    def grow(self, more: int) -> None:
        self.end = min(self.end + more, 40)
        self.lane.grow(self.end)

    @rule(holder=HOLDERS, count=st.integers(0, 12), lasts_ms=st.integers(1, 5))
    def lend(self, holder: str, count: int, lasts_ms: int) -> None:
        wanted = self.ready()[:count]
        lent = self.lane.lend(holder, count, self.now_ms + lasts_ms)
        assert [one for first, stop, _ in lent for one in range(first, stop)] == wanted
        for first, stop, delivery in lent:
            for one in range(first, stop):
                assert delivery == self.failed.get(one, 0) + 1
                self.held[one] = (holder, self.now_ms + lasts_ms)

    @rule(holder=HOLDERS, first=OFFSETS, count=st.integers(0, 12))
    def finished(self, holder: str, first: int, count: int) -> None:
        offsets = self.mine(holder, first, first + count)
        assert self.lane.holds(holder, first, first + count) == (
            len(offsets) >= first + count - max(first, self.lane.floor)
        )
        self.check(self.lane.finish(holder, first, first + count))
        self.finish(offsets)

    @rule(holder=HOLDERS, first=OFFSETS, count=st.integers(0, 12))
    def failed_some(self, holder: str, first: int, count: int) -> None:
        self.check(self.lane.fail(holder, first, first + count, LIMIT))
        self.fail(self.mine(holder, first, first + count))

    @rule(holder=HOLDERS, first=OFFSETS, count=st.integers(0, 12))
    def undo(self, holder: str, first: int, count: int) -> None:
        self.lane.undo(holder, first, first + count)
        for one in self.mine(holder, first, first + count):
            del self.held[one]

    @rule(holder=HOLDERS, first=OFFSETS, count=st.integers(0, 12), lasts_ms=st.integers(1, 5))
    def renew(self, holder: str, first: int, count: int, lasts_ms: int) -> None:
        self.lane.renew(holder, first, first + count, self.now_ms + lasts_ms)
        for one in self.mine(holder, first, first + count):
            self.held[one] = (holder, self.now_ms + lasts_ms)

    @rule(passed_ms=st.integers(1, 3))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        due = self.leases.due(self.now_ms)
        late = {one for lease in due for one in range(lease.first, lease.stop)}
        assert late == {one for one, (_, deadline_ms) in self.held.items() if deadline_ms <= self.now_ms}
        self.check(self.lane.came_back(((lease.first, lease.stop) for lease in due), LIMIT))
        self.fail(sorted(late))

    @rule(start=OFFSETS)
    def trim(self, start: int) -> None:
        self.lane.trim(start)
        self.replica.trim(start)
        self.end = max(self.end, start)
        for one in range(start):
            self.done.add(one)
            self.held.pop(one, None)
            self.failed.pop(one, None)

    @rule(offset=OFFSETS)
    def seek(self, offset: int) -> None:
        self.lane.seek(offset)
        self.lane.grow(self.end)
        self.replica.seek(offset)
        self.end = max(self.end, offset)
        self.floor = offset
        self.done, self.held, self.failed = set(), {}, {}

    # --- what holds always -----------------------------------------------------------------------

    @invariant()
    def agrees(self) -> None:
        lane = self.lane
        left = [one for one in range(self.floor, self.end) if one not in self.done]
        assert lane.left == len(left)
        assert lane.floor == (left[0] if left else self.end)
        assert lane.in_flight == self.leases.count == len(self.held)
        counts = {one: count for first, stop, count in lane.failed() for one in range(first, stop)}
        assert counts == self.failed

    @invariant()
    def replays_to_the_same(self) -> None:
        self.replica.grow(self.end)
        assert self.replica.floor == self.lane.floor
        assert list(self.replica.done()) == list(self.lane.done())
        assert self.replica.failed() == self.lane.failed()


TestLeasedLane = LeasedLaneMachine.TestCase
TestLeasedLane.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
