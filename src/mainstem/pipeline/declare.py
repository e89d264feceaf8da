"""What a pipeline's Python file says, with decorators.

    from mainstem.pipeline import Message, function, message, read_stream, stream

    read_stream("orders", "id BIGINT, customer STRING, amount DOUBLE", topic="orders", format="json")

    @stream(topic="big-orders", key="customer")
    def big_orders(orders):                      # parameters name streams and tables, of SQL files too
        return orders.where("amount > 1000")     # DataFrames in, a DataFrame out

    @message(source="orders", topic="orders-eu")
    def to_europe(message: Message) -> Message | None:
        return message if message.key == b"eu" else None

    @function("double")
    def vat(amount):                             # SELECT vat(amount) FROM ...
        return amount * 0.19

Decorators only take note; what they are given is checked and run later. Functions stay what they were, so a
test can call them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.parts import Call, Function, Kind, Option, Options, Part, PerMessage, Position, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

F = TypeVar("F", bound=Callable[..., Any])
_noted: list[Part] | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message, as it stands in the log. `topic` is where it goes, once a function has returned it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    topic: str = ""
    partition: int = -1
    offset: int = -1
    timestamp_ms: int = -1

    def to(self, topic: str) -> Message:
        return replace(self, topic=topic)

    def with_value(self, value: bytes | str | None) -> Message:
        return replace(self, value=value.encode() if isinstance(value, str) else value)


def read_stream(name: str, schema: str = "", **options: object) -> None:
    """A topic as a stream; the options are those of CREATE STREAM."""
    at = _caller()
    _note(Source("stream", name, schema, _options(options, at), at))


def read_table(name: str, schema: str = "", **options: object) -> None:
    """Files or a database as a table; the options are those of CREATE TABLE."""
    at = _caller()
    _note(Source("table", name, schema, _options(options, at), at))


def stream(**options: object) -> Callable[[F], F]:
    """The DataFrame that the function returns is written to `topic`; without one it is only a name."""
    return _call("stream", options)


def table(**options: object) -> Callable[[F], F]:
    """The DataFrame that the function returns is written to `path`, in `format`."""
    return _call("table", options)


def view(function: F) -> F:
    """The DataFrame that the function returns gets the function's name."""
    return _call("view", {})(function)


def message(*, source: str, **options: object) -> Callable[[F], F]:
    """The function gets each message of a stream, and returns one, several in a list, or None."""

    def noted(function: F) -> F:
        at = _place(function)
        _note(PerMessage(function.__name__, source, _options(options, at), function, at))
        return function

    return noted


def function(returns: str) -> Callable[[F], F]:
    """SQL can call it by its name; `returns` is the type of what it returns, such as "double"."""

    def noted(function: F) -> F:
        _note(Function(function.__name__, returns, function, _place(function)))
        return function

    return noted


@contextmanager
def noting() -> Iterator[list[Part]]:
    """Collects what is declared meanwhile."""
    global _noted
    before, _noted = _noted, []
    try:
        yield _noted
    finally:
        _noted = before


def _call(kind: Kind, options: dict[str, object]) -> Callable[[F], F]:
    def noted(function: F) -> F:
        at = _place(function)
        inputs = tuple(inspect.signature(function).parameters)
        _note(Call(kind, function.__name__, _options(options, at), inputs, function, at))
        return function

    return noted


def _note(part: Part) -> None:
    if _noted is not None:  # else the file is imported by something else, such as a test
        _noted.append(part)


def _options(given: dict[str, object], at: Position) -> Options:
    return {name.lower(): Option(_text(name, value), at) for name, value in given.items()}


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return ", ".join(str(one) for one in value)
    raise InvalidRequest(f"{name} is a text, a number or a list, not {value!r}")


def _place(function: Callable[..., Any]) -> Position:
    code = function.__code__
    return Position(code.co_filename, code.co_firstlineno, 1)


def _caller() -> Position:
    frame = inspect.stack(0)[2]
    return Position(frame.filename, frame.lineno, 1)
