"""A SQL file to its parts. The heads of statements are read here, what follows AS by sqlglot.

CREATE STREAM|TABLE|VIEW name [(columns)] [WITH (name = 'value', ...)] [AS select];
INSERT INTO name select;
CREATE JOB name USING kind WITH (...);
IMPORT 'file.py';
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from sqlglot.tokens import TokenType

from mainstem.pipeline.dialect import Text, parse_select, text_of, tokens_of
from mainstem.pipeline.parts import (
    Insert,
    JobPart,
    Kind,
    Option,
    Part,
    PipelineError,
    Position,
    Query,
    Source,
)

_KINDS: dict[str, Kind] = {"STREAM": "stream", "TABLE": "table", "VIEW": "view"}
_OPENING, _CLOSING = {"(": 1, "<": 1}, {")": 1, ">": 1, ">>": 2}


@dataclass(frozen=True, slots=True)
class Import:
    """Another file's parts belong to this pipeline too."""

    path: str
    at: Position


def parse(text: str, file: str) -> list[Part | Import]:
    source = text_of(file, text)
    found: list[Part | Import] = []
    for tokens in _statements(tokens_of(source)):
        statement = _Statement(tokens, source)
        if statement.takes("INSERT"):
            found.append(statement.insert())
        elif statement.takes("CREATE"):
            found.append(statement.create())
        elif statement.takes("IMPORT"):
            found.append(statement.imports())
        else:
            raise statement.expected("CREATE", "INSERT", "IMPORT")
    return found


def _statements(tokens: list[Any]) -> Iterator[list[Any]]:
    one: list[Any] = []
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            if one:
                yield one
            one = []
        else:
            one.append(token)
    if one:
        yield one


class _Statement:
    """A cursor over the tokens of one statement."""

    def __init__(self, tokens: list[Any], source: Text) -> None:
        self._tokens = tokens
        self._source = source
        self._next = 0
        self._at = source.at(tokens[0].start)

    # --- statements ------------------------------------------------------------------------------

    def insert(self) -> Insert:
        self._must("INTO")
        self.takes("TABLE", "STREAM")
        into = self._name("a stream or table")
        query, at = self._select()
        return Insert("", into, query, at, self._at)

    def create(self) -> Part:
        if self.takes("OR"):
            raise self._wrong("CREATE OR REPLACE makes no sense here: a file is the whole pipeline", back=1)
        if self.takes("JOB"):
            return self._job()
        word = self._peek().upper()
        if word not in _KINDS:
            raise self.expected(*_KINDS, "JOB")
        self._next += 1
        kind = _KINDS[word]
        name = self._name(f"the name of the {word.lower()}")
        schema = self._schema() if self._peek() == "(" else ""
        options = self._options() if self.takes("WITH") else {}
        if not self.takes("AS"):
            self._end("WITH", "AS")
            if kind == "view":
                raise self._wrong(f"CREATE VIEW {name} needs AS and a SELECT", back=1)
            return Source(kind, name, schema, options, self._at)
        if schema:
            raise PipelineError(
                self._at, f"{name} takes its columns from the SELECT: drop the list of columns"
            )
        query, at = self._select()
        return Query(kind, name, options, query, at, self._at)

    def imports(self) -> Import:
        at = self._source.at(self._tokens[min(self._next, len(self._tokens) - 1)].start)
        path = self._string("the file to import")
        self._end()
        return Import(path, at)

    def _job(self) -> JobPart:
        name = self._name("the name of the job")
        self._must("USING")
        kind = self._name("the kind of job")
        options = self._options() if self.takes("WITH") else {}
        self._end("WITH")
        return JobPart(name, kind.lower(), options, self._at)

    # --- pieces ----------------------------------------------------------------------------------

    def _select(self) -> tuple[str, Position]:
        rest = self._tokens[self._next :]
        if not rest:
            raise self._wrong("a SELECT is missing", back=1)
        parse_select(rest, self._source)
        begin, end = rest[0].start, rest[-1].end + 1
        return self._source.text[begin:end], self._source.at(begin)

    def _schema(self) -> str:
        """The text between the outer parentheses: DDL is Spark's to read."""
        opened = self._tokens[self._next]
        depth = 0
        for index in range(self._next, len(self._tokens)):
            text = self._tokens[index].text
            depth += _OPENING.get(text, 0) - _CLOSING.get(text, 0)
            if depth == 0:
                closed = self._tokens[index]
                self._next = index + 1
                return self._source.text[opened.end + 1 : closed.start].strip()
        raise PipelineError(self._source.at(opened.start), "this parenthesis is never closed")

    def _options(self) -> dict[str, Option]:
        self._must("(")
        options: dict[str, Option] = {}
        while True:
            at = self._here()
            name = self._option_name()
            self._must("=")
            if name in options:
                raise PipelineError(at, f"option {name!r} is given twice")
            options[name] = Option(self._value(name), at)
            if self.takes(")"):
                return options
            self._must(",")

    def _option_name(self) -> str:
        """`topic`, `'kafka.acks'`, or kafka.acks without quotes."""
        name = self._name("the name of an option")
        while self.takes("."):
            name += "." + self._name("the rest of an option's name")
        return name.lower()

    def _value(self, name: str) -> str:
        token = self._tokens[self._next] if self._next < len(self._tokens) else None
        if token is None or token.token_type not in (
            TokenType.STRING,
            TokenType.NUMBER,
            TokenType.TRUE,
            TokenType.FALSE,
        ):
            raise self._wrong(f"the value of {name!r} must be a 'text', a number, true or false")
        self._next += 1
        text = str(token.text)
        if token.token_type in (TokenType.TRUE, TokenType.FALSE):
            return text.lower()
        if token.token_type == TokenType.STRING and self._peek_type() == TokenType.STRING:
            raise self._wrong("write a quote inside a text as \\'")
        return text

    def _string(self, what: str) -> str:
        if self._peek_type() != TokenType.STRING:
            raise self._wrong(f"{what} must stand here, in quotes")
        self._next += 1
        return str(self._tokens[self._next - 1].text)

    def _name(self, what: str) -> str:
        text = self._peek()
        if not text or not (text[0].isalpha() or text[0] == "_" or self._peek_type() == TokenType.IDENTIFIER):
            if self._peek_type() == TokenType.STRING and text:
                self._next += 1
                return text
            raise self._wrong(f"{what} must stand here")
        self._next += 1
        return text

    # --- the cursor ------------------------------------------------------------------------------

    def takes(self, *words: str) -> bool:
        found = self._peek_type() != TokenType.STRING and self._peek().upper() in words
        self._next += found
        return found

    def expected(self, *words: str) -> PipelineError:
        near = get_close_matches(self._peek().upper(), words, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return self._wrong(f"{_listed(words)} must stand here, not {self._peek()!r}{hint}")

    def _must(self, word: str) -> None:
        if not self.takes(word):
            raise self.expected(word) if self._peek() else self._wrong(f"{word} is missing", back=1)

    def _end(self, *words: str) -> None:
        if self._next < len(self._tokens):
            raise self.expected(*words, ";")

    def _peek(self) -> str:
        return str(self._tokens[self._next].text) if self._next < len(self._tokens) else ""

    def _peek_type(self) -> object:
        return self._tokens[self._next].token_type if self._next < len(self._tokens) else None

    def _here(self, back: int = 0) -> Position:
        index = min(self._next - back, len(self._tokens) - 1)
        return self._source.at(self._tokens[max(index, 0)].start)

    def _wrong(self, what: str, *, back: int = 0) -> PipelineError:
        return PipelineError(self._here(back), what)


def _listed(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
