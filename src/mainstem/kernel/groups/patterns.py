"""Topic patterns: regular expressions whose matching time does not depend on who wrote them.

A subscription's pattern comes from a client and is tried on every topic name, on the event loop. Python's
`re` backtracks, so one hostile or careless pattern could hold the broker for hours. Here the pattern
becomes a nondeterministic automaton that is made deterministic step by step as names are matched: linear
in the name, and a dict look-up per character once warm.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mainstem.kernel.groups.pattern_syntax import (
    Anchor,
    Chars,
    Choice,
    Part,
    Repeat,
    Sequence,
    parse_pattern,
)
from mainstem.model.errors import InvalidRegularExpression

MAX_STATES = 2_000  # of the nondeterministic automaton: bounds what (a{1000}){1000} may cost
MAX_CACHED_STEPS = 20_000  # of the deterministic one; beyond it the cache starts over


@dataclass(slots=True)
class State:
    """Goes on with one character to `then`, or with none to each of `free`."""

    chars: Chars | None = None
    then: int = -1
    free: list[int] = field(default_factory=list)
    only_at: str = ""  # "^" or "$": `free` is open only at the name's start or end


class Pattern:
    """A compiled pattern; `matches` asks for the whole name."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._states: list[State] = []
        start, self._accept = self._build(parse_pattern(text))
        self._start = self._closure({start}, at_start=True)
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, name: str) -> bool:
        here = self._start
        for char in name:
            there = self._steps.get((here, char))
            if there is None:
                there = self._step(here, char)
            here = there
            if not here:
                return False
        return self._accept in self._closure(set(here), at_start=not name, at_end=True)

    def _step(self, here: frozenset[int], char: str) -> frozenset[int]:
        if len(self._steps) >= MAX_CACHED_STEPS:
            self._steps.clear()
        reached = set()
        for one in here:
            state = self._states[one]
            if state.chars is not None and char in state.chars:
                reached.add(state.then)
        there = self._steps[here, char] = self._closure(reached)
        return there

    def _closure(self, states: set[int], at_start: bool = False, at_end: bool = False) -> frozenset[int]:
        reached, todo = set(states), list(states)
        while todo:
            state = self._states[todo.pop()]
            if (state.only_at == "^" and not at_start) or (state.only_at == "$" and not at_end):
                continue
            for one in state.free:
                if one not in reached:
                    reached.add(one)
                    todo.append(one)
        return frozenset(reached)

    def _build(self, part: Part) -> tuple[int, int]:
        """Add the states of `part`; its first and its last one."""
        first, last = self._add(), self._add()
        match part:
            case Chars():
                self._states[first].chars, self._states[first].then = part, last
            case Anchor(at):
                self._states[first].only_at = at
                self._join(first, last)
            case Choice(options):
                for option in options:
                    start, end = self._build(option)
                    self._join(first, start)
                    self._join(end, last)
            case Sequence(parts):
                here = first
                for one in parts:
                    start, end = self._build(one)
                    self._join(here, start)
                    here = end
                self._join(here, last)
            case Repeat(one, low, high):
                self._build_repeat(one, low, high, first, last)
        return first, last

    def _build_repeat(self, part: Part, low: int, high: int | None, first: int, last: int) -> None:
        """A chain of copies; one may stop after `low` of them, and the last repeats if there is no end."""
        copies = max(low, 1) if high is None else high
        here = first
        for number in range(copies):
            if number >= low:
                self._join(here, last)
            start, end = self._build(part)
            self._join(here, start)
            if high is None and number == copies - 1:
                self._join(end, start)
            here = end
        self._join(here, last)

    def _join(self, state: int, to: int) -> None:
        self._states[state].free.append(to)

    def _add(self) -> int:
        if len(self._states) >= MAX_STATES:
            raise InvalidRegularExpression("the pattern repeats too much")
        self._states.append(State())
        return len(self._states) - 1
