"""From the text of a topic pattern to its parts: RE2's common syntax, read by recursive descent.

    alternatives  a|b        groups   (...) (?:...) (?P<name>...)
    repeats       * + ? {m} {m,} {m,n}, each with an optional lazy ? (it means the same for a whole name)
    characters    . [a-z] [^a-z] \\d \\w \\s \\D \\W \\S \\. \\-        anchors  ^ $

Back references and look-around are refused: no matcher in linear time can have them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

from mainstem.model.errors import InvalidRegularExpression

MAX_PATTERN_CHARS = 1_000
MAX_REPEAT = 1_000
MAX_DEPTH = 50

WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
CLASSES = {"d": frozenset("0123456789"), "w": WORD, "s": frozenset(" \t\n\r\f\v")}
CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}
ASCII = frozenset(map(chr, range(128)))


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set or of a range, or of all but these."""

    chars: frozenset[str]
    negated: bool = False
    # First and last of each, in order and apart: written out, one of three characters could fill 100 MB.
    ranges: tuple[tuple[str, str], ...] = ()

    def __contains__(self, char: str) -> bool:
        at = bisect_right(self.ranges, char, key=itemgetter(0))
        inside = char in self.chars or (at > 0 and char <= self.ranges[at - 1][1])
        return inside != self.negated


@dataclass(frozen=True, slots=True)
class Anchor:
    at: str  # "^" or "$"


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    part: Part
    low: int
    high: int | None  # None: without end


Part: TypeAlias = "Chars | Anchor | Sequence | Choice | Repeat"


def parse_pattern(text: str) -> Part:
    if len(text) > MAX_PATTERN_CHARS:
        raise InvalidRegularExpression(f"{len(text)} characters, {MAX_PATTERN_CHARS} allowed")
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0

    def parse(self) -> Part:
        part = self._choice()
        if self._at < len(self._text):
            raise self._error("unbalanced )")
        return part

    def _choice(self) -> Part:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error("groups nested too deep")
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        self._depth -= 1
        return Choice(tuple(options))

    def _sequence(self) -> Part:
        parts: list[Part] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts.append(self._repeated(self._atom()))
        return Sequence(tuple(parts))

    def _atom(self) -> Part:
        char = self._next()
        if char == "(":
            return self._group()
        if char in "^$":
            return Anchor(char)
        if char in "*+?":
            raise self._error(f"nothing to repeat before {char}")
        if char == ".":
            return Chars(frozenset("\n"), negated=True)
        if char == "[":
            return self._class()
        if char == "\\":
            return self._escape()
        return Chars(frozenset(char))

    def _group(self) -> Part:
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                name, closed, _ = self._text[self._at :].partition(">")
                if not closed or not name.isidentifier():
                    raise self._error("bad group name")
                self._at += len(name) + 1
            elif not self._take(":"):
                raise self._error("this kind of group is not supported")
        part = self._choice()
        if not self._take(")"):
            raise self._error("missing )")
        return part

    def _class(self) -> Chars:
        negated = self._take("^")
        parts = [self._class_range()]  # a ] that comes first is itself
        while not self._take("]"):
            parts.append(self._class_range())
        chars: frozenset[str] = frozenset().union(*(part for part in parts if isinstance(part, frozenset)))
        return Chars(chars, negated, _merged(part for part in parts if isinstance(part, tuple)))

    def _class_range(self) -> frozenset[str] | tuple[str, str]:
        """Some characters, or the first and the last of a range."""
        low = self._class_part()
        rest = self._text[self._at : self._at + 2]
        if len(low) != 1 or len(rest) < 2 or rest[0] != "-" or rest[1] == "]":
            return low
        self._at += 1
        high = self._class_part()
        if len(high) != 1 or min(high) < min(low):
            raise self._error("bad range")
        return min(low), min(high)

    def _class_part(self) -> frozenset[str]:
        char = self._next()
        if char == "[" and self._take(":"):
            raise self._error("named classes are not supported")
        if char != "\\":
            return frozenset(char)
        escaped = self._escape()
        return ASCII - escaped.chars if escaped.negated else escaped.chars

    def _escape(self) -> Chars:
        char = self._next()
        if char.lower() in CLASSES:
            return Chars(CLASSES[char.lower()], negated=char.isupper())
        if char in CONTROLS:
            return Chars(frozenset(CONTROLS[char]))
        if char.isalnum():
            raise self._error(f"\\{char} is not supported")
        return Chars(frozenset(char))

    def _repeated(self, part: Part) -> Part:
        if self._take("*"):
            low, high = 0, None
        elif self._take("+"):
            low, high = 1, None
        elif self._take("?"):
            low, high = 0, 1
        elif self._take("{"):
            low, high = self._bounds()
        else:
            return part
        self._take("?")
        return Repeat(part, low, high)

    def _bounds(self) -> tuple[int, int | None]:
        body, closed, _ = self._text[self._at :].partition("}")
        first, comma, second = body.partition(",")
        if not closed or not first.isdecimal() or (second and not second.isdecimal()):
            raise self._error("bad repeat")
        self._at += len(body) + 1
        low = int(first)
        high = int(second) if second else None if comma else low
        if low > MAX_REPEAT or (high is not None and not low <= high <= MAX_REPEAT):
            raise self._error("bad repeat")
        return low, high

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise self._error("ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _error(self, why: str) -> InvalidRegularExpression:
        return InvalidRegularExpression(f"{why} (at {self._at} in {self._text!r})")


def _merged(ranges: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    merged: list[tuple[str, str]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    return tuple(merged)
