"""Arguments of queues, exchanges and consumers: checked as RabbitMQ does, and what they mean. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast

from mainstem.broker.queues import QueueOptions, QueueSpec
from mainstem.broker.queues.spec import Overflow, QueueKind
from mainstem.fronts.amqp.codes import Resource, precondition, type_name

Arguments = Mapping[str, Any]

_TEN_YEARS_MS = 315_360_000_000
_MAX_PRIORITY = 255
# As RabbitMQ 4 has it for quorum queues: a message that came back so often is a dead letter.
_DELIVERY_LIMIT = 20
_MINUTE_MS = 60_000
_DAY_MS = 24 * 60 * _MINUTE_MS
_AGE_UNITS_MS = {
    "Y": 365 * _DAY_MS,
    "M": 30 * _DAY_MS,
    "D": _DAY_MS,
    "h": 60 * _MINUTE_MS,
    "m": _MINUTE_MS,
    "s": 1000,
}
_LONGEST_NAME = 255  # in bytes, of an exchange or a key
_OVERFLOWS = ("drop-head", "reject-publish", "reject-publish-dlx")

Check = Callable[[Any, Arguments], str | None]


def _integer(value: Any, _: Arguments) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return f'"expected integer, got {type_name(value)}"'
    return None


def _not_negative(value: Any, arguments: Arguments) -> str | None:
    wrong = _integer(value, arguments)
    if wrong is None and value < 0:
        return f"{{value_negative,{value}}}"
    return wrong


def _time_to_live(value: Any, arguments: Arguments) -> str | None:
    wrong = _not_negative(value, arguments)
    if wrong is None and value > _TEN_YEARS_MS:
        return f"{{value_too_large,{value}}}"
    return wrong


def _expires(value: Any, arguments: Arguments) -> str | None:
    if isinstance(value, int) and value == 0 and not isinstance(value, bool):
        return "{value_zero,0}"
    return _time_to_live(value, arguments)


def _priority(value: Any, arguments: Arguments) -> str | None:
    wrong = _not_negative(value, arguments)
    if wrong is None and value > _MAX_PRIORITY:
        return f"{{max_value_exceeded,{value}}}"
    return wrong


def _text(value: Any, _: Arguments) -> str | None:
    return None if isinstance(value, str) else f"{{unacceptable_type,{type_name(value)}}}"


def _name(value: Any, arguments: Arguments) -> str | None:
    wrong = _text(value, arguments)
    if wrong is None and len(value.encode()) > _LONGEST_NAME:
        return f"{{value_too_long,{len(value.encode())}}}"
    return wrong


def _flag(value: Any, _: Arguments) -> str | None:
    return None if isinstance(value, bool) else f"{{unacceptable_type,{type_name(value)}}}"


def _dead_letter_key(value: Any, arguments: Arguments) -> str | None:
    wrong = _name(value, arguments)
    if wrong is None and "x-dead-letter-exchange" not in arguments:
        return "routing_key_but_no_dlx_defined"
    return wrong


def _overflow(value: Any, arguments: Arguments) -> str | None:
    wrong = _text(value, arguments)
    return "invalid_overflow" if wrong is None and value not in _OVERFLOWS else wrong


def _max_age(value: Any, arguments: Arguments) -> str | None:
    wrong = _text(value, arguments)
    return "invalid_max_age" if wrong is None and _age_ms(value) is None else wrong


def _queue_kind(value: Any, arguments: Arguments) -> str | None:
    wrong = _text(value, arguments)
    if wrong is None and value not in _ALLOWED:
        return f"\"unsupported queue type '{value}'\""
    return wrong


_CHECKS: dict[str, Check] = {
    "x-queue-type": _queue_kind,
    "x-expires": _expires,
    "x-message-ttl": _time_to_live,
    "x-dead-letter-exchange": _name,
    "x-dead-letter-routing-key": _dead_letter_key,
    "x-max-length": _not_negative,
    "x-max-length-bytes": _not_negative,
    "x-max-priority": _priority,
    "x-overflow": _overflow,
    "x-single-active-consumer": _flag,
    "x-delivery-limit": _integer,
    "x-max-age": _max_age,
    "x-stream-max-segment-size-bytes": _not_negative,
    "x-quorum-initial-group-size": _not_negative,
    "x-initial-cluster-size": _not_negative,
}
_COMMON = {"x-queue-type", "x-queue-leader-locator", "x-queue-master-locator", "x-max-length-bytes"}
_BOTH = _COMMON | {
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-overflow",
    "x-single-active-consumer",
    "x-consumer-timeout",
}
_ALLOWED: dict[str, set[str]] = {
    "classic": _BOTH | {"x-max-priority", "x-queue-mode", "x-queue-version"},
    "quorum": _BOTH
    | {
        "x-delivery-limit",
        "x-dead-letter-strategy",
        "x-quorum-initial-group-size",
        "x-quorum-target-group-size",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
    },
    "stream": _COMMON
    | {
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-stream-filter-size-bytes",
        "x-initial-cluster-size",
    },
}
_KNOWN = set().union(*_ALLOWED.values())


def meaningful(arguments: Arguments) -> dict[str, Any]:
    """Those that two declarations of a queue must agree in; others are taken and mean nothing."""
    return {key: value for key, value in arguments.items() if key in _KNOWN}


def queue_options(arguments: Arguments, queue: Resource) -> QueueOptions:
    """What a queue is asked to be. Arguments that nobody knows mean nothing, as in RabbitMQ."""
    for key, check in _CHECKS.items():
        if key in arguments:
            wrong = check(arguments[key], arguments)
            if wrong is not None:
                raise precondition(f"invalid arg '{key}' for {queue}: {wrong}")
    kind: QueueKind = arguments.get("x-queue-type", "classic")
    for key in arguments:
        if key in _KNOWN and key not in _ALLOWED[kind]:
            raise precondition(f"invalid arg '{key}' for {queue} of queue type rabbit_{kind}_queue")
    ttl_ms = arguments.get("x-message-ttl")
    if "x-max-age" in arguments:
        ttl_ms = _age_ms(arguments["x-max-age"])
    limit = arguments.get("x-delivery-limit", _DELIVERY_LIMIT) if kind == "quorum" else None
    return QueueOptions(
        message_ttl_ms=ttl_ms,
        expires_ms=arguments.get("x-expires"),
        dead_letter_exchange=arguments.get("x-dead-letter-exchange"),
        dead_letter_key=arguments.get("x-dead-letter-routing-key"),
        max_length=arguments.get("x-max-length"),
        max_bytes=arguments.get("x-max-length-bytes"),
        overflow=cast(Overflow, arguments.get("x-overflow", "drop-head")),
        max_priority=arguments.get("x-max-priority", 0),
        single_active=arguments.get("x-single-active-consumer", False),
        delivery_limit=limit if limit is not None and limit >= 0 else None,
        kind=kind,
    )


def queue_spec(
    namespace: str, name: str, durable: bool, auto_delete: bool, arguments: Arguments
) -> QueueSpec:
    """As a declaration of a queue that is not exclusive asks for it."""
    about = Resource("queue", name, namespace)
    options = queue_options(arguments, about)
    check_kind(options.kind, durable, False, auto_delete, about)
    # A classic queue is what there is without a word about it.
    kept = {key: value for key, value in arguments.items() if (key, value) != ("x-queue-type", "classic")}
    return QueueSpec(name, durable, auto_delete, False, options, kept)


def check_kind(kind: QueueKind, durable: bool, exclusive: bool, auto_delete: bool, queue: Resource) -> None:
    """Quorum queues and streams are there to stay."""
    if kind == "classic":
        return
    for wrong, name in (
        (not durable, "non-durable"),
        (auto_delete, "auto-delete"),
        (exclusive, "exclusive-owner"),
    ):
        if wrong:
            raise precondition(f"invalid property '{name}' for {queue}")


def alternate_exchange(arguments: Arguments, exchange: Resource) -> str | None:
    value = arguments.get("alternate-exchange")
    if value is None or isinstance(value, str):
        return value
    raise precondition(f"invalid type '{type_name(value)}' for arg 'alternate-exchange' in {exchange}")


def consumer_priority(arguments: Arguments, queue: Resource) -> int:
    value = arguments.get("x-priority", 0)
    wrong = _integer(value, arguments)
    if wrong is not None:
        raise precondition(f"invalid arg 'x-priority' for {queue}: {wrong}")
    return int(value)


def stream_offset(arguments: Arguments, queue: Resource, now_ms: int) -> tuple[str, int]:
    """Where a reader of a stream begins: ("first" | "last" | "next", 0), ("offset", n) or ("time", ms)."""
    value = arguments.get("x-stream-offset", "next")
    if isinstance(value, datetime):
        return "time", int(value.timestamp() * 1000)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return "offset", value
    if isinstance(value, str):
        if value in ("first", "last", "next"):
            return value, 0
        age_ms = _age_ms(value)
        if age_ms is not None:
            return "time", now_ms - age_ms
    raise precondition(f"invalid arg 'x-stream-offset' for {queue}: {{invalid_stream_offset_arg,{value}}}")


def _age_ms(text: str) -> int | None:
    """`7D`, `12h`: how long ago."""
    found = re.fullmatch(r"([0-9]{1,12})([YMDhms])", text)
    if found is None or int(found[1]) == 0:
        return None
    return int(found[1]) * _AGE_UNITS_MS[found[2]]
