import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.kernel.groups import assignors
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


# --- the plain way, which the quick one must agree with ------------------------------------------


def plain_quotas(given, free):
    if not given:
        return
    total = len(free) + sum(len(partitions) for partitions in given.values())
    least, extra = divmod(total, len(given))
    in_line = sorted(given, key=lambda member_id: -len(given[member_id]))
    quotas = {member_id: least + (number < extra) for number, member_id in enumerate(in_line)}
    for member_id, partitions in given.items():
        for partition in sorted(partitions)[quotas[member_id] :]:
            partitions.remove(partition)
            free.append(partition)
    for member_id, partitions in given.items():
        while len(partitions) < quotas[member_id]:
            partitions.add(free.pop(0))


def plain_lowest(given, free, readers):
    readers_of = {}
    for reader in sorted(readers, key=lambda r: r.member_id):
        for topic_id in reader.topic_ids:
            readers_of.setdefault(topic_id, []).append(reader.member_id)

    def lowest(topic_id):
        return min(readers_of[topic_id], key=lambda member_id: len(given[member_id]))

    for partition in sorted(free, key=lambda p: (len(readers_of[p[0]]), p)):
        given[lowest(partition[0])].add(partition)
    moved = True
    while moved:
        moved = False
        for partitions in given.values():
            for partition in sorted(partitions):
                other = lowest(partition[0])
                if len(given[other]) + 1 < len(partitions):
                    partitions.remove(partition)
                    given[other].add(partition)
                    moved = True


def plain_ranges(readers, counts):
    ordered = sorted(readers, key=lambda r: (r.instance_id is None, r.instance_id or r.member_id))
    given = {reader.member_id: set() for reader in readers}
    for topic_id in set().union(*(reader.topic_ids for reader in readers)):
        members = [reader.member_id for reader in ordered if topic_id in reader.topic_ids]
        least, extra = divmod(counts[topic_id], len(members))
        start = 0
        for number, member_id in enumerate(members):
            end = start + least + (number < extra)
            given[member_id].update((topic_id, partition) for partition in range(start, end))
            start = end
    return given


many_topics = [b"%016d" % number for number in range(6)]
wishes = st.frozensets(st.sampled_from(many_topics))


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.data())
def test_the_uniform_assignment_is_the_one_that_is_found_the_plain_way(data):
    """Also from where nobody would begin: `before` is anything, but each partition is with one member."""
    few = data.draw(st.lists(wishes, min_size=1, max_size=4))
    group = [
        Reader(f"m{number}", None, topics)
        for number, topics in enumerate(data.draw(st.lists(st.sampled_from(few), min_size=1, max_size=9)))
    ]
    sizes = {topic: data.draw(st.integers(0, 12)) for topic in many_topics}
    hoarder = data.draw(st.integers(0, len(group) - 1))
    before = {reader.member_id: set() for reader in group}
    for topic, size in sizes.items():
        for partition in range(size):
            owner = data.draw(st.one_of(st.none(), st.just(hoarder), st.integers(0, len(group) - 1)))
            if owner is not None:
                before[f"m{owner}"].add((topic, partition))
    group = data.draw(st.permutations(group))
    frozen = {member_id: frozenset(partitions) for member_id, partitions in before.items()}
    quick = uniform_assignor(group, sizes, frozen)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(assignors, "_fill_quotas", plain_quotas)
        patched.setattr(assignors, "_fill_lowest", plain_lowest)
        assert uniform_assignor(group, sizes, frozen) == quick


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.data())
def test_the_range_assignment_is_the_one_that_is_found_the_plain_way(data):
    few = data.draw(st.lists(wishes, min_size=1, max_size=4))
    group = [
        Reader(f"m{number}", data.draw(st.sampled_from([None, f"i{9 - number}"])), topics)
        for number, topics in enumerate(data.draw(st.lists(st.sampled_from(few), max_size=9)))
    ]
    group = data.draw(st.permutations(group))
    sizes = {topic: data.draw(st.integers(0, 12)) for topic in many_topics}
    assert range_assignor(group, sizes, {}) == plain_ranges(group, sizes)


class CountedName(str):
    """Tells how often anybody looked something up by it."""

    looks = 0

    def __hash__(self):
        CountedName.looks += 1
        return super().__hash__()


class CountedWishes(frozenset):
    """Tells how often anybody asked what is in it."""

    looks = 0

    def __contains__(self, one):
        CountedWishes.looks += 1
        return super().__contains__(one)


def test_range_does_not_ask_every_member_about_every_topic():
    topics = [b"%016d" % number for number in range(300)]
    wished = CountedWishes(topics)
    group = [Reader(CountedName(f"m{number:03}"), None, wished) for number in range(200)]
    CountedName.looks = CountedWishes.looks = 0
    given_ = range_assignor(group, dict.fromkeys(topics, 2), {})
    assert sum(map(len, given_.values())) == 600
    assert CountedWishes.looks == 0
    assert CountedName.looks < 3 * 200 + 600


class CountedSet(set):
    """Tells how often anybody asked how large such sets are."""

    looks = 0

    def __len__(self):
        CountedSet.looks += 1
        return super().__len__()


def test_giving_to_the_lowest_does_not_look_at_everybody_for_each_partition():
    group = readers(*(f"a{n:03}" for n in range(150))) + readers(
        *(f"b{n:03}" for n in range(150)), topics=(A, B)
    )
    given_ = {reader.member_id: CountedSet() for reader in group}
    CountedSet.looks = 0
    assignors._fill_lowest(given_, [(topic, n) for topic in (A, B) for n in range(1500)], group)
    assert {len(partitions) for partitions in given_.values()} == {10}
    assert CountedSet.looks < 20 * 3000


def test_topics_that_all_want_do_not_cost_a_look_at_everybody_each():
    """Also where everybody wants a topic of its own, too, so that no two want the same."""
    own = [b"own%013d" % number for number in range(100)]
    shared = [b"all%013d" % number for number in range(1000)]
    group = [Reader(f"m{number:03}", None, frozenset((*shared, mine))) for number, mine in enumerate(own)]
    given_ = {reader.member_id: CountedSet() for reader in group}
    CountedSet.looks = 0
    assignors._fill_lowest(given_, [(topic, 0) for topic in (*own, *shared)], group)
    assert {len(partitions) for partitions in given_.values()} == {11}
    assert CountedSet.looks < 20 * 1100


def test_what_few_want_is_given_with_one_look_at_each_of_them():
    """Where each topic has members of its own choosing and few partitions, nothing is prepared for later."""
    topics = [b"%016d" % number for number in range(8)]
    group = [
        Reader(f"m{n:03}", None, frozenset(topic for bit, topic in enumerate(topics) if n >> bit & 1))
        for n in range(1, 256)
    ]
    loads = assignors._Loads({reader.member_id: set() for reader in group}, group)
    for topic in topics:
        loads.give(topic, [(topic, 0)])
    assert not any(loads._crowd_of[topic].tops for topic in topics)


class FirstIsFar(list):
    def pop(self, at=-1):
        assert at == -1 or len(self) == 1, "all behind it would move"
        return super().pop(at)


def test_nothing_is_taken_from_the_front_of_a_long_list():
    given_ = {"a": set(), "b": set()}
    assignors._fill_quotas(given_, FirstIsFar((A, n) for n in range(10)))
    assert given_ == {"a": {(A, n) for n in range(5)}, "b": {(A, n) for n in range(5, 10)}}
