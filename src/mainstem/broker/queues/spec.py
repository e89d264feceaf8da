"""What exchanges and queues are asked to be. Plain values, part of the journal: new fields go to the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from mainstem.kernel.routing.binding import Target

__all__ = ["DEFAULT_NAMESPACE", "ExchangeSpec", "QueueOptions", "QueueSpec", "Target"]

DEFAULT_NAMESPACE = "/"

Overflow = Literal["drop-head", "reject-publish", "reject-publish-dlx"]
QueueKind = Literal["classic", "quorum", "stream"]


class ExchangeSpec(msgspec.Struct, array_like=True, frozen=True):
    name: str
    kind: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False  # only other exchanges may publish to it
    alternate: str | None = None  # gets what no binding matches
    arguments: Mapping[str, Any] = {}


class QueueOptions(msgspec.Struct, array_like=True, frozen=True):
    """How a queue treats its messages. None: no limit."""

    message_ttl_ms: int | None = None
    expires_ms: int | None = None  # a queue that nobody used for so long goes
    dead_letter_exchange: str | None = None
    dead_letter_key: str | None = None
    max_length: int | None = None
    max_bytes: int | None = None
    overflow: Overflow = "drop-head"
    max_priority: int = 0
    single_active: bool = False
    delivery_limit: int | None = None
    kind: QueueKind = "classic"


class QueueSpec(msgspec.Struct, array_like=True, frozen=True):
    """`arguments` are those of the client, kept to tell whether another declaration asks for the same."""

    name: str
    durable: bool = True
    auto_delete: bool = False
    exclusive: bool = False
    options: QueueOptions = QueueOptions()
    arguments: Mapping[str, Any] = {}

    @property
    def outlives_restart(self) -> bool:
        return self.durable and not self.exclusive
