"""A plain Python function for each message: what it returns becomes rows for the sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mainstem.pipeline.declare import Message
from mainstem.pipeline.parts import Options
from mainstem.pipeline.settings import text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW = (
    "ARRAY<STRUCT<key: BINARY, value: BINARY, topic: STRING, "
    "headers: ARRAY<STRUCT<key: STRING, value: BINARY>>, timestamp: TIMESTAMP>>"
)


def per_message(raw: DataFrame, function: Callable[[Message], Any], options: Options) -> DataFrame:
    """Messages that the function does not send elsewhere go to the option `topic`."""
    from pyspark.sql import functions

    topic = text(options, "topic")
    call = functions.udf(_caller(function, topic), ROW, useArrow=False)
    names = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
    rows = raw.select(functions.explode(call(*[functions.col(name) for name in names])).alias("row"))
    return rows.select("row.*")


def _caller(function: Callable[[Message], Any], topic: str) -> Callable[..., list[tuple[Any, ...]]]:
    def call(
        key: bytearray | None,
        value: bytearray | None,
        headers: list[Any] | None,
        source: str,
        partition: int,
        offset: int,
        timestamp: Any,
    ) -> list[tuple[Any, ...]]:
        message = Message(
            None if key is None else bytes(key),
            None if value is None else bytes(value),
            tuple((name, None if held is None else bytes(held)) for name, held in headers or ()),
            source,
            partition,
            offset,
            round(timestamp.timestamp() * 1000),
        )
        try:
            return [_row(made, source, topic, timestamp) for made in _messages(function(message))]
        except Exception as error:
            where = f"{function.__name__}, with offset {offset} of partition {partition} of {source}"
            raise RuntimeError(f"{where}: {type(error).__name__}: {error}") from error

    return call


def _messages(made: Any) -> Iterator[Message]:
    for one in made if isinstance(made, list | tuple) else () if made is None else (made,):
        if not isinstance(one, Message):
            raise TypeError(f"a function of messages returns Message, a list of them, or None; not {one!r}")
        yield one


def _row(made: Message, source: str, topic: str, timestamp: Any) -> tuple[Any, ...]:
    target = topic if made.topic in ("", source) else made.topic
    if not target:
        raise ValueError("this message has nowhere to go: give the decorator a topic, or use message.to(...)")
    value = made.value.encode() if isinstance(made.value, str) else made.value
    if made.timestamp_ms >= 0 and made.timestamp_ms != round(timestamp.timestamp() * 1000):
        timestamp = datetime.fromtimestamp(made.timestamp_ms / 1000, UTC)
    return made.key, value, target, list(made.headers), timestamp
