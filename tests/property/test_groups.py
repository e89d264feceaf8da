"""Groups against small models: any history, then the same answers."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mainstem.kernel.groups.offsets import (
    CommittedOffset,
    GroupDeleted,
    GroupOffsets,
    OffsetDelta,
    OffsetsCommitted,
    OffsetsDeleted,
    TopicOffsetsDeleted,
    TxnOffsetsEnded,
    TxnOffsetsStaged,
)

TOPICS = (b"a" * 16, b"b" * 16)
KEYS = [(topic_id, partition) for topic_id in TOPICS for partition in (0, 1)]
GROUPS = ("g", "h")

groups = st.sampled_from(GROUPS)
producers = st.integers(1, 3)
entries = st.lists(
    st.builds(
        lambda key, offset: CommittedOffset(*key, offset, -1, "", 0),
        st.sampled_from(KEYS),
        st.integers(0, 99),
    ),
    min_size=1,
    max_size=3,
)
deltas = st.one_of(
    st.builds(OffsetsCommitted, groups, entries),
    st.builds(TxnOffsetsStaged, producers, groups, entries),
    st.builds(TxnOffsetsEnded, producers, st.booleans()),
    st.builds(OffsetsDeleted, groups, st.lists(st.sampled_from(KEYS), max_size=2)),
    st.builds(GroupDeleted, groups),
    st.builds(TopicOffsetsDeleted, st.sampled_from(TOPICS)),
)


class OffsetsModel:
    """Every write keeps its place in the history; the visible write with the highest place wins."""

    def __init__(self) -> None:
        self.writes: list[tuple[int, int | None, str, tuple[bytes, int], int]] = []
        self.place = 0

    def apply(self, delta: OffsetDelta) -> None:
        match delta:
            case OffsetsCommitted(group, offsets):
                self.add(None, group, offsets)
            case TxnOffsetsStaged(producer_id, group, offsets):
                keys = {(one.topic_id, one.partition) for one in offsets}
                self.keep(lambda w: not (w[1] == producer_id and w[2] == group and w[3] in keys))
                self.add(producer_id, group, offsets)
            case TxnOffsetsEnded(producer_id, commit):
                if not commit:
                    self.keep(lambda w: w[1] != producer_id)
                self.writes = [(w[0], None, *w[2:]) if w[1] == producer_id else w for w in self.writes]
            case OffsetsDeleted(group, keys):
                self.keep(lambda w: not (w[2] == group and w[3] in keys))
            case GroupDeleted(group):
                self.keep(lambda w: w[2] != group)
            case TopicOffsetsDeleted(topic_id):
                self.keep(lambda w: w[3][0] != topic_id)

    def add(self, producer_id, group, offsets):
        for one in offsets:
            self.place += 1
            self.writes.append((self.place, producer_id, group, (one.topic_id, one.partition), one.offset))

    def keep(self, wanted):
        self.writes = [w for w in self.writes if wanted(w)]

    def view(self):
        answers = {}
        for group in GROUPS:
            for key in KEYS:
                here = sorted(w for w in self.writes if w[2] == group and w[3] == key)
                visible = [w[4] for w in here if w[1] is None]
                answers[group, key] = (visible[-1] if visible else None, any(w[1] is not None for w in here))
        return answers


def view(offsets: GroupOffsets):
    answers = {}
    for group in GROUPS:
        for key in KEYS:
            found = offsets.get(group, *key)
            answers[group, key] = (None if found is None else found.offset, offsets.unstable(group, *key))
    return answers


@given(st.lists(deltas, max_size=25), st.lists(deltas, max_size=8))
def test_offsets_answer_like_the_model_and_a_dump_behaves_like_the_original(history, afterwards):
    offsets, model = GroupOffsets(), OffsetsModel()
    for delta in history:
        offsets.apply(msgspec.msgpack.decode(msgspec.msgpack.encode(delta), type=OffsetDelta))
        model.apply(delta)
        assert view(offsets) == model.view()
    copy = GroupOffsets()
    for delta in offsets.dump():
        copy.apply(delta)
    assert view(copy) == view(offsets)
    for delta in afterwards:
        copy.apply(delta)
        model.apply(delta)
        assert view(copy) == model.view()
    assert set(copy.groups()) == {group for group, _ in view(copy) if any(copy.all(group))}
