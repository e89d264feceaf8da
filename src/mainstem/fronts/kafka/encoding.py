"""Large answers, encoded in slices of the loop's time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from mainstem.fronts.kafka.slices import Slices
from mainstem.model.ports import Buffer
from mainstem.wire.kafka.codec import encoder_in_steps
from mainstem.wire.kafka.schema import Message

M = TypeVar("M", bound=Message)
# With fewer elements than this in its largest array an answer is encoded in one go.
LARGE_ANSWER = 200


@dataclass(frozen=True, slots=True)
class Encoded:
    """The body of an answer, as a handler may return it in place of a message."""

    body: Buffer


async def encoded_if_large(message: M, version: int, elements: int) -> M | Encoded:
    """`elements`: how many its largest array has."""
    return await encode_large(message, version) if elements >= LARGE_ANSWER else message


async def encode_large(message: Message, version: int) -> Encoded:
    out = bytearray()
    slices = Slices()
    for _ in encoder_in_steps(type(message), version)(message, out):
        if slices.used_up():
            await slices.rest()
    return Encoded(out)
