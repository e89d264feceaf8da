import pytest

from mainstem.kernel.routing.binding import Binding, Target
from mainstem.kernel.routing.topic_trie import Topic
from mainstem.model.errors import InvalidRequest


def bound(pattern, queue="q"):
    return Binding("e", Target("queue", queue), pattern)


def matches(pattern, key):
    topic = Topic()
    topic.add(bound(pattern))
    return bool(list(topic.match([key], {})))


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("#.c", "c", True),
        ("#.c", "a.b.c", True),
        ("#.c", "a.b", False),
        ("a.#.c", "a.c", True),
        ("a.#.c", "a.c.c", True),
        ("*.#", "a", True),
        ("#.*", "a", True),
        ("*.#.*", "a", False),
        ("*.#.*", "a.b", True),
        ("#.#", "", True),
        ("#.*.#.b.#", "b", False),
        ("#.*.#.b.#", "b.b", True),
        # An empty key has no words at all.
        ("#", "", True),
        ("*", "", False),
        ("", "", True),
        ("", "a", False),
        ("*", ".", False),
        # A dot alone parts two empty words, and an empty word is a word.
        ("*.*", ".", True),
        ("*.*.*", ".", False),
        ("#", ".", True),
        (".", ".", True),
        ("*", "a.", False),
        ("a.*", "a.", True),
        ("a.", "a", False),
        ("*.a", ".a", True),
        # Only a whole word is a wildcard.
        ("a*", "ab", False),
        ("a*", "a*", True),
        ("a.#b", "a.b", False),
        # A key's own stars and hashes are words like any other.
        ("a.b", "a.*", False),
        ("a.b", "#", False),
        ("*", "*", True),
        ("*", "#", True),
        ("#.b", "#", False),
        ("a.#.b", "a.#", False),
        ("a.#.b", "a.#.b", True),
        ("*.b", "*.*", False),
    ],
)
def test_patterns(pattern, key, expected):
    assert matches(pattern, key) is expected


def test_patterns_that_share_words_are_found_together():
    topic = Topic()
    patterns = ["a.b", "a.*", "a.#", "#", "*.b", "a.c", "b.#"]
    for pattern in patterns:
        topic.add(bound(pattern))
    assert {one.key for one in topic.match(["a.b"], {})} == {"a.b", "a.*", "a.#", "#", "*.b"}
    assert {one.key for one in topic} == set(patterns)


def test_a_removed_pattern_leaves_those_beside_it():
    topic = Topic()
    for pattern in ("a.*", "a.*.c", "a.#", "a.b"):
        topic.add(bound(pattern))
    topic.add(bound("a.*", "r"))
    topic.remove(bound("a.*"))
    assert {(one.target.name, one.key) for one in topic.match(["a.b"], {})} == {
        ("r", "a.*"),
        ("q", "a.#"),
        ("q", "a.b"),
    }
    topic.remove(bound("a.#"))
    assert [one.key for one in topic.match(["a.b.c"], {})] == ["a.*.c"]


def test_what_was_never_bound_can_be_removed_without_harm():
    topic = Topic()
    topic.add(bound("a.*.c"))
    for pattern in ("a.*", "a.*.c.#", "x.#", "a.b", "a.*.d"):
        topic.remove(bound(pattern))
    assert [one.key for one in topic] == ["a.*.c"]
    assert list(topic.match(["a.b.c"], {}))


def test_nothing_is_left_of_removed_patterns():
    topic = Topic()
    patterns = ["a.*", "a.*.c", "#.a.#", "*", "b.*"]
    for pattern in patterns:
        topic.add(bound(pattern))
    for pattern in patterns:
        topic.remove(bound(pattern))
    assert list(topic) == []
    assert topic._root.is_bare()


def test_a_pattern_made_of_wildcards_costs_no_more_than_its_length():
    topic = Topic()
    topic.add(bound(".".join(["#", "a"] * 60 + ["b"])))
    topic.add(bound(".".join(["#"] * 128)))
    # Trying one way after the other would take longer than the universe has time.
    assert [one.key[:3] for one in topic.match([".".join(["a"] * 128)], {})] == ["#.#"]


def test_a_pattern_has_a_bounded_number_of_words():
    Topic().check(bound(".".join("*" * 256)))
    with pytest.raises(InvalidRequest, match="256 words"):
        Topic().check(bound(".".join("*" * 257)))
