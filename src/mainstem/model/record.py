"""One record, decoded: what a batch is made of once somebody needs to look inside it."""

from __future__ import annotations

import msgspec

Headers = tuple[tuple[str, bytes | None], ...]


class Record(msgspec.Struct, frozen=True, gc=False):  # only holds leaves, so no cycle can form
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
