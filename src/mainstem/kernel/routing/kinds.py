"""The kinds of exchanges, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mainstem.kernel.routing.hash_tree import ConsistentHash
from mainstem.kernel.routing.headers_match import Headers
from mainstem.kernel.routing.index import Direct, Fanout, Index
from mainstem.kernel.routing.random_pick import RandomPick
from mainstem.kernel.routing.topic_trie import Topic
from mainstem.model.errors import InvalidRequest

# Holds messages back for as long as they ask, then routes them as the kind in its arguments does.
DELAYED = "x-delayed-message"
DELAYED_KIND = "x-delayed-type"

_KINDS: dict[str, Callable[[Mapping[str, object]], Index]] = {
    "direct": lambda arguments: Direct(),
    "fanout": lambda arguments: Fanout(),
    "topic": lambda arguments: Topic(),
    "headers": lambda arguments: Headers(),
    "x-consistent-hash": ConsistentHash,
    "x-local-random": lambda arguments: RandomPick(),
}
KINDS = (*_KINDS, DELAYED)


def make_index(kind: str, arguments: Mapping[str, object]) -> Index:
    """InvalidRequest if there is no such kind, or not with such arguments."""
    if kind == DELAYED:
        within = arguments.get(DELAYED_KIND)
        if isinstance(within, bytes):
            within = within.decode("utf-8", "replace")
        if not isinstance(within, str) or within not in _KINDS:
            raise InvalidRequest(
                f"{DELAYED_KIND} of an exchange is one of {', '.join(_KINDS)}, not {within!r}"
            )
        kind = within
    make = _KINDS.get(kind)
    if make is None:
        raise InvalidRequest(f"unknown kind of exchange {kind!r}: it is one of {', '.join(KINDS)}")
    return make(arguments)
