"""Big-endian numbers out of a bytearray, one at a time: each a few machine instructions where it is compiled.

For the few numbers that every request is looked at for. Whoever reads many at once is better off with
`struct`, and without a compiler so is everybody: that is what these are then.
"""

from __future__ import annotations

from struct import Struct

_COMPILED = not __file__.endswith(".py")
_unpack_int16 = Struct(">h").unpack_from
_unpack_int32 = Struct(">i").unpack_from
_unpack_int64 = Struct(">q").unpack_from
_SIGN = 1 << 31
_LOW_32 = (1 << 32) - 1


def int16_at(data: bytearray, at: int) -> int:
    if _COMPILED:
        return ((data[at] << 8 | data[at + 1]) ^ 0x8000) - 0x8000
    return int(_unpack_int16(data, at)[0])


def int32_at(data: bytearray, at: int) -> int:
    if _COMPILED:
        high, low = data[at] << 8 | data[at + 1], data[at + 2] << 8 | data[at + 3]
        return ((high << 16 | low) ^ _SIGN) - _SIGN
    return int(_unpack_int32(data, at)[0])


def int64_at(data: bytearray, at: int) -> int:
    if _COMPILED:
        return int32_at(data, at) << 32 | int32_at(data, at + 4) & _LOW_32
    return int(_unpack_int64(data, at)[0])
