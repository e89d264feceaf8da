"""Topic exchanges: keys of words between dots, `*` for exactly one word, `#` for any number of them.

An empty key has no words at all, so `#` matches it and `*` does not. `.` is two empty words, and `*`
matches an empty word.

Patterns without wildcards are looked up whole. The others form a tree besides, with a step per word. All
paths through it are followed side by side, word by word, each node at most once: so that `#.#.#.a` costs
no more than its length, where trying one path after the other would take exponential time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from mainstem.kernel.routing.binding import Binding
from mainstem.kernel.routing.multimap import MultiMap
from mainstem.model.errors import InvalidRequest

ONE_WORD, ANY_WORDS = "*", "#"
MAX_WORDS = 256  # of a pattern: bounds the nodes that one binding can cost


def words_of(key: str) -> list[str]:
    return key.split(".") if key else []


class Node:
    """A step of a pattern. Wildcards are steps like words: a message's own word `*` or `#` matches them too.

    The first step onwards has fields of its own, because most nodes have only one and a dict is dear.
    """

    __slots__ = ("child", "more", "pattern", "word")
    loops: ClassVar[bool] = False

    def __init__(self) -> None:
        self.word: str | None = None
        self.child: Node | None = None
        self.more: dict[str, Node] | None = None
        self.pattern: str | None = None  # the whole of it, where one ends

    def step(self, word: str) -> Node | None:
        if self.word == word:
            return self.child
        return self.more.get(word) if self.more is not None else None

    def grow(self, word: str) -> Node:
        there = self.step(word)
        if there is not None:
            return there
        node = LoopingNode() if word == ANY_WORDS else Node()
        if self.word is None:
            self.word, self.child = word, node
        elif self.more is None:
            self.more = {word: node}
        else:
            self.more[word] = node
        return node

    def cut(self, word: str) -> None:
        if self.word == word:
            self.word = self.child = None
        elif self.more is not None:
            self.more.pop(word, None)
            if not self.more:
                self.more = None

    def is_bare(self) -> bool:
        """No pattern ends here, and none goes on."""
        return self.word is None and self.more is None and self.pattern is None


class LoopingNode(Node):
    """Was reached by `#`, and stays reached whatever word comes."""

    __slots__ = ()
    loops: ClassVar[bool] = True


class Topic:
    __slots__ = ("_by_key", "_root")
    varies: ClassVar[bool] = False
    varies_bare: ClassVar[bool] = False

    def __init__(self) -> None:
        self._by_key = MultiMap[str, Binding]()
        self._root = Node()  # of the patterns with wildcards

    def check(self, binding: Binding) -> None:
        if binding.key.count(".") >= MAX_WORDS:
            raise InvalidRequest(f"a topic binding has at most {MAX_WORDS} words")

    def add(self, binding: Binding) -> None:
        self._by_key.add(binding.key, binding)
        words = words_of(binding.key)
        if has_wildcards(words):
            node = self._root
            for word in words:
                node = node.grow(word)
            node.pattern = binding.key

    def remove(self, binding: Binding) -> None:
        self._by_key.discard(binding.key, binding)
        words = words_of(binding.key)
        if self._by_key.count(binding.key) or not has_wildcards(words):
            return
        path = [self._root]
        for word in words:
            node = path[-1].step(word)
            if node is None:
                return
            path.append(node)
        path[-1].pattern = None
        # What no pattern needs any more goes, from the end of the path to its start.
        while words and path.pop().is_bare():
            path[-1].cut(words.pop())

    def match(self, keys: Sequence[str], headers: Mapping[str, object]) -> Iterable[Binding]:
        for key in keys:
            yield from self._by_key.get(key)  # a pattern with wildcards matches itself, too
            if not self._root.is_bare():
                for node in self._reached(key):
                    if node.pattern is not None:
                        yield from self._by_key.get(node.pattern)

    def _reached(self, key: str) -> set[Node]:
        """The nodes that all words of this key lead to: the patterns that end there match it."""
        reached = with_no_words({self._root})
        for word in words_of(key):
            onwards: set[Node] = set()
            for node in reached:
                if node.loops:
                    onwards.add(node)
                for step in (word, ONE_WORD):
                    there = node.step(step)
                    if there is not None:
                        onwards.add(there)
            if not onwards:
                return onwards
            reached = with_no_words(onwards)
        return reached

    def __iter__(self) -> Iterator[Binding]:
        return iter(self._by_key)


def has_wildcards(words: Sequence[str]) -> bool:
    return ONE_WORD in words or ANY_WORDS in words


def with_no_words(nodes: set[Node]) -> set[Node]:
    """These, and what `#` leads to from them by standing for no word."""
    todo = list(nodes)
    while todo:
        there = todo.pop().step(ANY_WORDS)
        if there is not None and there not in nodes:
            nodes.add(there)
            todo.append(there)
    return nodes
