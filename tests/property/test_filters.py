"""SQL filters against a small interpreter of the same conditions, and LIKE against regular expressions."""

import operator
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mainstem.kernel.filters.like import Like
from mainstem.kernel.filters.sql import SqlFilter
from mainstem.model.errors import InvalidRequest

NAMES = ["a", "b", "date", "x-y"]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.5, -1.5, 2.0]),
    st.sampled_from(["", "a", "1"]),
)
COMPARISONS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def leaf(value):
    return ("constant", value)


def operands():
    """Trees of values: (kind, parts...)."""
    leaves = st.one_of(VALUES.map(leaf), st.sampled_from(NAMES).map(lambda name: ("header", name)))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(st.sampled_from(["+", "-", "*", "/"]), inner, inner), st.tuples(st.just("neg"), inner)
        ),
        max_leaves=4,
    )


def conditions():
    some = operands()
    simple = st.one_of(
        st.tuples(st.just("compare"), st.sampled_from(sorted(COMPARISONS)), some, some),
        st.tuples(st.just("between"), some, some, some),
        st.tuples(st.just("in"), some, st.lists(VALUES, min_size=1, max_size=3)),
        st.tuples(st.just("like"), some, st.text("a1%_", max_size=3)),
        st.tuples(st.just("null"), some),
    )
    return st.recursive(
        simple,
        lambda inner: st.one_of(
            st.tuples(st.sampled_from(["and", "or"]), inner, inner), st.tuples(st.just("not"), inner)
        ),
        max_leaves=6,
    )


def written(tree):
    match tree:
        case "constant", value:
            return {None: "NULL"}.get(value) or (
                f"'{value}'" if isinstance(value, str) else str(value).upper()
            )
        case "header", name:
            return f'"{name}"'
        case "neg", inner:
            return f"(- {written(inner)})"
        case "compare", sign, left, right:
            return f"{written(left)} {sign} {written(right)}"
        case "between", value, low, high:
            return f"{written(value)} BETWEEN {written(low)} AND {written(high)}"
        case "in", value, constants:
            return f"{written(value)} IN ({', '.join(written(leaf(one)) for one in constants)})"
        case "like", value, pattern:
            return f"{written(value)} LIKE '{pattern}'"
        case "null", value:
            return f"{written(value)} IS NULL"
        case "not", inner:
            return f"NOT ({written(inner)})"
        case ("and" | "or") as word, left, right:
            return f"({written(left)}) {word} ({written(right)})"
        case sign, left, right:
            return f"({written(left)} {sign} {written(right)})"


def is_number(value):
    return type(value) in (int, float)


def compared(how, left, right):
    if left is None or right is None:
        return None
    if type(left) is bool and type(right) is bool:
        return how in (operator.eq, operator.ne) and how(left, right)
    if (is_number(left) and is_number(right)) or (type(left) is str and type(right) is str):
        return how(left, right)
    return False


def every(values):
    return False if any(value is False for value in values) else None if None in values else True


def calculated(sign, left, right):
    if not is_number(left) or not is_number(right) or (sign == "/" and right == 0):
        return None
    if sign == "/":
        exact = left / right
        return int(exact) if type(left) is int and type(right) is int else exact
    return {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign](left, right)


def value_of(tree, headers):
    match tree:
        case "constant", value:
            return value
        case "header", name:
            return headers.get(name)
        case "neg", inner:
            return calculated("-", 0, value_of(inner, headers))
        case sign, left, right:
            return calculated(sign, value_of(left, headers), value_of(right, headers))


def truth_of(tree, headers):
    match tree:
        case "compare", sign, left, right:
            return compared(COMPARISONS[sign], value_of(left, headers), value_of(right, headers))
        case "between", value, low, high:
            found = value_of(value, headers)
            return every(
                [
                    compared(operator.ge, found, value_of(low, headers)),
                    compared(operator.le, found, value_of(high, headers)),
                ]
            )
        case "in", value, constants:
            found = value_of(value, headers)
            results = [compared(operator.eq, found, one) for one in constants]
            return True if True in results else None if None in results else False
        case "like", value, pattern:
            found = value_of(value, headers)
            return None if found is None else type(found) is str and bool(as_regex(pattern).fullmatch(found))
        case "null", value:
            return value_of(value, headers) is None
        case "not", inner:
            found = truth_of(inner, headers)
            return None if found is None else not found
        case "and", left, right:
            return every([truth_of(left, headers), truth_of(right, headers)])
        case "or", left, right:
            results = [truth_of(left, headers), truth_of(right, headers)]
            return True if True in results else None if None in results else False


def as_regex(pattern):
    return re.compile(
        "".join({"%": ".*", "_": "."}.get(char) or re.escape(char) for char in pattern), re.DOTALL
    )


HEADERS = st.dictionaries(st.sampled_from(NAMES), VALUES)


@settings(max_examples=500, deadline=None)
@given(conditions(), st.lists(HEADERS, min_size=1, max_size=4))
def test_a_filter_passes_what_the_condition_is_true_of(tree, messages):
    text = written(tree)
    passes, opposite = SqlFilter(text), SqlFilter(f"NOT ({text})")
    for headers in messages:
        truth = truth_of(tree, headers)
        assert passes.matches(headers) is (truth is True), text
        assert opposite.matches(headers) is (truth is False), text


@settings(max_examples=500, deadline=None)
@given(st.text("ab%_\n", max_size=8), st.text("ab\n%", max_size=10))
def test_like_is_what_the_regular_expression_would_be(pattern, text):
    assert Like(pattern).matches(text) is bool(as_regex(pattern).fullmatch(text))


SIGNS = ["(", ")", ",", ".", "=", "<>", "<", ">", "+", "-", "*", "/", ";", "%", "||", "--"]
KEYWORDS = ["AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "ESCAPE", "IS", "NULL", "TRUE"]
WORDS = st.sampled_from([*SIGNS, *KEYWORDS, "a", "b", "date", "ANY", "SYMMETRIC", '"q"', "'x'", "1", "2.5"])


@settings(max_examples=500, deadline=None)
@given(st.one_of(st.lists(WORDS, max_size=14).map(" ".join), st.text(max_size=30)))
@example("a = .5")
@example("\ud800 = 1")
@example("a = '\ud800'")
@example("\0")
def test_any_text_is_a_filter_or_a_clear_error(text):
    try:
        passes = SqlFilter(text)
    except InvalidRequest:
        return
    assert passes.matches({"a": 1, "b": "x"}) in (True, False)
