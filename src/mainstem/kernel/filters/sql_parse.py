"""The text of a SQL filter to sqlglot's tree, for as much of SQL as filters know.

The parser understands far more than a filter may say, and follows nesting by recursion. So tokens are
looked through first: what is on no list never reaches the parser, and how much does is bounded.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from mainstem.model.errors import InvalidRequest, NotSupported

MAX_CHARS = 16_384
MAX_TOKENS = 2_000  # 30 ms of parsing
MAX_OPEN = 24  # parentheses within each other
MAX_SIGNS = 8  # NOT, + and - in a row

_NAME = re.compile(r"[^\W\d]\w*|[\w$]*\$[\w$]*")
_WORDS = ("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE")
_MARKS = (
    *("EQ", "NEQ", "LT", "LTE", "GT", "GTE", "PLUS", "DASH", "STAR", "SLASH"),
    *("L_PAREN", "R_PAREN", "COMMA", "STRING", "NUMBER"),
)
_KNOWN = frozenset((*_WORDS, *_MARKS))


def parse_filter(text: str) -> tuple[Any, list[str]]:
    """sqlglot's tree, built from tokens of the lists above, and the names that its columns count through."""
    if len(text) > MAX_CHARS:
        raise InvalidRequest(f"a SQL filter has at most {MAX_CHARS} characters")
    try:
        from sqlglot import exp
        from sqlglot.dialects.dialect import Dialect
        from sqlglot.errors import ParseError, TokenError
    except ImportError:
        raise NotSupported("SQL filters need sqlglot: pip install sqlglot") from None
    dialect = Dialect.get_or_raise(None)
    try:
        tokens, names = known_tokens(dialect.tokenize(text), text)
        (tree,) = dialect.parser().parse_into(exp.Condition, tokens, text)
    except TokenError:
        raise InvalidRequest(f"a quote or a comment never ends in {short(text)}") from None
    except ParseError as error:
        raise InvalidRequest(f"not a filter: {short(text)}{where(error)}") from None
    except RecursionError:
        raise InvalidRequest(f"too deep a filter: {short(text)}") from None
    check_all_used(tree, tokens, text)
    return tree, names


def known_tokens(tokens: list[Any], text: str) -> tuple[list[Any], list[str]]:
    """As the parser may see them: numbers stand for names, so that none is taken for a keyword."""
    if len(tokens) > MAX_TOKENS:
        raise InvalidRequest(f"a SQL filter has at most {MAX_TOKENS} words and signs")
    if not tokens:
        raise InvalidRequest("a SQL filter is empty")
    from sqlglot.tokens import Token, TokenType

    known: list[Any] = []
    names: list[str] = []
    after_dot = False  # a name goes on, and any word will do
    for token in tokens:
        kind = token.token_type.name
        if token.comments:
            raise InvalidRequest(f"a comment in a filter: {short(text)}")
        if kind == "DOT" and not after_dot and known and known[-1].token_type == TokenType.IDENTIFIER:
            after_dot = True
        elif after_dot:
            names[-1] += f".{name_of(token, text)}"
            after_dot = False
        elif kind in _KNOWN:
            known.append(token)
        else:
            number = str(len(names))
            names.append(name_of(token, text))
            known.append(Token(TokenType.IDENTIFIER, number, token.line, token.col, token.start, token.end))
    if after_dot:
        raise InvalidRequest(f"a name ends with a dot in {short(text)}")
    check_nesting(known, text)
    return known, names


def name_of(token: Any, text: str) -> str:
    written = text[token.start : token.end + 1]
    if token.token_type.name == "IDENTIFIER":
        return str(token.text)
    if _NAME.fullmatch(written):
        return written
    raise InvalidRequest(f"a filter cannot have {written[:40]!r} at column {token.start + 1}: {short(text)}")


def check_nesting(tokens: list[Any], text: str) -> None:
    opened = signs = 0
    before = ""
    for token in tokens:
        kind = token.token_type.name
        opened += (kind == "L_PAREN") - (kind == "R_PAREN")
        signs = signs + 1 if kind in ("NOT", "PLUS", "DASH") else 0
        if opened > MAX_OPEN or signs > MAX_SIGNS:
            raise InvalidRequest(f"too deep a filter: {short(text)}")
        if kind == "L_PAREN" and before == "IDENTIFIER":
            raise InvalidRequest(f"a filter knows no functions: {short(text)}")
        before = kind


def check_all_used(tree: Any, tokens: list[Any], text: str) -> None:
    """The parser insists neither on the AND of BETWEEN nor on the IS of NOT NULL, and passes over commas."""
    given = Counter(token.token_type.name for token in tokens)
    used = Counter[str]()
    for node in tree.walk() if tree is not None else ():
        used[type(node).__name__] += 1
        if type(node).__name__ == "In":
            used["Comma"] += max(0, len(node.expressions) - 1)
    needed = used["And"] + used["Between"], used["Is"], used["Comma"]
    if tree is None or (given["AND"], given["IS"], given["COMMA"]) != needed:
        raise InvalidRequest(f"not a filter: {short(text)}")


def short(text: str) -> str:
    return repr(text if len(text) <= 200 else text[:200] + "...")


def where(error: Any) -> str:
    """What the parser did not like, if it can say so."""
    first = error.errors[0] if error.errors else {}
    return f", near {first['highlight']!r}" if first.get("highlight") else ""
