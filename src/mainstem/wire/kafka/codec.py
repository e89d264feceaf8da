"""Decoders and encoders for messages, compiled per class and version on first use.

`decoder(cls, version)` and `encoder(cls, version)` write straight-line Python for that one version
(`generate.py`) and cache what `exec` makes of it. The text of a compiled codec is in `linecache`, so that
a traceback shows it.

Rules a decoder keeps, whatever the bytes say:
- no memory is spent on a length or a count before it is known to fit into the bytes that are there;
- nor on more elements than a request may hold in all, where the caller gives a limit;
- every way to be malformed is one InvalidRequest that names the message, its version and the field. The
  generated text remembers which field each of its lines reads, so the failing line tells the field.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, TypeVar

from mainstem.model.errors import InvalidRequest
from mainstem.wire.kafka.generate import Source, generate_reader, generate_writer
from mainstem.wire.kafka.primitives import Buffer, Malformed
from mainstem.wire.kafka.schema import Message

M = TypeVar("M", bound=Message)
Decoder = Callable[[Buffer, int], tuple[M, int]]
Encoder = Callable[[M, bytearray], None]
Steps = Callable[[M, bytearray], Iterator[None]]

# Answers are believed: nobody sends a client more than it asked for.
_NO_LIMIT = 1 << 62

_decoders: dict[tuple[type[Message], int, int], Decoder[Any]] = {}
_encoders: dict[tuple[type[Message], int], Encoder[Any]] = {}
_steps: dict[tuple[type[Message], int], Steps[Any]] = {}


def decoder(cls: type[M], version: int, most_elements: int = _NO_LIMIT) -> Decoder[M]:
    """The function (buffer, position) -> (message, end) for one version; it raises InvalidRequest.

    `most_elements`: what all arrays of a message together may hold.
    """
    found = _decoders.get((cls, version, most_elements))
    if found is None:
        found = _decoders[cls, version, most_elements] = _compile_decoder(cls, version, most_elements)
    return found


def encoder(cls: type[M], version: int) -> Encoder[M]:
    """The function (message, out) for one version; it appends the message to the bytearray `out`."""
    found = _encoders.get((cls, version))
    if found is None:
        found = _encoders[cls, version] = _compile(generate_writer(cls, version))
    return found


def encoder_in_steps(cls: type[M], version: int) -> Steps[M]:
    """As `encoder`, for messages that take long: whoever iterates over it may do other things in between."""
    found = _steps.get((cls, version))
    if found is None:
        found = _steps[cls, version] = _compile(generate_writer(cls, version, in_steps=True))
    return found


def decode(cls: type[M], version: int, buf: Buffer, pos: int = 0) -> M:
    """Decode one message; bytes after it are ignored, as Kafka does."""
    return decoder(cls, version)(buf, pos)[0]


def encode(message: Message, version: int) -> bytes:
    out = bytearray()
    encoder(type(message), version)(message, out)
    return bytes(out)


def _compile(source: Source) -> Callable[..., Any]:
    text = source.text()
    linecache.cache[source.file] = (len(text), None, text.splitlines(keepends=True), source.file)
    exec(compile(text, source.file, "exec"), source.scope)
    result: Callable[..., Any] = source.scope[source.entry]
    return result


def _compile_decoder(cls: type[M], version: int, most_elements: int) -> Decoder[M]:
    source = generate_reader(cls, version)
    read = _compile(source)
    file, fields, title = source.file, source.fields, f"{cls.__name__} v{version}"

    def decode(buf: Buffer, pos: int) -> tuple[M, int]:
        try:
            result: tuple[M, int] = read(buf, pos, len(buf), [most_elements])
            return result
        except (struct.error, IndexError) as cut:
            field = _failing_field(cut.__traceback__, file, fields)
            raise InvalidRequest(f"{title}: {field}: the bytes end too early") from None
        except UnicodeDecodeError as bad:
            field = _failing_field(bad.__traceback__, file, fields)
            raise InvalidRequest(f"{title}: {field}: not UTF-8") from None
        except Malformed as bad:
            field = _failing_field(bad.__traceback__, file, fields)
            raise InvalidRequest(f"{title}: {field}: {bad}") from None

    return decode


def _failing_field(trace: TracebackType | None, file: str, fields: Sequence[str]) -> str:
    """The field that the innermost failing line of the generated text reads."""
    field = "start"
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            field = fields[trace.tb_lineno - 1]
        trace = trace.tb_next
    return field
