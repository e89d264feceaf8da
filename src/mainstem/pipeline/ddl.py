"""Lists of columns as Spark writes them: `id BIGINT, name STRING`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from sqlglot import exp, parse_one
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokens import TokenType

from mainstem.model.errors import InvalidRequest

RAW = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
# All that Spark 4.3 reads; sqlglot takes those of other databases too.
TYPES = (
    *("BOOLEAN", "TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG", "FLOAT", "REAL"),
    *("DOUBLE", "DECIMAL", "DEC", "NUMERIC", "STRING", "CHAR", "CHARACTER", "VARCHAR", "BINARY", "DATE"),
    *("TIME", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "INTERVAL", "ARRAY", "MAP", "STRUCT", "VARIANT"),
    *("VOID", "GEOGRAPHY", "GEOMETRY"),
)
MEANT = {"TEXT": "STRING", "DATETIME": "TIMESTAMP", "NUMBER": "DECIMAL", "INT8": "BIGINT", "INT64": "BIGINT"}


class WrongDdl(InvalidRequest):
    """`offset` is that of the mistake within the DDL."""

    def __init__(self, what: str, offset: int = 0) -> None:
        super().__init__(what)
        self.offset = offset


def ddl_columns(ddl: str) -> tuple[str, ...]:
    try:
        table = parse_one(f"{_HEAD}{ddl}\n)", read="spark")
    except ParseError as error:
        raise _not_columns(ddl, error) from None
    except SqlglotError as error:
        raise WrongDdl(f"not a list of columns: {str(error).splitlines()[0]}") from None
    columns = [column for column in table.this.expressions if isinstance(column, exp.ColumnDef)]
    if not columns or len(columns) != len(table.this.expressions) or any(not one.kind for one in columns):
        raise WrongDdl("not a list of columns: write them as in 'id BIGINT, name STRING'")
    return tuple(column.name for column in columns)


_HEAD = "CREATE TABLE t (\n"  # a line of its own, so that columns are those of the DDL


def _not_columns(ddl: str, error: ParseError) -> WrongDdl:
    wrong = error.errors[0]
    word = wrong["highlight"] or ""
    lines = ddl.split("\n")
    line = wrong["line"] - 2
    if not word or line >= len(lines):
        return WrongDdl("not a list of columns: something is missing at its end", len(ddl))
    # sqlglot counts to the last character of a word.
    offset = sum(len(one) + 1 for one in lines[:line]) + max(0, wrong["col"] - len(word))
    return WrongDdl(f"not a list of columns near {word!r}: write them as in 'id BIGINT, name STRING'", offset)


def wrong_columns(ddl: str, *, may_have_more: bool = False) -> WrongDdl | None:
    """`may_have_more`: Spark may know other types than TYPES; then sqlglot must refuse them too."""
    refused: WrongDdl | None = None
    try:
        ddl_columns(ddl)
    except WrongDdl as error:
        refused = error
    unknown = None if may_have_more and refused is None else _unknown_type(ddl, is_list=True)
    return unknown or refused


def wrong_type(ddl: str) -> WrongDdl | None:
    """Of a type, or a list of columns, which stands for a STRUCT of them."""
    return _unknown_type(ddl, is_list=False)


def _unknown_type(ddl: str, *, is_list: bool) -> WrongDdl | None:
    """The first word that stands where a type does and is none."""
    try:
        reader = _Reader([*_words(ddl)])
    except SqlglotError:
        return None
    word = next(reader.columns() if is_list else reader.type_or_columns(), None)
    return WrongDdl(f"{word.text} is no type{_meant(word.text)}", word.start) if word else None


def _meant(word: str) -> str:
    upper = word.upper()
    near = [MEANT[upper]] if upper in MEANT else get_close_matches(upper, TYPES, n=1)
    return f"; did you mean {near[0].lower() if word.islower() else near[0]}?" if near else ""


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    start: int
    is_quoted: bool = False


def _words(ddl: str) -> Iterator[_Word]:
    for token in Spark().tokenize(ddl):
        if token.text in (">>", "<>"):
            yield _Word(token.text[0], token.start)
            yield _Word(token.text[1], token.start + 1)
        else:
            is_quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
            yield _Word(token.text, token.start, is_quoted)


class _Reader:
    """Looks at types only, and stops where it understands nothing: the rest is for others to refuse."""

    def __init__(self, words: list[_Word]) -> None:
        self._words = words
        self._next = 0

    def type_or_columns(self) -> Iterator[_Word]:
        is_alone = len(self._words) < 2 or self._words[1].text in ("(", "<")
        return self._type() if is_alone or self._peek().upper() in TYPES else self.columns()

    def columns(self) -> Iterator[_Word]:
        """Only the words that are no types; those of a list, or within STRUCT<...>."""
        while self._next < len(self._words):
            name = self._words[self._next]
            if not name.is_quoted and not name.text.isidentifier():
                return
            self._next += 1
            self._takes(":")
            yield from self._type()
            if not self._takes(","):
                return

    def _type(self) -> Iterator[_Word]:
        """And what follows it: NOT NULL, COMMENT 'x', DAY TO SECOND."""
        if self._next == len(self._words):
            return
        word = self._words[self._next]
        if word.is_quoted or not word.text[:1].isalpha():
            self._next = len(self._words)
            return
        self._next += 1
        name = word.text.upper()
        if name not in TYPES:
            yield word
        if self._takes("<"):
            yield from self.columns() if name == "STRUCT" else self._types()
            self._takes(">")
        self._skip()

    def _types(self) -> Iterator[_Word]:
        yield from self._type()
        while self._takes(","):
            yield from self._type()

    def _skip(self) -> None:
        """To the comma or bracket after which something else begins."""
        depth = 0
        while self._next < len(self._words) and (depth or self._peek() not in (",", ">")):
            depth += {"(": 1, ")": -1}.get(self._peek(), 0)
            self._next += 1

    def _takes(self, mark: str) -> bool:
        found = self._peek() == mark
        self._next += found
        return found

    def _peek(self) -> str:
        """Empty at the end, and for what is in quotes."""
        if self._next >= len(self._words) or self._words[self._next].is_quoted:
            return ""
        return self._words[self._next].text
