"""Timers do what a dict of due times does, and a dump with a replay of the changes is the same again."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mainstem.kernel.timers import pairs
from mainstem.kernel.timers.timers import Timers

IDS = st.integers(-3, 60)
TIMES_MS = st.integers(-5, 40)


class TimersMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.chunk_pairs, pairs.CHUNK_PAIRS = pairs.CHUNK_PAIRS, 4  # so that a few entries fill many chunks
        self.timers, self.model = Timers(), {}
        self.dump, self.parts, self.changes = None, [], []

    def teardown(self):
        pairs.CHUNK_PAIRS = self.chunk_pairs

    def change(self, id, due_ms):
        self.changes.append((id, due_ms))
        if due_ms is None:
            self.model.pop(id, None)
        else:
            self.model[id] = due_ms

    @rule(id=IDS, due_ms=TIMES_MS)
    def add(self, id, due_ms):
        self.timers.add(due_ms, id)
        self.change(id, due_ms)

    @rule(ids=st.lists(IDS, max_size=30), due_ms=TIMES_MS)
    def add_many(self, ids, due_ms):
        for i, id in enumerate(ids):
            self.add(id, due_ms + i % 3)

    @rule(id=IDS)
    def cancel(self, id):
        assert self.timers.cancel(id) == (id in self.model)
        self.change(id, None)

    @rule(now_ms=TIMES_MS, limit=st.integers(0, 20))
    def due(self, now_ms, limit):
        expected = sorted((due_ms, id) for id, due_ms in self.model.items() if due_ms <= now_ms)[:limit]
        assert self.timers.due(now_ms, limit) == [id for _, id in expected]
        for _, id in expected:
            self.change(id, None)

    @rule()
    def begin_dump(self):
        self.dump, self.parts, self.changes = self.timers.dump(slice_entries=3), [], []

    @precondition(lambda self: self.dump is not None)
    @rule()
    def go_on_with_dump(self):
        part = next(self.dump, None)
        if part is not None:
            self.parts.append(part)
            return
        ids = [id for part in self.parts for id in part.ids]
        assert ids == sorted(set(ids))
        again = Timers()
        for part in self.parts:
            again.restore(part)
        for id, due_ms in self.changes:
            if due_ms is None:
                again.cancel(id)
            else:
                again.add(due_ms, id)
        assert again.pending(1000) == self.timers.pending(1000)
        self.dump = None

    @invariant()
    def the_same_is_pending(self):
        expected = sorted((due_ms, id) for id, due_ms in self.model.items())
        assert self.timers.pending(1000) == expected
        assert len(self.timers) == len(expected)
        assert self.timers.next_due_ms() == (expected[0][0] if expected else None)
        for id in range(-3, 61):
            assert self.timers.due_of(id) == self.model.get(id)
            assert (id in self.timers) == (id in self.model)


TestTimers = TimersMachine.TestCase
TestTimers.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
