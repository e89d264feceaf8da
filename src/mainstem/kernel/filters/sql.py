"""SQL filters: a condition over the headers of a message, as JMS and RocketMQ have it.

    region IN ('eu', 'us') AND (price * amount > 100 OR urgent = TRUE) AND note NOT LIKE 'test%'

Known are AND, OR, NOT, = <> < <= > >=, BETWEEN, IN, LIKE with ESCAPE, IS NULL, IS TRUE, IS FALSE, + - * /,
numbers, 'texts', TRUE, FALSE and NULL. A name is that of a header, in its own case; a name of other
characters stands in "double quotes". A header that is not there is NULL. A message passes if the condition
is true: neither false nor unknown.

The tree of the parser becomes functions within functions, once; nothing is ever evaluated as code. What
the tree may consist of is listed here, and anything else refused.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from mainstem.kernel.filters.like import Like
from mainstem.kernel.filters.sql_parse import parse_filter, short
from mainstem.kernel.filters.values import (
    Value,
    calculate,
    compare,
    divide,
    is_number,
    negate,
    plain,
    read_alike,
    read_number,
    read_truth,
)
from mainstem.model.errors import InvalidRequest

Headers: TypeAlias = Mapping[str, object]
Step: TypeAlias = Callable[[Headers], Value]

MAX_DEPTH = 64  # functions within functions; AND and OR in a row are one level
MAX_WHOLE = 2**63

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "EQ": operator.eq,
    "NEQ": operator.ne,
    "LT": operator.lt,
    "LTE": operator.le,
    "GT": operator.gt,
    "GTE": operator.ge,
}
_CALCULATE: dict[str, Callable[[Any, Any], Value]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": divide,
}


class SqlFilter:
    """`texts_may_be_numbers`: a text beside a number is read as one, for clients that send only texts."""

    __slots__ = ("_step", "names", "text")

    def __init__(self, text: str, texts_may_be_numbers: bool = False) -> None:
        self.text = text
        tree, names = parse_filter(text)
        self.names = frozenset(names)  # the headers that it asks for
        self._step = _Compiler(text, names, texts_may_be_numbers).condition(tree, 0)

    def matches(self, headers: Headers) -> bool:
        return self._step(headers) is True


class _Compiler:
    def __init__(self, text: str, names: list[str], loose: bool) -> None:
        self._text = text
        self._names = names
        self._loose = loose

    def condition(self, node: Any, depth: int) -> Step:
        """What can be true or false."""
        node = without_parentheses(node)
        kind = type(node).__name__
        if kind in ("Literal", "Neg") or kind in _CALCULATE:
            raise InvalidRequest(f"a value where a condition should be in {short(self._text)}")
        step = self.step(node, depth)
        return (lambda headers: read_truth(step(headers))) if self._loose and kind == "Column" else step

    def step(self, node: Any, depth: int) -> Step:
        node = without_parentheses(node)
        kind = type(node).__name__
        if depth > MAX_DEPTH:
            raise InvalidRequest(f"too deep a filter: {short(self._text)}")
        if kind in ("And", "Or"):
            return self._chain(node, kind, depth + 1)
        if kind in _COMPARE:
            return self._compare(_COMPARE[kind], node, depth + 1)
        if kind in _CALCULATE:
            return self._calculate(_CALCULATE[kind], node, depth + 1)
        make = _OTHERS.get(kind)
        if make is None:
            raise self._unknown(kind)
        return make(self, node, depth + 1)

    def _unknown(self, kind: str) -> InvalidRequest:
        return InvalidRequest(f"a filter cannot have {kind.upper()}: {short(self._text)}")

    # --- values --------------------------------------------------------------------------------

    def _column(self, node: Any, depth: int) -> Step:
        if not node.name.isdecimal():
            raise self._unknown(node.name)  # a keyword in the place of a name
        name = self._names[int(node.name)]
        return lambda headers: plain(headers.get(name))

    def _constant(self, node: Any) -> Value:
        kind = type(node).__name__
        if kind == "Null":
            return None
        if kind == "Boolean":
            return bool(node.this)
        if kind == "Literal":
            return str(node.this) if node.is_string else self._number(str(node.this))
        if kind == "Neg" and type(node.this).__name__ == "Literal" and not node.this.is_string:
            return -self._number(str(node.this.this))
        raise InvalidRequest(f"a constant is needed in {short(self._text)}")

    def _number(self, text: str) -> int | float:
        try:
            number = int(text) if text.isdecimal() else float(text)
        except ValueError:
            number = MAX_WHOLE + 1
        if isinstance(number, int) and number > MAX_WHOLE:
            raise InvalidRequest(f"{text[:40]} is no number of 64 bits")
        return number

    def _literal(self, node: Any, depth: int) -> Step:
        value = self._constant(node)
        return lambda headers: value

    def _neg(self, node: Any, depth: int) -> Step:
        inner, loose = self.step(node.this, depth), self._loose

        def step(headers: Headers) -> Value:
            value = read_number(inner(headers)) if loose else inner(headers)
            return calculate(operator.sub, 0, value)

        return step

    def _calculate(self, how: Callable[[Any, Any], Value], node: Any, depth: int) -> Step:
        left, right = self.step(node.this, depth), self.step(node.expression, depth)
        if self._loose:
            return lambda headers: calculate(how, read_number(left(headers)), read_number(right(headers)))
        return lambda headers: calculate(how, left(headers), right(headers))

    # --- conditions ----------------------------------------------------------------------------

    def _chain(self, node: Any, kind: str, depth: int) -> Step:
        """A row of ANDs or ORs, which the parser nests to the left, however many there are."""
        parts: list[Step] = []
        while type(node).__name__ == kind:
            parts.append(self.condition(node.expression, depth))
            node = node.this
        parts.append(self.condition(node, depth))
        parts.reverse()
        decides = kind == "Or"  # the value that one part alone needs to decide all

        def step(headers: Headers) -> Value:
            unknown = False
            for part in parts:
                value = part(headers)
                if value is decides:
                    return decides
                unknown = unknown or value is not (not decides)
            return None if unknown else not decides

        return step

    def _not(self, node: Any, depth: int) -> Step:
        inner = self.condition(node.this, depth)
        return lambda headers: negate(inner(headers))

    def _compare(self, how: Callable[[Any, Any], bool], node: Any, depth: int) -> Step:
        left, right = self.step(node.this, depth), self.step(node.expression, depth)
        if self._loose:
            return lambda headers: compare(how, *read_alike(left(headers), right(headers)))
        return lambda headers: compare(how, left(headers), right(headers))

    def _between(self, node: Any, depth: int) -> Step:
        if node.args.get("symmetric"):
            raise self._unknown("symmetric")
        inner, loose = self.step(node.this, depth), self._loose
        low, high = (self.step(node.args[name], depth) for name in ("low", "high"))

        def step(headers: Headers) -> Value:
            value = inner(headers)  # once: BETWEEN within BETWEEN would double the work at each level
            ends = ((operator.ge, low(headers)), (operator.le, high(headers)))
            results = [
                compare(how, *(read_alike(value, end) if loose else (value, end))) for how, end in ends
            ]
            return False if False in results else None if None in results else True

        return step

    def _in(self, node: Any, depth: int) -> Step:
        if node.args.get("field") is not None or not node.expressions:
            raise InvalidRequest(f"IN needs constants in parentheses: {short(self._text)}")
        inner = self.step(node.this, depth)
        constants = [self._constant(one) for one in node.expressions]
        # Apart, because 1 and TRUE would be equal in one set.
        truths = {one for one in constants if isinstance(one, bool)}
        others = {one for one in constants if one is not None and not isinstance(one, bool)}
        loose, numbers = self._loose, any(is_number(one) for one in others)
        otherwise = None if None in constants else False

        def step(headers: Headers) -> Value:
            value = inner(headers)
            if value is None:
                return None
            if isinstance(value, bool):
                return value in truths or otherwise
            if not isinstance(value, str) and not is_number(value):
                return otherwise
            if value in others:
                return True
            if loose and (read_truth(value) in truths or (numbers and read_number(value) in others)):
                return True
            return otherwise

        return step

    def _is(self, node: Any, depth: int) -> Step:
        if type(node.expression).__name__ not in ("Null", "Boolean"):
            raise InvalidRequest(f"IS is followed by NULL, TRUE or FALSE: {short(self._text)}")
        inner, constant = self.step(node.this, depth), self._constant(node.expression)
        if self._loose and constant is not None:
            return lambda headers: read_truth(inner(headers)) is constant
        return lambda headers: inner(headers) is constant

    def _escape(self, node: Any, depth: int) -> Step:
        if type(node.this).__name__ != "Like":
            raise InvalidRequest(f"ESCAPE belongs to LIKE: {short(self._text)}")
        return self._like(node.this, depth, node.expression)

    def _like(self, node: Any, depth: int, escape: Any = None) -> Step:
        pattern = self._constant(node.expression)
        mark = None if escape is None else self._constant(escape)
        if not isinstance(pattern, str) or not isinstance(mark, str | None):
            raise InvalidRequest(f"LIKE needs a 'text': {short(self._text)}")
        inner, like = self.step(node.this, depth), Like(pattern, mark)
        wanted = not node.args.get("negate")  # newer versions of the parser put the NOT of NOT LIKE here

        def step(headers: Headers) -> Value:
            value = inner(headers)
            if value is None:
                return None
            # What is no text is not like it, and so NOT LIKE it.
            return (isinstance(value, str) and like.matches(value)) is wanted

        return step


_OTHERS: dict[str, Callable[[_Compiler, Any, int], Step]] = {
    "Column": _Compiler._column,
    "Literal": _Compiler._literal,
    "Boolean": _Compiler._literal,
    "Null": _Compiler._literal,
    "Neg": _Compiler._neg,
    "Not": _Compiler._not,
    "Between": _Compiler._between,
    "In": _Compiler._in,
    "Is": _Compiler._is,
    "Like": _Compiler._like,
    "Escape": _Compiler._escape,
}


def without_parentheses(node: Any) -> Any:
    while type(node).__name__ == "Paren":
        node = node.this
    return node
