from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.kernel.groups.assignors import ASSIGNORS, Reader, by_topic, range_assignor, uniform_assignor

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
TOPICS = (A, B, C)


def readers(*member_ids: str, topics=(A,)) -> list[Reader]:
    return [Reader(member_id, None, frozenset(topics)) for member_id in member_ids]


def load(assignment):
    return {member_id: len(partitions) for member_id, partitions in assignment.items()}


def test_range_gives_equal_partitions_of_topics_to_one_member():
    given_ = range_assignor(readers("x", "y", topics=(A, B)), {A: 3, B: 3}, {})
    assert by_topic(given_["x"]) == [(A, [0, 1]), (B, [0, 1])]
    assert by_topic(given_["y"]) == [(A, [2]), (B, [2])]


def test_range_does_not_move_when_static_members_come_back_under_new_ids():
    before = range_assignor(
        [Reader("m1", "i1", frozenset({A})), Reader("m2", "i2", frozenset({A}))], {A: 4}, {}
    )
    after = range_assignor(
        [Reader("m9", "i1", frozenset({A})), Reader("m0", "i2", frozenset({A}))], {A: 4}, {}
    )
    assert (before["m1"], before["m2"]) == (after["m9"], after["m0"])


def test_uniform_moves_only_what_a_new_member_needs():
    before = uniform_assignor(readers("x", "y"), {A: 6}, {})
    after = uniform_assignor(readers("x", "y", "z"), {A: 6}, before)
    assert load(after) == {"x": 2, "y": 2, "z": 2}
    assert after["x"] < before["x"]
    assert after["y"] < before["y"]


def test_uniform_gives_those_of_a_leaver_to_the_rest_who_keep_theirs():
    before = uniform_assignor(readers("x", "y", "z"), {A: 6}, {})
    after = uniform_assignor(readers("x", "z"), {A: 6}, before)
    assert after["x"] > before["x"]
    assert after["z"] > before["z"]


def test_more_members_than_partitions_leave_some_without():
    assert sorted(load(uniform_assignor(readers("x", "y", "z"), {A: 2}, {})).values()) == [0, 1, 1]


def test_nobody_and_nothing_are_fine():
    for assignor in ASSIGNORS.values():
        assert assignor([], {}, {}) == {}
        assert assignor(readers("x", topics=()), {}, {}) == {"x": frozenset()}


def test_uniform_evens_out_where_subscriptions_differ():
    mixed = [Reader("x", None, frozenset({A, B})), Reader("y", None, frozenset({B}))]
    assert load(uniform_assignor(mixed, {A: 3, B: 3}, {})) == {"x": 3, "y": 3}


groups = st.dictionaries(
    st.sampled_from(["m0", "m1", "m2", "m3", "m4"]), st.frozensets(st.sampled_from(TOPICS)), min_size=1
)
counts = st.fixed_dictionaries({topic: st.integers(0, 7) for topic in TOPICS})


@settings(derandomize=True)
@given(st.lists(st.tuples(groups, counts, st.sampled_from(sorted(ASSIGNORS))), min_size=1, max_size=4))
def test_every_wanted_partition_has_one_owner_who_wants_it_and_loads_are_even(history):
    before = {}
    for members, sizes, name in history:
        group = [Reader(member_id, None, topics) for member_id, topics in members.items()]
        after = ASSIGNORS[name](group, sizes, before)
        wanted = {topic for topics in members.values() for topic in topics}
        given_out = [partition for partitions in after.values() for partition in partitions]
        assert sorted(given_out) == sorted((t, p) for t in wanted for p in range(sizes[t]))
        assert set(after) == set(members)
        for member_id, partitions in after.items():
            for topic, _ in partitions:
                assert topic in members[member_id]
                if name == "uniform":
                    lowest = min(len(after[other]) for other in members if topic in members[other])
                    assert len(partitions) <= lowest + 1
        if name == "uniform" and len(set(members.values())) == 1:
            assert max(load(after).values()) - min(load(after).values()) <= 1
            assert ASSIGNORS[name](group, sizes, after) == after, "nothing changed, nothing moves"
        before = after


@settings(derandomize=True)
@given(st.integers(0, 20), st.integers(1, 6), st.integers(1, 6))
def test_uniform_keeps_as_much_as_balance_allows(partitions, old_size, new_size):
    old = readers(*(f"m{n}" for n in range(old_size)))
    new = readers(*(f"m{n}" for n in range(new_size)))
    before = uniform_assignor(old, {A: partitions}, {})
    after = uniform_assignor(new, {A: partitions}, before)
    kept = sum(len(after[r.member_id] & before.get(r.member_id, frozenset())) for r in new)
    least, extra = divmod(partitions, new_size)
    possible = sorted((len(before.get(r.member_id, ())) for r in new), reverse=True)
    assert kept == sum(min(had, least + (n < extra)) for n, had in enumerate(possible))
