"""Which small files become a larger one. Pure.

Files of a folder are put in classes by size, each `fan_in` times as large as the one before. A class that has
`fan_in` files is merged, with all that is smaller, so that a row is rewritten once for each class at most,
and a folder never holds more than a few files that are small. A folder that nobody has written to for a
while is merged whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

_SMALLEST_BYTES = 4096  # what is smaller costs the same


@dataclass(frozen=True, slots=True)
class Policy:
    target_bytes: int  # files of half this size and more are left alone
    fan_in: int  # 0: never
    idle_s: float


class Sized(NamedTuple):
    name: str
    size_bytes: int


def choose(files: Sequence[Sized], policy: Policy, *, idle: bool) -> list[Sized]:
    """The files to merge; none if there is nothing to gain."""
    if not policy.fan_in:
        return []
    small = sorted(
        (file for file in files if file.size_bytes * 2 < policy.target_bytes),
        key=lambda file: file.size_bytes,
    )
    if idle:
        return small if len(small) > 1 else []
    classes = [_class(file.size_bytes, policy.fan_in) for file in small]
    full = [one for one in set(classes) if classes.count(one) >= policy.fan_in]
    return [file for file, one in zip(small, classes, strict=True) if one <= max(full)] if full else []


def parts(chosen: Sequence[Sized], policy: Policy) -> int:
    """How many files they become."""
    return max(1, sum(file.size_bytes for file in chosen) // policy.target_bytes)


def _class(size_bytes: int, fan_in: int) -> int:
    found, bound = 0, _SMALLEST_BYTES * fan_in
    while size_bytes >= bound:
        found, bound = found + 1, bound * fan_in
    return found
