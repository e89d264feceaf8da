"""Spark's SQL as sqlglot reads it, with what a stream needs and it does not know.

`window` is a word of the standard, so sqlglot takes no function of that name; and `WATERMARK at DELAY OF ...`
is Spark's alone. Both are mended among the tokens, so that every position stays that of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType

from mainstem.pipeline.parts import PipelineError, Position


class Text:
    """A file's text, or a part of it that begins at `begin`: knows line and column of every offset."""

    def __init__(self, text: str, begin: Position) -> None:
        self.text = text
        self._begin = begin

    def at(self, offset: int) -> Position:
        before = self.text[:offset]
        return self.line_and_column(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)

    def line_and_column(self, line: int, column: int) -> Position:
        shift = self._begin.column - 1 if line == 1 else 0
        return Position(self._begin.file, self._begin.line + line - 1, column + shift)


def text_of(file: str, text: str) -> Text:
    return Text(text, Position(file, 1, 1))


def tokens_of(source: Text) -> list[Any]:
    try:
        return list(Spark().tokenize(source.text))
    except TokenError as error:
        raise PipelineError(_unclosed(source), f"not SQL: {error.args[0].splitlines()[0]}") from None


def _unclosed(source: Text) -> Position:
    """The tokenizer does not say where it stopped: the last quote or comment that begins is a fair guess."""
    found = max(source.text.rfind(mark) for mark in ("'", '"', "`", "/*"))
    return source.at(max(found, 0))


def parse_select(tokens: Sequence[Any], source: Text) -> exp.Query:
    """One SELECT (or WITH, VALUES, FROM ... |> ...) out of the tokens of the file."""
    try:
        trees = Spark().parser().parse(_mended(tokens), source.text)
    except ParseError as error:
        wrong = error.errors[0]
        raise PipelineError(_start_of(wrong, source), _said(wrong)) from None
    tree = trees[0] if trees else None
    if not isinstance(tree, exp.Query):
        raise PipelineError(source.at(tokens[0].start), "a SELECT must stand here")
    return tree


def parse_query(query: str, at: Position) -> tuple[exp.Query, Text]:
    """A SELECT that was cut out of its file; the text knows where its words stand there."""
    source = Text(query, at)
    return parse_select(tokens_of(source), source), source


def position_of(node: exp.Expression, source: Text) -> Position:
    named = node if "start" in node.meta else node.find(exp.Identifier)
    return source.at(named.meta["start"] if named is not None and "start" in named.meta else 0)


def _mended(tokens: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.token_type == TokenType.WINDOW and _is(tokens, index + 1, "("):
            token = Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)
        if (
            _is(tokens, index, "WATERMARK")
            and _is(tokens, index + 2, "DELAY")
            and _is(tokens, index + 3, "OF")
        ):
            index += 7  # WATERMARK at DELAY OF INTERVAL 10 SECONDS
            continue
        found.append(token)
        index += 1
    return found


def _is(tokens: Sequence[Any], index: int, word: str) -> bool:
    return index < len(tokens) and tokens[index].text.upper() == word


def _start_of(wrong: dict[str, Any], source: Text) -> Position:
    """sqlglot counts columns to the last character of a word; people look at the first."""
    length = len(wrong["highlight"] or "")
    return source.line_and_column(wrong["line"], max(1, wrong["col"] - length + 1))


def _said(wrong: dict[str, Any]) -> str:
    near = f" near {wrong['highlight']!r}" if wrong["highlight"] else ""
    what = wrong["description"]
    if what.startswith("Required keyword"):
        what = "something is missing"
    elif what.startswith("Invalid expression"):
        what = "this word makes no sense here"
    return f"syntax error{near}: {what[0].lower()}{what[1:]}"
