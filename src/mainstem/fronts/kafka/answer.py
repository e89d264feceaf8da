"""An answer in the making: the place in line of a request that is under way."""

from __future__ import annotations

from collections.abc import Callable

from mainstem.fronts.kafka.inbox import Slab
from mainstem.model.slices import Chunk


class Answer:
    """An answer in the making: `chunks` once it is there. `failure` closes the connection instead."""

    __slots__ = (
        "_on_ready",
        "cancelled",
        "chunks",
        "copied",
        "failure",
        "held",
        "hurry",
        "hurry_closes",
        "may_be_followed",
        "on_cancel",
        "request_bytes",
        "reserved",
        "silent",
        "slab",
    )

    def __init__(self, on_ready: Callable[[], None], *, may_be_followed: bool = False) -> None:
        self._on_ready = on_ready
        self.chunks: list[Chunk] | None = None
        self.failure: str | None = None
        self.may_be_followed = may_be_followed
        self.request_bytes = 0
        self.reserved = 0  # of the budget for large requests
        self.held = 0  # bytes that count as held in memory until they are handed to the transport
        self.slab: Slab | None = None  # that the request lies in
        self.copied = False  # all that is needed of the request lies elsewhere: its slab is free
        self.silent = False  # the client wants none: what it sent is taken even if it has left meanwhile
        self.cancelled = False
        self.on_cancel: Callable[[], object] | None = None
        self.hurry: Callable[[], object] | None = None  # ends a wait: others need what the request holds
        self.hurry_closes = False  # and with it the connection

    def ready(self, chunks: list[Chunk]) -> None:
        self.chunks = chunks
        # Whoever can be cancelled knows this answer: a cycle that would keep its bytes until collected.
        self.on_cancel = self.hurry = None
        if not self.cancelled:
            self._on_ready()

    def fail(self, why: str) -> None:
        self.failure = why
        self.ready([])

    def cancel(self) -> None:
        """The connection is gone: nobody waits for this any more."""
        self.cancelled = True
        if self.on_cancel is not None:
            self.on_cancel()
        self.on_cancel = self.hurry = None
