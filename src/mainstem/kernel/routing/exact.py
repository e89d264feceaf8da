"""Values compared together with their types: 1 is not "1", not True and not 1.0.

Python's own == says that 1, True and 1.0 are equal, and that b"a" and "a" are not. Here texts are equal
however they are spelt, and all else must be of one type. How many bits a number had on the wire does not
count.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeAlias

from mainstem.model.errors import InvalidRequest

Exact: TypeAlias = Hashable

MAX_DEPTH = 32  # of tables and lists within each other


def exact(value: object, depth: int = 0) -> Exact:
    """A stand-in that is equal to another value's stand-in if value and type are the same."""
    kind = type(value)
    if kind is str:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        # Bytes that are no UTF-8 stay different from every text.
        return bytes(value).decode("utf-8", "surrogateescape")
    if isinstance(value, Mapping | list | tuple):
        if depth == MAX_DEPTH:
            raise InvalidRequest(f"more than {MAX_DEPTH} tables or lists within each other")
        if isinstance(value, Mapping):
            return "table", frozenset((name, exact(one, depth + 1)) for name, one in value.items())
        return "list", tuple(exact(one, depth + 1) for one in value)
    if isinstance(value, Hashable):
        return kind, value
    raise InvalidRequest(f"a {kind.__name__} cannot be compared with other values")
