"""Spark's SQL as sqlglot reads it, with what a stream needs and it does not know.

`window` is a word of the standard, so sqlglot takes no function of that name; and `WATERMARK at DELAY OF ...`
is Spark's alone. Both are mended among the tokens, so that every position stays that of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.tokens import Token, TokenType

from mainstem.pipeline.parts import PipelineError, Position

_MARKS = {"--": "\n", "/*": "*/", "'": "'", '"': '"', "`": "`"}
_NEVER_AFTER_COMMA = ("FROM", "WHERE", "GROUP", "ORDER", "HAVING", "UNION", ")", ",")
_UNITS = frozenset({"MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK"})


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
    """The tokenizer does not say which quote or comment is never closed."""
    text, index = source.text, 0
    while index < len(text):
        mark = next((mark for mark in _MARKS if text.startswith(mark, index)), "")
        if not mark:
            index += 1
            continue
        end = text.find(_MARKS[mark], index + len(mark))
        while end > 0 and mark in "'\"" and text[end - 1] == "\\":
            end = text.find(mark, end + 1)
        if end < 0:
            return source.at(index)
        index = end + len(_MARKS[mark])
    return source.at(0)


def parse_select(tokens: Sequence[Any], source: Text) -> exp.Query:
    """One SELECT (or WITH, FROM ... |> ...) out of the tokens of the file."""
    try:
        trees = Spark().parser().parse(_mended(tokens, source), source.text)
        tree = trees[0] if trees else None
        if isinstance(tree, exp.Query):
            for scope in traverse_scope(tree):
                assert scope.selected_sources is not None  # finds names that are given twice
            return tree
    except ParseError as error:
        wrong = error.errors[0]
        raise PipelineError(_start_of(wrong, source), _said(wrong)) from None
    except SqlglotError as error:
        raise PipelineError(source.at(tokens[0].start), f"not SQL: {error}") from None
    except RecursionError:
        raise PipelineError(source.at(tokens[0].start), "this is nested too deeply") from None
    raise PipelineError(source.at(tokens[0].start), "a SELECT must stand here")


def parse_query(query: str, at: Position) -> tuple[exp.Query, Text]:
    """A SELECT that was cut out of its file; the text knows where its words stand there."""
    source = Text(query, at)
    return parse_select(tokens_of(source), source), source


def position_of(node: exp.Expression, source: Text) -> Position:
    named = node if "start" in node.meta else node.find(exp.Identifier)
    return source.at(named.meta["start"] if named is not None and "start" in named.meta else 0)


def _mended(tokens: Sequence[Any], source: Text) -> list[Any]:
    found: list[Any] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.token_type == TokenType.WINDOW and _is(tokens, index + 1, "("):
            token = Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)
        if _is(tokens, index, "WATERMARK") and index + 1 < len(tokens):
            index = _after_watermark(tokens, index, source)
            continue
        if token.token_type == TokenType.COMMA and _is(tokens, index + 1, *_NEVER_AFTER_COMMA):
            raise PipelineError(source.at(token.start), "a comma too many")
        if _is(tokens, index, "STREAM") and index and _is(tokens, index - 1, "FROM", "JOIN"):
            index += 1  # FROM STREAM orders
            continue
        found.append(token)
        index += 1
    return found


def _after_watermark(tokens: Sequence[Any], index: int, source: Text) -> int:
    """WATERMARK at DELAY OF INTERVAL 1 MINUTE 30 SECONDS, or INTERVAL '10 seconds'."""
    delay = next((at for at in range(index, len(tokens)) if _is(tokens, at, "DELAY")), -1)
    if delay < 0 or delay - index not in (2, 4) or not _is(tokens, delay + 2, "INTERVAL"):
        raise PipelineError(
            source.at(tokens[index].start),
            "write WATERMARK column DELAY OF INTERVAL 10 SECONDS, or use the options timestamp and watermark",
        )
    index = delay + 3
    while index < len(tokens) and tokens[index].token_type in (TokenType.NUMBER, TokenType.STRING):
        index += 1
        if index < len(tokens) and tokens[index].text.upper().removesuffix("S") in _UNITS:
            index += 1
    return index


def _is(tokens: Sequence[Any], index: int, *words: str) -> bool:
    """Not in quotes: there the same letters are a text, or somebody's name."""
    if index >= len(tokens) or tokens[index].token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        return False
    return tokens[index].text.upper() in words


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
