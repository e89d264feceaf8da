"""Types are read before Spark does, and a wrong one is told where it stands."""

from pathlib import Path

import pytest

from mainstem.pipeline.ddl import TYPES, ddl_columns, wrong_columns, wrong_type
from mainstem.pipeline.loading import load
from mainstem.pipeline.parts import PipelineErrors
from mainstem.pipeline.validating import validate


def mistakes(file: Path, spark: dict[str, str] | None = None) -> list[str]:
    try:
        validate(load([file]), None, spark)
    except PipelineErrors as errors:
        return [str(error).removeprefix(f"{file.parent}/") for error in errors.all]
    return []


@pytest.mark.parametrize(
    ("ddl", "word", "meant"),
    [
        ("id BIGNT", "BIGNT", "BIGINT"),
        ("id bignt", "bignt", "bigint"),
        ("id BIGINT NOT NULL COMMENT 'a, b c',\n  name STRNG", "STRNG", "STRING"),
        ("a DECIMAL(10, 2), b ARRAY<STRUCT<c: INT, d: MAP<STRING, DUOBLE>>>", "DUOBLE", "DOUBLE"),
        ("a STRUCT<> NOT NULL, b INTERVAL DAY TO SECOND, c TEXT", "TEXT", "STRING"),
        ("a ARRY<INT>", "ARRY", "ARRAY"),
        ("`a b` INTT", "INTT", "INT"),
        ("date DATE, time TIEM", "TIEM", "TIME"),
    ],
)
def test_a_word_that_is_no_type_is_found(ddl, word, meant):
    wrong = wrong_columns(ddl)
    assert wrong is not None
    assert str(wrong) == f"{word} is no type; did you mean {meant}?"
    assert wrong.offset == ddl.index(word)


@pytest.mark.parametrize(
    "ddl",
    [
        "id BIGINT, name STRING",
        "id BIGINT NOT NULL COMMENT 'x', at TIMESTAMP_NTZ -- a comment",
        "a ARRAY<MAP<STRING, STRUCT<b: INT COMMENT 'y', c: ARRAY<DECIMAL(3, 1)>>>>, d VARCHAR(9)",
        "a INTERVAL DAY TO SECOND, b STRING COLLATE UTF8_BINARY, c TIME(6)",
    ],
)
def test_types_of_spark_are_taken(ddl):
    assert wrong_columns(ddl) is None


def test_a_mistake_of_another_kind_is_told_where_it_is():
    wrong = wrong_columns("id BIGINT,\n at DATE more STRING")
    assert wrong is not None
    assert "near 'more'" in str(wrong)
    assert wrong.offset == len("id BIGINT,\n at DATE ")


def test_a_spark_that_may_have_more_types_has_the_last_word():
    assert wrong_columns("id UUID", may_have_more=True) is None
    assert ddl_columns("id UUID") == ("id",)
    wrong = wrong_columns("id BIGNT", may_have_more=True)
    assert "did you mean BIGINT" in str(wrong)


@pytest.mark.parametrize(
    "returns",
    [
        *(one for one in TYPES),
        *(one.lower() for one in TYPES),
        "array<int>",
        "decimal(10, 2)",
        "a int, b string",
        "a: int, b: map<string, double>",
        "interval day to second",
        "struct<a: int>",
    ],
)
def test_a_function_may_return_any_type(returns):
    assert wrong_type(returns) is None


@pytest.mark.parametrize(
    ("returns", "said"),
    [
        ("doubel", "doubel is no type; did you mean double?"),
        ("array<doubel>", "doubel is no type; did you mean double?"),
        ("arry<int>", "arry is no type; did you mean array?"),
        ("a int, b strng", "strng is no type; did you mean string?"),
        ("uuid", "uuid is no type"),
    ],
)
def test_a_function_cannot_return_what_is_no_type(returns, said):
    assert str(wrong_type(returns)) == said


def test_a_wrong_type_is_told_at_its_line_and_column(tmp_path):
    file = tmp_path / "shop.sql"
    file.write_text(
        "-- (id INT, name STRNG)\nCREATE STREAM o (\n  id INT, name STRNG\n) WITH (topic = 'o', key = 'x');\n"
        "CREATE TABLE t (a BIGNT) WITH (format = 'csv', path = 'x'); CREATE VIEW v AS SELECT nme FROM o;"
    )
    assert mistakes(file) == [
        "shop.sql:3:16: o: STRNG is no type; did you mean STRING?",
        "shop.sql:5:19: t: BIGNT is no type; did you mean BIGINT?",
    ]


def test_wrong_types_in_python_are_told_where_they_stand(tmp_path):
    file = tmp_path / "shop.py"
    file.write_text(
        "from mainstem.pipeline import function, read_stream\n"
        "read_stream('o', 'id BIGNT', topic='o')\n"
        "read_stream('p', 'id ' + 'BIGNT', topic='p')\n"
        "@function('doubel')\ndef vat(amount):\n    return amount\n"
    )
    assert mistakes(file) == [
        "shop.py:2:22: o: BIGNT is no type; did you mean BIGINT?",
        "shop.py:3:1: p: BIGNT is no type; did you mean BIGINT?",
        "shop.py:4:12: vat: doubel is no type; did you mean double?",
    ]
    more = mistakes(file, {"spark.sql.extensions": "x"})
    assert len(more) == 2  # a function's type may be one of theirs
