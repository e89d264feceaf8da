"""Policies: options for all queues and exchanges whose name matches, changed while they are in use. Pure.

A policy has a pattern (a regular expression that matches anywhere in a name), what kind of thing it is for,
and a definition. Of the policies that match, the one with the highest priority counts, and only that one.
What a queue was declared with goes before its policy; of two limits the lower one counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from mainstem.broker.queues.spec import ExchangeSpec, Overflow, QueueOptions, QueueSpec
from mainstem.model.errors import InvalidRequest

ApplyTo = Literal["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"]
APPLY_TO: tuple[str, ...] = get_args(ApplyTo)
MAX_PATTERN_CHARACTERS = 1024
MAX_POLICIES = 1000  # of one namespace: each is tried on every name
_MAX_NUMBER = 1 << 53  # numbers that every JSON reader can hold
_MAX_NAME_BYTES = 255
_MAX_PRIORITY = 1 << 31

# Keys of definitions, and the options that they set.
LIMITS = {
    "message-ttl": "message_ttl_ms",
    "expires": "expires_ms",
    "max-length": "max_length",
    "max-length-bytes": "max_bytes",
    "delivery-limit": "delivery_limit",
}
NAMES = {"dead-letter-exchange": "dead_letter_exchange", "dead-letter-routing-key": "dead_letter_key"}
OVERFLOW = "overflow"
ALTERNATE = "alternate-exchange"
KEYS = (*LIMITS, *NAMES, OVERFLOW, ALTERNATE)


class Policy(msgspec.Struct, array_like=True, frozen=True):
    name: str
    pattern: str
    definition: Mapping[str, Any]
    apply_to: ApplyTo = "all"
    priority: int = 0

    def check(self) -> None:
        """InvalidRequest if something about it makes no sense."""
        if not self.name or len(self.name.encode()) > _MAX_NAME_BYTES:
            raise InvalidRequest("a policy needs a name of at most 255 bytes")
        if len(self.pattern) > MAX_PATTERN_CHARACTERS:
            raise InvalidRequest(f"a pattern of more than {MAX_PATTERN_CHARACTERS} characters")
        try:
            re.compile(self.pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise InvalidRequest(f"the pattern {self.pattern!r} makes no sense: {error}") from None
        if abs(self.priority) > _MAX_PRIORITY:
            raise InvalidRequest(f"a policy's priority is at most {_MAX_PRIORITY}, not {self.priority}")
        if self.apply_to not in APPLY_TO:
            raise InvalidRequest(f"a policy applies to one of {', '.join(APPLY_TO)}, not {self.apply_to!r}")
        if not self.definition:
            raise InvalidRequest(f"a policy without a definition; there are: {', '.join(KEYS)}")
        for key, value in self.definition.items():
            _check_key(key, value)

    def is_for_queue(self, spec: QueueSpec) -> bool:
        if self.apply_to not in ("all", "queues", _PLURALS[spec.options.kind]):
            return False
        return re.search(self.pattern, spec.name) is not None

    def is_for_exchange(self, name: str) -> bool:
        return self.apply_to in ("all", "exchanges") and re.search(self.pattern, name) is not None


_PLURALS = {"classic": "classic_queues", "quorum": "quorum_queues", "stream": "streams"}


def _check_key(key: str, value: object) -> None:
    if key in LIMITS:
        lowest = 1 if key == "expires" else 0
        if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= _MAX_NUMBER:
            raise InvalidRequest(f"{key} must be a whole number from {lowest} on, not {value!r}")
    elif key == OVERFLOW:
        if value not in get_args(Overflow):
            raise InvalidRequest(f"{key} must be one of {', '.join(get_args(Overflow))}, not {value!r}")
    elif key in NAMES or key == ALTERNATE:
        if not isinstance(value, str) or len(value.encode()) > _MAX_NAME_BYTES:
            raise InvalidRequest(f"{key} must be a text of at most 255 bytes, not {value!r}")
    else:
        raise InvalidRequest(f"a policy cannot set {key!r}; there are: {', '.join(KEYS)}")


class Policies:
    """Those of one namespace, by name."""

    __slots__ = ("_by_name", "_ordered")

    def __init__(self) -> None:
        self._by_name: dict[str, Policy] = {}
        self._ordered: tuple[Policy, ...] = ()

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def all(self) -> tuple[Policy, ...]:
        """The most important first; of equals the first by name."""
        return self._ordered

    def put(self, policy: Policy) -> None:
        self._by_name[policy.name] = policy
        self._order()

    def remove(self, name: str) -> None:
        if self._by_name.pop(name, None) is not None:
            self._order()

    def _order(self) -> None:
        self._ordered = tuple(sorted(self._by_name.values(), key=lambda one: (-one.priority, one.name)))

    def of_queue(self, spec: QueueSpec) -> Policy | None:
        return next((one for one in self._ordered if one.is_for_queue(spec)), None)

    def of_exchange(self, name: str) -> Policy | None:
        return next((one for one in self._ordered if one.is_for_exchange(name)), None)

    def options(self, spec: QueueSpec) -> QueueOptions:
        """As a queue is to be treated; its own options where no policy says more."""
        policy = self.of_queue(spec) if self._ordered else None
        return spec.options if policy is None else merged(spec, policy.definition)

    def alternate(self, spec: ExchangeSpec) -> str | None:
        if spec.alternate is not None or not self._ordered:
            return spec.alternate
        policy = self.of_exchange(spec.name)
        return None if policy is None else policy.definition.get(ALTERNATE)


def merged(spec: QueueSpec, definition: Mapping[str, Any]) -> QueueOptions:
    own = spec.options
    changed: dict[str, Any] = {}
    for key, field in LIMITS.items():
        value = definition.get(key)
        if value is not None:
            mine = getattr(own, field) if _is_own(spec, key) else None
            changed[field] = value if mine is None else min(mine, value)
    for key, field in NAMES.items():
        if key in definition and getattr(own, field) is None:
            changed[field] = definition[key]
    if OVERFLOW in definition and own.overflow == QueueOptions().overflow and not _is_own(spec, OVERFLOW):
        changed["overflow"] = definition[OVERFLOW]
    return msgspec.structs.replace(own, **changed)


def _is_own(spec: QueueSpec, key: str) -> bool:
    """Whether it was asked for, and is not what such a queue has anyway."""
    if f"x-{key}" in spec.arguments:
        return True
    if key == OVERFLOW:
        return False
    return key != "delivery-limit" or spec.options.kind == "classic"
