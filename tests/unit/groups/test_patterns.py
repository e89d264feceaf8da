import re
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.kernel.groups.patterns import Pattern
from mainstem.model.errors import InvalidRegularExpression


@pytest.mark.parametrize(
    ("regex", "name", "expected"),
    [
        ("orders", "orders", True),
        ("orders", "orders-2", False),
        ("orders.*", "orders-2", True),
        ("^orders-[0-9]+$", "orders-17", True),
        (r"orders\.\d{2,3}", "orders.1", False),
        (r"orders\.\d{2,3}", "orders.123", True),
        ("(eu|us)-(?:a|b)?", "eu-", True),
        ("(?P<region>eu|us)-x", "us-x", True),
        ("[^a-z]+", "ABC", True),
        ("[^a-z]+", "aBC", False),
        (r"[\w.-]*", "a_B-9.c", True),
        (r"[]a]+", "]a]", True),
        ("a{3}", "aaa", True),
        ("a{0}b", "b", True),
        ("a{2,}", "a", False),
        ("a{2,}", "aaaaa", True),
        ("(a*)*b", "aab", True),
        ("", "", True),
        ("a|", "", True),
        ("x^a", "xa", False),
        ("a.*?b", "a--b", True),
    ],
)
def test_a_pattern_matches_whole_names(regex, name, expected):
    assert Pattern(regex).matches(name) is expected


@pytest.mark.parametrize(
    "regex",
    [
        "(",
        ")",
        "[a",
        "*",
        "a**",
        "(?=a)",
        r"(a)\1",
        "a{2,1}",
        "a{x}",
        "a\\",
        "[z-a]",
        r"\b",
        "a{5000}",
        "(?P<1>a)",
    ],
)
def test_a_bad_or_unsupported_pattern_is_refused(regex):
    with pytest.raises(InvalidRegularExpression):
        Pattern(regex)


@pytest.mark.parametrize("regex", ["a" * 1_001, "(((a{1000}){1000}){1000})", "(" * 60 + "a" + ")" * 60])
def test_a_pattern_that_would_cost_too_much_is_refused(regex):
    with pytest.raises(InvalidRegularExpression):
        Pattern(regex)


@pytest.mark.parametrize("regex", ["(a+)+b", "(a|a)*b", "(.*)*(.*)*(.*)*x", "a*a*a*a*a*a*a*a*a*a*b"])
def test_a_pattern_that_makes_backtracking_explode_is_answered(regex):
    """Backtracking would take longer than the universe has existed; finishing at all is the test."""
    assert not Pattern(regex).matches("a" * 249)


def test_a_pattern_that_explodes_into_states_gives_up():
    hostile = Pattern("[ab]*a[ab]{150}")
    names = [f"{bits:012b}".translate({48: "a", 49: "b"}) * 20 for bits in range(4_096)]
    with pytest.raises(InvalidRegularExpression):
        list(map(hostile.matches, names))


atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "(a|b)", "(ab)", "(?:a|)", r"\w", "-"])
pieces = st.tuples(atoms, st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}"])).map("".join)
regexes = st.lists(pieces, max_size=4).map("".join)


@settings(derandomize=True)
@given(st.lists(regexes, min_size=1, max_size=2).map("|".join), st.text("ab-", max_size=6))
def test_answers_agree_with_python(regex, name):
    assert Pattern(regex).matches(name) == (re.fullmatch(regex, name) is not None)


def test_a_range_takes_no_memory_for_what_is_in_it():
    for regex in ("[\x00-\U0010ffff]+", "[^\x80-\U0010ffff]+", "[\x00-\U0010fffe\x01-\U0010ffff-]+"):
        tracemalloc.start()
        pattern = Pattern(regex)
        assert pattern.matches("orders-17")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()
    assert not Pattern("[^\x80-\U0010ffff]+").matches("\xe4")


def apart(count: int, form: str) -> str:
    """A class of characters that Python keeps one by one, with others between them."""
    return "[" + "".join(form.format(chr(0x10000 + 4 * n), chr(0x10001 + 4 * n)) for n in range(count)) + "]"


@pytest.mark.parametrize(
    "regex",
    [
        apart(330, "{}-{}"),
        apart(990, "{}"),
        apart(1, "{}-{}") * 190,
        r"[\w]" * 240,
        r"[\W]" * 240,
        "[a-z]{490}",
    ],
    ids=["ranges", "characters", "classes of a range", "classes of words", "of no words", "repeats"],
)
def test_what_a_pattern_takes_in_memory_is_counted(regex):
    Pattern(regex)  # what Python keeps for the next time is not its own
    tracemalloc.start()
    pattern = Pattern(regex)
    assert not pattern.matches("orders-17")
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert pattern.size / 3 < taken < pattern.size


@pytest.mark.parametrize("regex", ["[a-cb-de-g]", "[c-da-b]", "[^a-cx-z_]", r"[\da-f.-]", "[b-b]"])
def test_ranges_match_what_re_matches(regex):
    for char in map(chr, range(128)):
        assert Pattern(regex).matches(char) == bool(re.fullmatch(regex, char))
