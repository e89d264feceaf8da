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
from mainstem.kernel.groups.room import text_bytes
from mainstem.model.errors import InvalidRegularExpression

MAX_STATES = 1_000  # of the nondeterministic automaton: bounds what (a{1000}){1000} may cost
# States looked at while the deterministic one is made, ever: about 0.2 s and at most 30 MB. Patterns that
# people write need a hundredth of it; one that needs more was made to be expensive.
MAX_WORK = 500_000
# What it takes in memory: seen with CPython 3.11, rounded.
STATE_BYTES = 300
NODE_BYTES = 600
PLACE_BYTES = 70  # in a set
STEP_BYTES = 100
CHAR_BYTES = 80  # one that is not Latin-1: of others there is one object each
RANGE_BYTES = 220


@dataclass(slots=True)
class State:
    """Goes on with one character to `then`, or with none to each of `free`."""

    chars: Chars | None = None
    then: int = -1
    free: list[int] = field(default_factory=list)
    only_at: str = ""  # "^" or "$": `free` is open only at the name's start or end


@dataclass(slots=True)
class Node:
    """A state of the deterministic automaton: all the states the other one could be in."""

    states: frozenset[int]
    accepts: bool
    steps: dict[str, Node] = field(default_factory=dict)


class Pattern:
    """A compiled pattern; `matches` asks for the whole name, and gives up on a pattern made to be costly."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.size = text_bytes(text)  # bytes of memory; grows with the names that were tried
        self._states: list[State] = []
        first, self._last = self._build(parse_pattern(text))
        self._work = 0
        self._nodes: dict[frozenset[int], Node] = {}
        self._start = self._node(self._closure({first}, at_start=True))
        # Of the empty name alone the start is also the end: ^ and $ hold at once.
        self._accepts_empty = self._last in self._closure({first}, at_start=True, at_end=True)

    def matches(self, name: str) -> bool:
        if not name:
            return self._accepts_empty
        node = self._start
        for char in name:
            there = node.steps.get(char)
            node = there if there is not None else self._step(node, char)
            if not node.states:
                return False
        return node.accepts

    def _step(self, node: Node, char: str) -> Node:
        self._work += len(node.states)
        if self._work > MAX_WORK:
            raise InvalidRegularExpression(f"{self.text!r} takes too much work")
        reached = set()
        for one in node.states:
            state = self._states[one]
            if state.chars is not None and char in state.chars:
                reached.add(state.then)
        there = node.steps[char] = self._node(self._closure(reached))
        self.size += STEP_BYTES
        return there

    def _node(self, states: frozenset[int]) -> Node:
        node = self._nodes.get(states)
        if node is None:
            accepts = self._last in self._closure(set(states), at_end=True)
            node = self._nodes[states] = Node(states, accepts)
            self.size += NODE_BYTES + PLACE_BYTES * len(states)
        return node

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
                self.size += PLACE_BYTES * len(part.chars) + RANGE_BYTES * len(part.ranges)
                self.size += CHAR_BYTES * sum(char > "\xff" for char in part.chars)
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
        self.size += STATE_BYTES
        return len(self._states) - 1
