"""Field tables: walked, bounded, and changed without touching the values that nobody asked for.

    table   size u32, entries:  name shortstr, value
    value   type octet, then by type:
            t b B 1 byte, s u 2, I i f 4, l L d T 8, D 1 + 4, V none,
            S x size u32 and bytes, F table, A array (size u32, values)

A table is read as raw entries. What is not changed is written as it came, so its types survive. pamqp turns
values into Python's, after the walk has shown that they are whole, not too deep and not too many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import DecimalException
from struct import Struct

from pamqp import decode as pamqp_decode

from mainstem.wire.amqp.errors import AmqpError

MAX_DEPTH = 32
# pamqp copies what is left of a method's table for every value in it: the cost grows with their product.
MAX_VALUES = 1024

_U32 = Struct(">I")
_I64 = Struct(">q")
_DOUBLE = Struct(">d")
_FIXED = {
    **dict.fromkeys(b"tbB", 1),
    **dict.fromkeys(b"su", 2),
    **dict.fromkeys(b"Iif", 4),
    **dict.fromkeys(b"lLdT", 8),
    ord("D"): 5,
    ord("V"): 0,
    0: 0,  # not in any text, but clients send it for nothing
}
_STRINGS = frozenset(b"Sx")
_TABLE, _ARRAY = ord("F"), ord("A")
MAX_NAME_BYTES = 255

# What a table may hold when we write one.
Value = bool | int | float | str | bytes | None | Sequence["Value"] | Mapping[str, "Value"]
Entry = tuple[bytes, bytes]  # name; value with its type octet


class Seconds(int):
    """A time, in seconds since 1970: written as a timestamp and not as a number."""


def broken(text: str) -> AmqpError:
    return AmqpError(502, text)


def entries(raw: bytes) -> list[Entry]:
    """The entries of a table, its size in front, everything in it walked through."""
    return _Walk(raw).entries()


def check(raw: bytes, at: int) -> int:
    """Walk through the table at `at`; returns where it ends."""
    return _Walk(raw).table(at, len(raw), 1)


def decode(raw: bytes) -> dict[str, object]:
    """All of a table, as Python's values: what pamqp makes of it, without its copies of all that is left."""
    try:
        return {name.decode(): decode_value(value) for name, value in entries(raw)}
    except UnicodeDecodeError:
        raise broken("a name in a field table that is not utf-8") from None


def decode_value(raw: bytes) -> object:
    """One value with its type octet, which was walked through."""
    if raw[0] == _TABLE:
        return decode(raw[1:])
    if raw[0] == _ARRAY:
        return [decode_value(value) for value in _Walk(raw).items()]
    try:
        return pamqp_decode.embedded_value(raw)[1]
    except (ValueError, OverflowError, OSError, DecimalException) as error:
        raise broken(f"a value that cannot be: {error}") from None


def join(found: Sequence[Entry]) -> bytes:
    """A table of these entries, its size in front."""
    inner = b"".join([bytes((len(name),)) + name + value for name, value in found])
    return _U32.pack(len(inner)) + inner


def encode_value(value: Value) -> bytes:
    """With its type octet. Numbers are 64 bits wide, as RabbitMQ writes its own."""
    if value is None:
        return b"V"
    if isinstance(value, bool):
        return b"t\1" if value else b"t\0"
    if isinstance(value, int):
        return (b"T" if isinstance(value, Seconds) else b"l") + _I64.pack(value)
    if isinstance(value, float):
        return b"d" + _DOUBLE.pack(value)
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return b"S" + _U32.pack(len(value)) + value
    if isinstance(value, Mapping):
        return b"F" + join([(name.encode(), encode_value(each)) for name, each in value.items()])
    inner = b"".join([encode_value(each) for each in value])
    return b"A" + _U32.pack(len(inner)) + inner


class _Walk:
    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._values = 0

    def entries(self) -> list[Entry]:
        found: list[Entry] = []
        end = self.table(0, len(self._raw), 1, found)
        if end != len(self._raw):
            raise broken(f"{len(self._raw) - end} bytes behind a field table")
        return found

    def items(self) -> list[bytes]:
        """Of an array with its type octet."""
        at, end = self._sized(1, len(self._raw))
        found = []
        while at < end:
            after = self._value(at, end, 1)
            found.append(self._raw[at:after])
            at = after
        return found

    def table(self, at: int, stop: int, depth: int, found: list[Entry] | None = None) -> int:
        at, end = self._sized(at, stop)
        raw = self._raw
        while at < end:
            name_at = at + 1
            value_at = name_at + raw[at]
            if value_at >= end:
                raise broken("a field table whose name is cut short")
            at = self._value(value_at, end, depth)
            if found is not None:
                found.append((raw[name_at:value_at], raw[value_at:at]))
        return end

    def _array(self, at: int, stop: int, depth: int) -> int:
        at, end = self._sized(at, stop)
        while at < end:
            at = self._value(at, end, depth)
        return end

    def _value(self, at: int, stop: int, depth: int) -> int:
        """Where the value at `at` ends, which is before `stop`."""
        self._values += 1
        if self._values > MAX_VALUES:
            raise broken(f"field tables with more than {MAX_VALUES} values")
        kind = self._raw[at]
        at += 1
        size = _FIXED.get(kind)
        if size is not None:
            if size > stop - at:
                raise broken("a field value that is cut short")
            return at + size
        if kind in _STRINGS:
            return self._sized(at, stop)[1]
        if kind not in (_TABLE, _ARRAY):
            raise broken(f"a field value of the unknown type {bytes((kind,))!r}")
        if depth >= MAX_DEPTH:
            raise broken(f"field tables more than {MAX_DEPTH} deep")
        return self.table(at, stop, depth + 1) if kind == _TABLE else self._array(at, stop, depth + 1)

    def _sized(self, at: int, stop: int) -> tuple[int, int]:
        """Where something with its size in front begins and ends."""
        if stop - at < _U32.size:
            raise broken("a size in a field table that is cut short")
        size = _U32.unpack_from(self._raw, at)[0]
        at += _U32.size
        if size > stop - at:
            raise broken(f"a field value of {size} bytes where {stop - at} are left")
        return at, at + size
