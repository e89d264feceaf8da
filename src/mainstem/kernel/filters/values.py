"""Values in SQL filters: numbers, texts, truth, NULL, and things that compare with nothing.

NULL (None here) stands for "unknown": whatever is made of it is unknown, too. A comparison of values of
different types is false, also one by <>. Texts are in the order of their characters' numbers.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

Value: TypeAlias = object

_NUMBER = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,3})?")
_TRUTH = {"true": True, "false": False}
_EQUALITY = (operator.eq, operator.ne)


def plain(value: object) -> Value:
    """A header's value as filters see it."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    if isinstance(value, Decimal) and value.is_finite():
        return float(value)
    return value


def is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def read_number(value: Value) -> Value:
    """The number that a text spells; anything else as it is."""
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        return value
    return int(value) if value.lstrip("+-").isdigit() else float(value)


def read_truth(value: Value) -> Value:
    return _TRUTH.get(value.lower(), value) if isinstance(value, str) else value


def read_alike(left: Value, right: Value) -> tuple[Value, Value]:
    """A text beside a number is read as a number, and one beside TRUE or FALSE as that, if it spells one."""
    if is_number(left) or is_number(right):
        return read_number(left), read_number(right)
    if isinstance(left, bool) or isinstance(right, bool):
        return read_truth(left), read_truth(right)
    return left, right


def compare(how: Callable[[Any, Any], bool], left: Value, right: Value) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, bool) or isinstance(right, bool):
        return isinstance(left, bool) and isinstance(right, bool) and how in _EQUALITY and how(left, right)
    alike = (is_number(left) and is_number(right)) or (isinstance(left, str) and isinstance(right, str))
    return alike and how(left, right)


def calculate(how: Callable[[Any, Any], Value], left: Value, right: Value) -> Value:
    """NULL where there is no answer: no numbers, a division by zero, a result out of range."""
    if not is_number(left) or not is_number(right):
        return None
    try:
        return how(left, right)
    except (ZeroDivisionError, OverflowError):
        return None


def divide(left: Any, right: Any) -> Value:
    """Whole numbers give a whole number, cut towards zero."""
    if isinstance(left, int) and isinstance(right, int):
        whole = abs(left) // abs(right)
        return whole if (left < 0) == (right < 0) else -whole
    return left / right


def negate(value: Value) -> Value:
    """NOT, in the logic of three values: unknown stays unknown."""
    return not value if isinstance(value, bool) else None
