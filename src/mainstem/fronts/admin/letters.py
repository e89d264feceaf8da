"""Messages as people and programs see them over the door: named, shown, chosen, changed. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from mainstem.broker.queues import Queue
from mainstem.broker.queues.browse import Seen
from mainstem.broker.queues.dead_letters import join_route, keys_of, split_route
from mainstem.fronts.admin import properties
from mainstem.model.errors import InvalidRequest
from mainstem.model.record import Headers
from mainstem.wire.amqp import properties as props
from mainstem.wire.amqp.dead import Death, deaths
from mainstem.wire.amqp.errors import AmqpError

# Of a body, in lists.
SHOWN_BYTES = 1024
# Headers that the broker itself writes.
OURS = frozenset({"route", "amqp", "expires", "dead", "since", "space", "keys"})
MAX_NAME_BYTES = 255


# --- names of messages ---------------------------------------------------------------------------


def letter_id(lane: int, offset: int) -> str:
    """Most queues have one lane: then it is the offset alone."""
    return str(offset) if lane == 0 else f"{lane}:{offset}"


def parse_id(text: str) -> tuple[int, int]:
    lane, colon, offset = text.partition(":")
    parts = (lane, offset) if colon else ("0", text)
    if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        raise InvalidRequest(f"{text!r} is no message id: those are like 17 or 2:17")
    return int(parts[0]), int(parts[1])


# --- shown ---------------------------------------------------------------------------------------


def shown(seen: Seen, queue: Queue, max_body_bytes: int | None = SHOWN_BYTES) -> dict[str, Any]:
    headers = seen.batch.headers(seen.at)
    exchange, key = split_route(headers.get("route"))
    if "route" not in headers:
        key = (seen.key() or b"").decode(errors="replace")
    fact: dict[str, Any] = {
        "id": letter_id(seen.lane.index, seen.offset),
        "exchange": exchange,
        "keys": keys_of(headers, key),
        "came_ms": seen.batch.came_ms(seen.at, headers),
        "priority": seen.lane.index if len(queue.lanes) > 1 else None,
        "redelivered": seen.again,
        "attempts": seen.lane.state.attempts(seen.offset),
        "bytes": seen.body_bytes,
        **body_shown(seen.body(max_body_bytes)),
    }
    if max_body_bytes is not None and seen.body_bytes > max_body_bytes:
        fact["cut"] = True
    own = headers.get("expires")
    if own:
        fact["expires_ms"] = int.from_bytes(own, "big")
    fact["properties"], fact["headers"] = _properties(headers)
    died = deaths(headers.get("dead") or b"\x90")
    if died:
        fact |= {"reason": died[0].reason, "died_in": died[0].queue, "deaths": [_death(one) for one in died]}
    return fact


def body_shown(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError as error:
        # The end of a body that was cut may be the half of a character.
        if error.start >= len(body) - 3 and error.end == len(body) and error.start:
            return {"body": body[: error.start].decode()}
        return {"body_base64": base64.b64encode(body).decode()}


def _properties(headers: Mapping[str, bytes | None]) -> tuple[dict[str, Any], dict[str, Any]]:
    raw = headers.get("amqp")
    if raw is not None:
        try:
            return properties.decode(raw)
        except AmqpError as error:
            return {"broken": error.text}, {}
    other = {name: value for name, value in headers.items() if name not in OURS}
    return {}, {
        name: value if value is None else value.decode(errors="replace") for name, value in other.items()
    }


def _death(one: Death) -> dict[str, object]:
    return {
        "queue": one.queue,
        "reason": one.reason,
        "count": one.times,
        "first_ms": one.first_ms,
        "exchange": one.exchange,
        "keys": one.keys,
    }


# --- chosen --------------------------------------------------------------------------------------


class Wish(NamedTuple):
    """Which messages; all of what is given must hold."""

    reason: str | None = None
    died_in: str | None = None
    key: str | None = None
    contains: bytes | None = None
    header: tuple[str, str] | None = None

    def fits(self, seen: Seen) -> bool:
        if self == _ANY:
            return True
        headers = seen.batch.headers(seen.at)
        if self.reason is not None or self.died_in is not None:
            died = deaths(headers.get("dead") or b"\x90")
            if not died or self.reason not in (None, died[0].reason):
                return False
            if self.died_in not in (None, died[0].queue):
                return False
        if self.contains is not None and self.contains not in seen.body():
            return False
        if self.key is not None and self.key not in _keys(seen, headers):
            return False
        if self.header is not None:
            name, value = self.header
            found = _properties(headers)[1]
            return name in found and str(found[name]) == value
        return True


_ANY = Wish()


def _keys(seen: Seen, headers: Mapping[str, bytes | None]) -> list[str]:
    """Those that it was published with, also before it died."""
    _, key = split_route(headers.get("route"))
    keys = keys_of(headers, key or (seen.key() or b"").decode(errors="replace"))
    return [*keys, *(one for death in deaths(headers.get("dead") or b"\x90") for one in death.keys)]


# --- changed -------------------------------------------------------------------------------------


class Edit(NamedTuple):
    """What becomes different about a message that is moved. None: nothing."""

    body: bytes | None = None
    key: str | None = None
    set_headers: Mapping[str, Any] = {}
    drop_headers: tuple[str, ...] = ()
    fresh: bool = False  # without the history of its deaths


class Rewritten(NamedTuple):
    """A record to be."""

    key: bytes
    body: bytes
    headers: Headers
    priority: int


def rewritten(seen: Seen, exchange: str, key: str, edit: Edit) -> Rewritten:
    """As it was published, but for the edit. It has no time to live any more: that is over."""
    headers = seen.batch.headers(seen.at)
    raw = headers.get("amqp")
    rest = [(name, value) for name, value in headers.items() if name not in OURS]
    priority = 0
    if raw is not None:
        if edit.set_headers or edit.drop_headers:
            properties.encode_headers(edit.set_headers)
            raw = props.patch(raw, edit.set_headers, edit.drop_headers)
        found = props.fields(raw)
        if found.pop(props.EXPIRATION, None) is not None:
            raw = props.join(found)
        priority = found.get(props.PRIORITY, b"\0")[0]
        rest.insert(0, ("amqp", raw))
    elif edit.set_headers or edit.drop_headers:
        gone = {*edit.set_headers, *edit.drop_headers}
        rest = [header for header in rest if header[0] not in gone]
        rest += [(name, _text(value)) for name, value in edit.set_headers.items()]
    history = headers.get("dead")
    if history and not edit.fresh:
        rest.append(("dead", history))
    several = headers.get("keys")
    if several and edit.key is None:
        rest.append(("keys", several))
    body = seen.body() if edit.body is None else edit.body
    return Rewritten(key.encode(), body, (("route", join_route(exchange, key)), *rest), priority)


def _text(value: object) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


def given_body(text: str | None, coded: str | None) -> bytes | None:
    """From `body` or `body_base64`; None if there is neither."""
    if text is not None and coded is not None:
        raise InvalidRequest("body or body_base64, not both")
    if coded is not None:
        try:
            return base64.b64decode(coded, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidRequest("body_base64 is not base64") from None
    return None if text is None else text.encode(errors="replace")


def check_key(key: str) -> None:
    if len(key.encode(errors="replace")) > MAX_NAME_BYTES:
        raise InvalidRequest(f"a routing key of more than {MAX_NAME_BYTES} bytes")
