"""Mainstem's errors as AMQP's reply codes, in the words that RabbitMQ uses: one table, and a test of it.

Clients' tests and people's log searches know those words. Whether a code closes the channel or the whole
connection is the protocol's business: `AmqpError.closes_connection`.
"""

from __future__ import annotations

from typing import NamedTuple

from mainstem.model import errors as e
from mainstem.wire.amqp.errors import AmqpError

NO_ROUTE = 312
CONNECTION_FORCED = 320
ACCESS_REFUSED = 403
NOT_FOUND = 404
RESOURCE_LOCKED = 405
PRECONDITION_FAILED = 406
COMMAND_INVALID = 503
CHANNEL_ERROR = 504
RESOURCE_ERROR = 506
NOT_ALLOWED = 530
NOT_IMPLEMENTED = 540
INTERNAL_ERROR = 541

CODES: dict[type[e.MainstemError], int] = {
    e.MainstemError: INTERNAL_ERROR,
    e.InvalidRequest: PRECONDITION_FAILED,
    e.PolicyViolation: PRECONDITION_FAILED,
    e.BatchTooLarge: PRECONDITION_FAILED,
    e.QueueError: PRECONDITION_FAILED,
    e.UnknownNamespace: NOT_ALLOWED,
    e.UnknownExchange: NOT_FOUND,
    e.UnknownQueue: NOT_FOUND,
    e.QueueLocked: RESOURCE_LOCKED,
    e.QueueInUse: PRECONDITION_FAILED,
    e.QueueNotEmpty: PRECONDITION_FAILED,
    e.ExchangeInUse: PRECONDITION_FAILED,
    e.NotForClients: ACCESS_REFUSED,
    e.Inequivalent: PRECONDITION_FAILED,
    e.AccessError: ACCESS_REFUSED,
    e.StorageError: RESOURCE_ERROR,
    e.NotSupported: NOT_IMPLEMENTED,
}


class Resource(NamedTuple):
    """A queue or an exchange as error texts name it."""

    kind: str
    name: str
    vhost: str

    def __str__(self) -> str:
        return f"{self.kind} '{self.name}' in vhost '{self.vhost}'"


def code_of(error: BaseException) -> int:
    """The code for an error, or that of its nearest ancestor; a bug is INTERNAL_ERROR."""
    for cls in type(error).__mro__:
        code = CODES.get(cls)
        if code is not None:
            return code
    return INTERNAL_ERROR


def as_amqp(error: e.MainstemError, about: Resource | None = None) -> AmqpError:
    """What a client is told. `about` is what it asked for."""
    if isinstance(error, AmqpError):
        return error
    return AmqpError(code_of(error), _text(error, about))


def _text(error: e.MainstemError, about: Resource | None) -> str:
    if about is None:
        return str(error)
    match error:
        case e.UnknownExchange():
            return f"no {about._replace(kind='exchange', name=_name(error, about, 'exchange'))}"
        case e.UnknownQueue():
            return f"no {about._replace(kind='queue', name=_name(error, about, 'queue'))}"
        case e.QueueLocked():
            return (
                f"cannot obtain exclusive access to locked {about}. It could be originally declared on"
                " another connection or the exclusive property value does not match that of the original"
                " declaration."
            )
        case e.QueueInUse() | e.ExchangeInUse():
            return f"{about} in use"
        case e.QueueNotEmpty():
            return f"{about} not empty"
        case e.Inequivalent():
            received, current = _value(error.received, error.current), _value(error.current, error.received)
            what = f"inequivalent arg '{error.argument}' for {about}"
            return f"{what}: received {received} but current is {current}"
        case e.NotAuthorized():
            user = error.principal.partition(":")[2]
            return f"{error.operation} access to {about} refused for user '{user}'"
    return str(error)


def _name(error: e.MainstemError, about: Resource, kind: str) -> str:
    """Of what is missing: it may be another than was asked about, as with a binding."""
    if error.args and isinstance(error.args[0], str):
        return error.args[0]
    return about.name if about.kind == kind else ""


def _value(value: object, other: object) -> str:
    """A value is told with its type where the other side has none."""
    if value is None:
        return "none"
    if other is None:
        return f"the value '{shown(value)}' of type '{type_name(value)}'"
    return f"'{shown(value)}'"


def shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def type_name(value: object) -> str:
    """The name RabbitMQ has for the type of a table's value, as far as it can still be told."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "signedint" if -(1 << 31) <= value < 1 << 31 else "long"
    names = {str: "longstr", float: "double", list: "array", dict: "table", bytes: "binary"}
    return names.get(type(value), "void" if value is None else type(value).__name__)


# --- what handlers say themselves ---------------------------------------------------------------


def precondition(text: str) -> AmqpError:
    return AmqpError(PRECONDITION_FAILED, text)


def refused(text: str) -> AmqpError:
    return AmqpError(ACCESS_REFUSED, text)


def not_found(text: str) -> AmqpError:
    return AmqpError(NOT_FOUND, text)


def not_allowed(text: str) -> AmqpError:
    return AmqpError(NOT_ALLOWED, text)


def not_implemented(text: str) -> AmqpError:
    return AmqpError(NOT_IMPLEMENTED, text)
