import subprocess
import sys
from decimal import Decimal

import pytest

from mainstem.kernel.filters.sql import SqlFilter
from mainstem.model.errors import InvalidRequest, NotSupported

HEADERS = {
    "n": 5,
    "f": 2.5,
    "s": "abc",
    "b": b"abc",
    "raw": b"\xff",
    "yes": True,
    "no": False,
    "none": None,
    "d": Decimal("1.5"),
    "list": [1],
    "date": "2026-01-02",
    "Case": 1,
    "x-death": 2,
    "a.b": 3,
    "a$b": 4,
    "größe": 6,
    "percent": "50%_",
}


@pytest.mark.parametrize(
    "condition",
    [
        "n = 5",
        "5 = n",
        "n <> 6 AND n < 6 AND n <= 5 AND n > 4 AND n >= 5",
        "n = 5.0",
        "n > f",
        "s = 'abc' AND b = 'abc' AND s = b",
        "s <> 'ABC' AND s < 'abd'",
        "yes",
        "NOT no",
        "yes = TRUE AND no <> true AND no = FALSE",
        "TRUE",
        "yes IS TRUE AND no IS FALSE AND no IS NOT TRUE AND gone IS NOT TRUE",
        "gone IS NULL AND none IS NULL AND n IS NOT NULL AND raw IS NOT NULL AND list IS NOT NULL",
        "n BETWEEN 5 AND 5 AND n NOT BETWEEN 6 AND 9 AND date BETWEEN '2026-01-01' AND '2026-12-31'",
        "s IN ('x', 'abc') AND s NOT IN ('x') AND n IN (1, 5.0) AND n NOT IN (1, '5', TRUE)",
        "yes IN (TRUE) AND n IN (-5, 5) AND f IN (2.5)",
        "s LIKE 'a%' AND s LIKE '_b_' AND s LIKE '%' AND s NOT LIKE 'A%' AND NOT s LIKE 'ab'",
        "percent LIKE '50!%!_' ESCAPE '!' AND s NOT LIKE 'a!%' ESCAPE '!'",
        "n NOT LIKE 'a%'",
        "n + 1 = 6 AND n - 1 = 4 AND n * f = 12.5 AND n / 2 = 2 AND -n / 2 = -2 AND n / 2.0 = 2.5",
        "-n = -5 AND - -n = 5 AND +n = 5 AND n -1 = 4",
        "1 + 2 * 3 = 7 AND (1 + 2) * 3 = 9 AND 10 - 2 - 3 = 5",
        "d = 1.5 AND d + 1 = 2.5",
        "n = 1 OR n = 2 OR n = 5",
        "n = 1 AND n = 2 OR n = 5",
        "NOT n = 1 AND n = 5",
        "NOT (n = 5 AND n = 6)",
        "(((n))) = 5 AND ((yes))",
        "n = 1e0 * 5 and N is null",
        "Case = 1 AND case IS NULL AND CASE IS NULL",
        '"x-death" = 2 AND "n" = 5',
        'a.b = 3 AND "a.b" = 3 AND 3 = a.b',
        "a$b = 4 AND größe = 6",
        "symmetric IS NULL AND NOT (n BETWEEN 6 AND symmetric) AND a.in IS NULL",
        "order IS NULL AND group IS NULL AND select IS NULL AND user IS NULL AND timestamp IS NULL",
        "s <> 'it''s'",
        "n < 9223372036854775807 AND n > -9223372036854775808",
    ],
)
def test_true_conditions(condition):
    assert SqlFilter(condition).matches(HEADERS)
    assert not SqlFilter(f"NOT ({condition})").matches(HEADERS)


@pytest.mark.parametrize(
    "condition",
    [
        "gone = 1",
        "gone <> 1",
        "gone = gone",
        "gone = NULL",
        "n = NULL",
        "NULL",
        "gone BETWEEN 1 AND 2",
        "n BETWEEN gone AND 6",
        "n BETWEEN 1 AND gone",
        "gone IN (1, 2)",
        "gone NOT IN (1)",
        "n IN (1, NULL)",
        "n NOT IN (1, NULL)",
        "gone LIKE 'a%'",
        "gone NOT LIKE 'a%'",
        "gone + 1 = 2",
        "n / 0 = 1",
        "f / 0 = 1",
        "s + 1 = 2",
        "-s = 1",
        "gone AND yes",
        "gone OR no",
        "n AND yes",  # a number is no condition
        "n",
        "s",
    ],
)
def test_what_is_unknown_does_not_pass_and_neither_does_its_opposite(condition):
    assert not SqlFilter(condition).matches(HEADERS)
    assert not SqlFilter(f"NOT ({condition})").matches(HEADERS)


def test_one_part_decides_though_another_is_unknown():
    assert SqlFilter("gone = 1 OR yes").matches(HEADERS)
    assert SqlFilter("NOT (gone = 1 AND no)").matches(HEADERS)
    assert SqlFilter("NOT (n BETWEEN 6 AND gone)").matches(HEADERS)
    assert SqlFilter("NOT (n BETWEEN gone AND 4)").matches(HEADERS)


@pytest.mark.parametrize(
    "condition",
    [
        "n = '5'",
        "n <> '5'",
        "n = TRUE",
        "Case = TRUE",
        "Case <> TRUE",
        "yes = 1",
        "yes = 'true'",
        "yes > no",
        "raw = 'x'",
        "raw <> 'x'",
        "raw = raw",
        "list = 1",
        "list IN (1)",
        "n BETWEEN '1' AND '9'",
        "yes IN (1)",
        "Case IN (TRUE)",
        "n < 1 < 2",
    ],
)
def test_values_of_different_types_are_neither_equal_nor_different(condition):
    assert not SqlFilter(condition).matches(HEADERS)
    assert SqlFilter(f"NOT ({condition})").matches(HEADERS)


@pytest.mark.parametrize(
    ("condition", "passes"),
    [
        ("a > 5 AND b = 'abc'", True),
        ("a = 10 AND a = '10' AND a = 10.0", True),
        ("a BETWEEN 9 AND 11", True),
        ("a IN (10) AND a IN ('10') AND a NOT IN (11)", True),
        ("c AND c = TRUE AND c IS TRUE AND c IN (TRUE) AND NOT d", True),
        ("a + 1 = 11 AND -a = -10 AND a * e = 25", True),
        ("a > b", False),  # two texts are compared as texts
        ("b > 5", False),
        ("b <> 5", False),
        ("a < 9", False),
        ("n = 5", False),
        ("long = 1", False),
    ],
)
def test_texts_are_read_as_numbers_where_a_client_sends_all_headers_as_texts(condition, passes):
    headers = {"a": "10", "b": "abc", "c": "true", "d": "False", "e": "2.5", "n": "5x", "long": "1" * 100_000}
    assert SqlFilter(condition, texts_may_be_numbers=True).matches(headers) is passes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("n =", "not a filter"),
        ("n = 1 2", "not a filter"),
        ("(n = 1", "not a filter"),
        ("n = 1)", "not a filter"),
        ("n = 'x", "never ends"),
        ("n = 1 -- x", "comment"),
        ("n /* x */ = 1", "comment"),
        ("n = 1; n = 2", "';' at column 6"),
        ("n || 'x' = 'y'", "cannot have"),
        ("n % 2 = 1", "cannot have"),
        ("upper(s) = 'ABC'", "no functions"),
        ("n = (SELECT 1)", "not a filter"),
        ("EXISTS (SELECT 1)", "no functions"),
        ("CASE WHEN n = 1 THEN TRUE END", "not a filter"),
        ("n IN (SELECT 1)", "not a filter"),
        ("n IN (m)", "constant"),
        ("n IN m", "constants in parentheses"),
        ("n IN (1,)", "not a filter"),
        ("n IN (1,,2)", "not a filter"),
        ("n BETWEEN 1 2", "not a filter"),
        ("n NOT NULL", "not a filter"),
        ("escape = 1", "cannot have ESCAPE"),
        ("n IN ()", "constants in parentheses"),
        ("s LIKE t", "constant"),
        ("s LIKE 5", "'text'"),
        ("s LIKE 'a' ESCAPE '!!'", "one character"),
        ("s LIKE 'a!b' ESCAPE '!'", "before %, _"),
        ("s LIKE 'a!' ESCAPE '!'", "before %, _"),
        ("s = 'a' ESCAPE '!'", "ESCAPE|not a filter"),
        ("n IS 5", "NULL, TRUE or FALSE"),
        ("n IS m", "NULL, TRUE or FALSE"),
        ("5", "a value where"),
        ("(5)", "a value where"),
        ("'x' OR yes", "a value where"),
        ("NOT n + 1", "a value where"),
        ("n = *", "cannot have|not a filter"),
        ("(n, m) = 1", "not a filter"),
        ("() = 1", "cannot have TUPLE"),
        ("+", "not a filter"),
        ("'a' 'b' = s", "cannot have"),
        ("a. = 1", "'=' at column 4"),
        ("a.", "dot"),
        ("a.IN (1)", "no functions"),
        ("n = 99999999999999999999", "64 bits"),
        ("n = " + "9" * 5000, "64 bits"),
        ("n = @x", "cannot have"),
        ("n = :x", "cannot have"),
        ("n = ?", "cannot have"),
        ("n = {{x}}", "cannot have"),
        ("n::int = 1", "cannot have"),
        ("n[1] = 1", "cannot have"),
        ("n = CAST('1' AS INT)", "no functions"),
        ("date '2026-01-01' = s", "not a filter"),
        ("n BETWEEN SYMMETRIC 1 AND 2", "not a filter|a value"),
        ("n IS DISTINCT FROM 5", "NULL, TRUE or FALSE|not a filter"),
    ],
)
def test_what_is_no_filter_is_refused_with_a_reason(text, says):
    with pytest.raises(InvalidRequest, match=says):
        SqlFilter(text)


def test_long_rows_of_conditions_are_fine():
    row = " OR ".join(f"n={number}" for number in range(400))
    assert SqlFilter(row).matches({"n": 399})
    assert not SqlFilter(row).matches({"n": 400})
    values = ",".join(map(str, range(900)))
    assert SqlFilter(f"n IN ({values})").matches({"n": 899})


@pytest.mark.parametrize(
    "text",
    [
        "(" * 25 + "n = 1" + ")" * 25,
        "NOT " * 9 + "yes",
        "-" + " -" * 8 + "n = 1",
        "n" + " + n" * 70 + " = 1",
        "n" + " = n" * 70,
        "NOT NOT NOT NOT NOT NOT NOT (" * 24 + "yes" + ")" * 24,
        "(" * 100_000,
        "n = 1 OR " * 600 + "n = 1",
        " " * 20_000 + "yes",
    ],
)
def test_depth_and_size_are_bounded(text):
    with pytest.raises(InvalidRequest, match="too deep|at most"):
        SqlFilter(text)


def test_numbers_cannot_grow_without_end():
    huge = " * ".join(["n"] * 60)
    assert not SqlFilter(f"{huge} * 1.5 > 0").matches({"n": 2**63})
    assert SqlFilter(f"{huge} > 0").matches({"n": 2**63})


def test_a_pattern_full_of_wildcards_takes_no_longer():
    like = SqlFilter("s LIKE '" + "%a" * 500 + "%b'")
    assert not like.matches({"s": "a" * 20_000})
    like = SqlFilter("s LIKE '" + "%a_" * 100 + "%b'")
    assert not like.matches({"s": "a" * 2_000})


def test_a_filter_names_the_headers_that_it_asks_for():
    assert SqlFilter("a = 1 AND (b IN (2) OR \"c-d\" LIKE 'x') AND a IS NULL").names == {"a", "b", "c-d"}


def test_without_the_parser_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(NotSupported, match="pip install sqlglot"):
        SqlFilter("a = 1")


def test_the_parser_is_loaded_by_the_first_filter_only():
    program = (
        "import sys; from mainstem.kernel.filters.sql import SqlFilter; assert 'sqlglot' not in sys.modules;"
        "SqlFilter('a = 1'); assert 'sqlglot' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
