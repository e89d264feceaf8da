"""Regular expressions that rules can say: all names, a name, the beginning of names, alternatives of these.

RabbitMQ searches a name for a permission's expression, so that without `^` it matches anywhere in the name,
and without `$` whatever follows. No name is empty. What a rule cannot say is refused with the reason: to take
it for something like it would give other rights. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from mainstem.model.errors import InvalidRequest

MAX_CHARACTERS = 4 << 10
MAX_NAMES = 1000
_LONGEST = 255  # characters of a name
_MAX_DEPTH = 16
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
# Expressions that match no name.
NOTHING = ("", "^$", "$^")


class Names(NamedTuple):
    """A name, or the beginning of names; the beginning of all is empty."""

    text: str
    is_prefix: bool

    def covers(self, other: Names) -> bool:
        return other.text.startswith(self.text) if self.is_prefix else self == other

    def overlaps(self, other: Names) -> bool:
        return self.covers(other) or other.covers(self)


ALL = Names("", True)


def parse(pattern: str) -> frozenset[Names]:
    """The names that match; raises InvalidRequest if rules cannot say them."""
    if pattern in NOTHING:
        return frozenset()
    if len(pattern) > MAX_CHARACTERS:
        raise InvalidRequest(f"it has more than {MAX_CHARACTERS} characters")
    parser = _Parser(pattern)
    found = parser.alternatives([_Part()], 0)
    if parser.at < len(pattern):
        raise InvalidRequest("it has a ) without a (")
    return shortest(names for part in found for names in part.names())


def shortest(found: Iterable[Names]) -> frozenset[Names]:
    """Without those that others cover."""
    every = set(found)
    beginnings = {text for text, is_prefix in every if is_prefix}

    def is_covered(text: str, is_prefix: bool) -> bool:
        shorter = len(text) + (not is_prefix)
        return any(text[:size] in beginnings for size in range(shorter))

    return frozenset(one for one in every if not is_covered(*one))


def written(found: Iterable[Names]) -> str:
    """An expression for them, which `parse` reads as the same."""
    kept = sorted(shortest(found))
    if ALL in kept:
        return ".*"
    return "|".join(f"^{_escaped(text)}{'.*' if is_prefix else '$'}" for text, is_prefix in kept) or "^$"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


class _Part(NamedTuple):
    """What the expression up to here matches: some text, from the name's beginning if `begins`, and then what
    else there is: "any" if that can be anything, "end" if nothing.
    """

    begins: bool = False
    text: str = ""
    rest: str = ""

    def names(self) -> list[Names]:
        if self.begins and self.rest == "end":
            return [Names(self.text, False)] if self.text else []
        if not self.begins and self.text:
            raise InvalidRequest("without a ^ in front it matches anywhere in a name")
        return [Names(self.text, True)]

    def and_begin(self) -> _Part:
        if self.text or self.rest:
            raise InvalidRequest("it has a ^ behind something else")
        return self._replace(begins=True)

    def and_char(self, char: str) -> _Part:
        if self.rest:
            raise InvalidRequest(f"it goes on behind a {'.*' if self.rest == 'any' else '$'}")
        if len(self.text) == _LONGEST:
            raise InvalidRequest(f"no name has more than {_LONGEST} characters")
        return self._replace(text=self.text + char)

    def and_any(self) -> _Part:
        if self.rest == "end":
            raise InvalidRequest("it goes on behind a $")
        return self._replace(rest="any")

    def and_end(self) -> _Part:
        return self if self.rest else self._replace(rest="end")


class _Parser:
    """Reads an expression once, with every way to match it so far in hand."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def alternatives(self, before: list[_Part], depth: int) -> list[_Part]:
        """Up to the end, or to the `)` of the group that this is in."""
        if depth > _MAX_DEPTH:
            raise InvalidRequest(f"its groups are more than {_MAX_DEPTH} deep")
        found: list[_Part] = []
        while True:
            found += self._sequence(before, depth)
            if len(found) > MAX_NAMES:
                raise InvalidRequest(f"it has more than {MAX_NAMES} alternatives")
            if not self._took("|"):
                return found

    def _sequence(self, parts: list[_Part], depth: int) -> list[_Part]:
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            parts = self._item(parts, depth)
            if self.pattern[self.at : self.at + 1] in tuple("*+?{"):
                raise InvalidRequest(f"it has a {self.pattern[self.at]} that is not .*")
        return parts

    def _item(self, parts: list[_Part], depth: int) -> list[_Part]:
        if self._took("("):
            if self.pattern[self.at : self.at + 1] == "?" and not self._took("?:"):
                raise InvalidRequest("it has a group with (?")
            parts = self.alternatives(parts, depth + 1)
            if not self._took(")"):
                raise InvalidRequest("it has a ( without a )")
            return parts
        if self._took("^"):
            return [part.and_begin() for part in parts]
        if self._took("$"):
            return [part.and_end() for part in parts]
        if self._took(".*"):
            return [part.and_any() for part in parts]
        char = self._char()
        return [part.and_char(char) for part in parts]

    def _char(self) -> str:
        """One that stands for itself, also as `\\.` or `[.]`."""
        char = self.pattern[self.at]
        self.at += 1
        if char == ".":
            raise InvalidRequest(r"it has a . that is any character; the character itself is \.")
        if char == "[":
            inner = self.pattern[self.at : self.at + 2]
            if len(inner) < 2 or inner[1] != "]" or inner[0] in "\\^]":
                raise InvalidRequest("it has a set of characters in [ ]")
            self.at += 2
            return inner[0]
        if char == "\\":
            char = self.pattern[self.at : self.at + 1]
            self.at += 1
            if not char or char.isalnum():
                raise InvalidRequest(rf"it has a \{char}")
            return char
        if char in "*+?{":
            raise InvalidRequest(f"it has a {char} that is not .*")
        return char

    def _took(self, text: str) -> bool:
        if not self.pattern.startswith(text, self.at):
            return False
        self.at += len(text)
        return True
