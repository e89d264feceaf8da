"""Headers exchanges: a binding's arguments say which headers a message must have.

`x-match` is `all` (the default), `any`, `all-with-x` or `any-with-x`; arguments that start with `x-` count
only for the latter two. An argument without a value asks for presence only. With nothing to ask for,
`all` matches every message and `any` none.

A binding is found by the headers it asks for, so a message is compared only with bindings that share one
with it: `any` stands under each of its headers, `all` under the rarest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple, TypeAlias

from mainstem.kernel.routing.binding import Binding
from mainstem.kernel.routing.exact import Exact, exact
from mainstem.kernel.routing.multimap import MultiMap
from mainstem.model.errors import InvalidRequest

MODES = ("all", "any", "all-with-x", "any-with-x")
MAX_ASKED = 256  # headers that one binding asks for

Header: TypeAlias = tuple[str, Exact]
PRESENT: Exact = ("present",)  # stands for whatever value: equal to no value's stand-in
NO_VALUE = exact(None)


class Wanted(NamedTuple):
    """A binding, as it is looked for."""

    binding: Binding
    headers: tuple[Header, ...]
    any_will_do: bool


class Headers:
    __slots__ = ("_always", "_asked", "_by_header", "_never")
    varies: ClassVar[bool] = True
    varies_bare: ClassVar[bool] = False

    def __init__(self) -> None:
        self._by_header = MultiMap[Header, Wanted]()
        self._asked = Counter[str]()  # names that bindings ask for: the others need no look
        self._always: dict[Binding, None] = {}  # `all` of nothing
        self._never: dict[Binding, None] = {}  # `any` of nothing

    def check(self, binding: Binding) -> None:
        if len(wanted(binding).headers) > MAX_ASKED:
            raise InvalidRequest(f"a binding asks for at most {MAX_ASKED} headers")

    def add(self, binding: Binding) -> None:
        one = wanted(binding)
        self._asked.update(name for name, _ in one.headers)
        if not one.headers:
            (self._never if one.any_will_do else self._always)[binding] = None
        elif one.any_will_do:
            for header in one.headers:
                self._by_header.add(header, one)
        else:
            self._by_header.add(min(one.headers, key=self._by_header.count), one)

    def remove(self, binding: Binding) -> None:
        one = wanted(binding)
        self._never.pop(binding, None)
        self._always.pop(binding, None)
        for header in one.headers:
            self._by_header.discard(header, one)
            self._asked[header[0]] -= 1
            if not self._asked[header[0]]:
                del self._asked[header[0]]

    def match(self, keys: Sequence[str], headers: Mapping[str, object]) -> Iterable[Binding]:
        yield from self._always
        there: set[Header] = set()
        for name, value in headers.items():
            if name in self._asked:
                there.add((name, PRESENT))
                there.add((name, exact(value)))
        for header in there:
            for one in self._by_header.get(header):
                if one.any_will_do or there.issuperset(one.headers):
                    yield one.binding

    def __iter__(self) -> Iterator[Binding]:
        yield from self._always
        yield from self._never
        # `any` stands under several headers, but is one binding.
        yield from dict.fromkeys(one.binding for one in self._by_header)


def wanted(binding: Binding) -> Wanted:
    mode = binding.arguments.get("x-match", "all")
    if isinstance(mode, bytes):
        mode = mode.decode("utf-8", "replace")
    if mode not in MODES:
        raise InvalidRequest(f"x-match is one of {', '.join(MODES)}, not {mode!r}")
    with_x = str(mode).endswith("-with-x")
    headers = tuple(
        header if header[1] != NO_VALUE else (header[0], PRESENT)
        for header in binding.arguments.exact
        if header[0] != "x-match" and (with_x or not header[0].startswith("x-"))
    )
    return Wanted(binding, headers, any_will_do=str(mode).startswith("any"))
