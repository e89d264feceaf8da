"""Anything that can be done to a lane, in any order, against the model: a list of message states."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mainstem.kernel.subs.lane import Lane

READY, HELD, ACKED = "ready", "held", "acked"
OFFSETS = st.integers(0, 30)
LENGTHS = st.integers(0, 12)
COUNTS = st.integers(0, 15)


class LaneMachine(RuleBasedStateMachine):
    @initialize(end=st.integers(0, 15))
    def start(self, end):
        self.lane = Lane(end=end)
        self.states = [READY] * end
        self.again = [False] * end
        self.attempts = [0] * end
        self.delivered = 0  # taken ones are below
        self.may_be_seen = 0  # all below may have been delivered, though it is not known

    def offsets(self, first, length, *states):
        within = range(first, min(first + length, len(self.states)))
        return [offset for offset in within if self.states[offset] in states]

    def oldest(self, count):
        return [offset for offset, state in enumerate(self.states) if state == READY][:count]

    @rule(count=st.integers(0, 8))
    def grow(self, count):
        self.lane.grow(len(self.states) + count)
        self.lane.grow(0)
        self.states += [READY] * count
        self.again += [False] * count
        self.seen_below(self.may_be_seen)
        self.attempts += [0] * count

    @rule(count=COUNTS)
    def peek(self, count):
        self.check_runs(self.lane.peek(count), count)

    @rule(count=COUNTS)
    def take(self, count):
        self.check_runs(self.lane.take(count), count)
        for offset in self.oldest(count):
            self.states[offset] = HELD
            self.again[offset] = True
            self.delivered = max(self.delivered, offset + 1)

    def check_runs(self, runs, count):
        found = [(offset, run.again) for run in runs for offset in range(run.first, run.stop)]
        assert found == [(offset, self.again[offset]) for offset in self.oldest(count)]
        assert all(run.first < run.stop for run in runs)

    @rule(first=OFFSETS, length=LENGTHS)
    def ack(self, first, length):
        new = self.offsets(first, length, READY, HELD)
        assert self.lane.ack(first, first + length) == len(new)
        for offset in new:
            self.states[offset] = ACKED
            self.attempts[offset] = 0

    @rule(first=OFFSETS, length=LENGTHS, failed=st.booleans())
    def give_back(self, first, length, failed):
        held = self.offsets(first, length, HELD)
        assert self.lane.give_back(first, first + length, failed) == len(held)
        for offset in held:
            self.states[offset] = READY
            self.attempts[offset] += failed

    @rule()
    def ack_all_in_flight(self):
        for first, stop in list(self.lane.held()):
            self.ack(first, stop - first)

    @rule(data=st.data())
    def ack_the_next_but_one(self, data):
        """Take up to a hole that was acked ahead of its turn: what follows an ack must move over it."""
        ready = self.oldest(8)
        if len(ready) > 1:
            at = data.draw(st.integers(1, len(ready) - 1))
            self.ack(ready[at], 1)
            self.take(at)

    @rule()
    def purge(self):
        left = self.offsets(0, len(self.states), READY, HELD)
        assert self.lane.ack(self.lane.floor, self.lane.end) == len(left)
        self.states = [ACKED] * len(self.states)
        self.attempts = [0] * len(self.states)

    @rule(to=OFFSETS)
    def seek(self, to):
        self.lane.seek(to)
        to = min(to, len(self.states))
        self.states = [ACKED] * to + [READY] * (len(self.states) - to)
        self.attempts = [0] * len(self.states)
        self.seen_below(self.lane.delivered)

    @rule(more=st.integers(0, 3))
    def start_again(self, more):
        before = self.lane
        self.lane = Lane()
        delivered = before.delivered + more
        self.lane.restore(before.floor, list(before.acked()), delivered, before.failed())
        self.lane.grow(before.end)
        self.states = [ACKED if state == ACKED else READY for state in self.states]
        self.delivered = delivered
        self.seen_below(delivered)

    def seen_below(self, stop):
        self.may_be_seen = stop
        self.again[:stop] = [True] * len(self.again[:stop])

    @invariant()
    def agrees_with_the_model(self):
        lane, states = self.lane, self.states
        assert lane.end == len(states)
        assert lane.ready == states.count(READY)
        assert lane.in_flight == states.count(HELD)
        left = [offset for offset, state in enumerate(states) if state != ACKED]
        floor = left[0] if left else len(states)
        assert lane.floor == floor
        acked = [offset for first, stop in lane.acked() for offset in range(first, stop)]
        assert acked == self.offsets(floor, len(states), ACKED)
        held = [offset for first, stop in lane.held() for offset in range(first, stop)]
        assert held == self.offsets(0, len(states), HELD)
        failed = [(offset, count) for offset, count in enumerate(self.attempts) if count]
        found = [(offset, count) for first, stop, count in lane.failed() for offset in range(first, stop)]
        assert found == failed
        assert all(lane.attempts(offset) == count for offset, count in enumerate(self.attempts))
        assert lane.delivered >= self.delivered
        for offset in range(len(states) + 1):
            state = states[offset] if offset < len(states) else None
            assert lane.is_ready(offset) is (state == READY)
            assert lane.is_acked(offset) is (state == ACKED)


TestLane = LaneMachine.TestCase
TestLane.settings = settings(max_examples=150, stateful_step_count=40, deadline=None, derandomize=True)
