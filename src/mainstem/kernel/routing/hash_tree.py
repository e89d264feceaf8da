"""Consistent-hash exchanges: each message to one of the bindings, equal keys to the same one.

A binding's key is its weight: with twice the weight it gets twice the share. A binding that comes or goes
moves few keys, and where a key leads depends on the bindings alone, not on the order in which they came:
so it is the same after a start. The exchange's arguments may name a header or a property to go by in place of
the key; messages without it are all alike.

The bindings are the leaves of a tree: digits of a hash of the binding say where. At every node each child
draws a lot from the message's key, weighted by all that is below it, and the lowest lot wins (rendezvous
hashing). Shares are exactly in proportion to the weights, without the many points that a ring needs for
that, and with 100,000 bindings a few dozen lots are drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from math import log

from mainstem.kernel.routing.binding import Binding
from mainstem.model.errors import InvalidRequest
from mainstem.model.labels import Labels

MAX_WEIGHT = 1_000_000
# The arguments that name what to go by, instead of the key.
HASH_HEADER = "hash-header"
HASH_PROPERTY = "hash-property"
PROPERTIES = ("correlation_id", "message_id", "timestamp")

_BITS = 5  # of a hash per level: 32 children at most
_DIGIT = (1 << _BITS) - 1
_MASK = (1 << 64) - 1
_LOTS = float(1 << 53)


def hash_of(text: str) -> int:
    """64 bits, the same in every process."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def lot(number: int, place: int) -> float:
    """Even between 0 and 1 (both excluded), and independent for every place."""
    mixed = (number ^ (place * 0x9E3779B97F4A7C15)) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((mixed ^ (mixed >> 31)) >> 11) / _LOTS + 0.5 / _LOTS


class Leaf:
    """Bindings that differ in nothing that counts here: one target, one weight. The first stands for all."""

    __slots__ = ("bindings", "number", "weight")

    def __init__(self, number: int, weight: int) -> None:
        self.number = number
        self.weight = weight
        self.bindings: tuple[Binding, ...] = ()


class Branch:
    __slots__ = ("children", "weight")

    def __init__(self) -> None:
        self.children: dict[int, Branch | Leaf] = {}
        self.weight = 0  # of all that is below


class ConsistentHash:
    __slots__ = ("_header", "_property", "_root")

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self._header = named(arguments, HASH_HEADER) or None
        self._property = named(arguments, HASH_PROPERTY)
        if self._property is not None:
            if self._header is not None:
                raise InvalidRequest(f"{HASH_HEADER} and {HASH_PROPERTY} are mutually exclusive")
            if self._property not in PROPERTIES:
                raise InvalidRequest(f"Unsupported property: {self._property}")
        self._root = Branch()

    @property
    def varies(self) -> bool:
        return self._header is not None or self._property is not None

    @property
    def varies_bare(self) -> bool:
        return self._property is not None

    def check(self, binding: Binding) -> None:
        weight_of(binding)

    def add(self, binding: Binding) -> None:
        new = Leaf(number_of(binding), weight_of(binding))
        branch, shift = self._root, 0
        path = [branch]
        while True:
            digit = (new.number >> shift) & _DIGIT
            there = branch.children.get(digit)
            shift += _BITS
            if isinstance(there, Branch):
                branch = there
            elif there is None or there.number == new.number:
                break
            else:  # two leaves want one place: both move a level down
                branch.children[digit] = middle = Branch()
                middle.children[(there.number >> shift) & _DIGIT] = there
                middle.weight = there.weight
                branch = middle
            path.append(branch)
        leaf = branch.children.setdefault(digit, new)
        assert isinstance(leaf, Leaf)
        leaf.bindings += (binding,)
        if leaf is new:
            for one in path:
                one.weight += new.weight

    def remove(self, binding: Binding) -> None:
        number, shift = number_of(binding), 0
        path: list[tuple[Branch, int]] = []
        there: Branch | Leaf | None = self._root
        while isinstance(there, Branch):
            digit = (number >> shift) & _DIGIT
            path.append((there, digit))
            there = there.children.get(digit)
            shift += _BITS
        if there is None or binding not in there.bindings:
            return
        there.bindings = tuple(one for one in there.bindings if one != binding)
        if there.bindings:
            return
        left: Branch | Leaf | None = None
        for branch, digit in reversed(path):
            branch.weight -= there.weight
            if left is None:
                del branch.children[digit]
            else:
                branch.children[digit] = left
            left = lonely_leaf(branch)

    def match(self, keys: Sequence[str], headers: Mapping[str, object]) -> Iterable[Binding]:
        """One, or none if there are none. Of several keys the first counts."""
        if not self._root.children:
            return ()
        number = hash_of(self._text(keys, headers))
        there: Branch | Leaf = self._root
        place = 0
        while isinstance(there, Branch):
            first = (place << _BITS) + 1  # places are numbered through, level by level
            _, digit = min(
                (-log(lot(number, first + digit)) / child.weight, digit)
                for digit, child in there.children.items()
            )
            place = first + digit
            there = there.children[digit]
        return there.bindings[:1]

    def _text(self, keys: Sequence[str], headers: Mapping[str, object]) -> str:
        if self._property is not None:
            # Of a message without it nothing is said, as of one without the header below.
            return headers.properties.get(self._property, "") if isinstance(headers, Labels) else ""
        if self._header is None:
            return keys[0] if keys else ""
        value = headers.get(self._header)
        if isinstance(value, bytes):
            return value.decode("utf-8", "surrogateescape")
        return value if isinstance(value, str) else repr(value)

    def __iter__(self) -> Iterator[Binding]:
        todo: list[Branch | Leaf] = [self._root]
        while todo:
            there = todo.pop()
            if isinstance(there, Leaf):
                yield from there.bindings
            else:
                todo.extend(there.children.values())


def named(arguments: Mapping[str, object], argument: str) -> str | None:
    """The name that is an argument's value."""
    value = arguments.get(argument)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if value is not None and not isinstance(value, str):
        raise InvalidRequest(f"{argument} is a name, and not {value!r}")
    return value


def lonely_leaf(branch: Branch) -> Branch | Leaf | None:
    """What to put in this branch's place, so that the tree is as if what went had never come."""
    if len(branch.children) == 1:
        (only,) = branch.children.values()
        if isinstance(only, Leaf):
            return only
    return branch


def number_of(binding: Binding) -> int:
    return hash_of("\0".join((*binding.target, binding.key)))


def weight_of(binding: Binding) -> int:
    key = binding.key
    if not (key.isascii() and key.isdecimal() and len(key) <= 18 and 1 <= int(key) <= MAX_WEIGHT):
        raise InvalidRequest(
            f"the key of a consistent-hash binding is its weight, from 1 to {MAX_WEIGHT}, not {key[:40]!r}"
        )
    return int(key)
