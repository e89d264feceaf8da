"""What a channel does when a method comes: `handle(channel, method)` gives the answer, or waits for it.

A handler returns the answering frame, None if there is none or the client wants none, or a coroutine of that.
"""

from __future__ import annotations

from mainstem.fronts.amqp.handlers import basic, exchange, modes, queue
from mainstem.fronts.amqp.handlers.kind import Handler

HANDLERS: dict[type, Handler] = {
    **basic.HANDLERS,
    **exchange.HANDLERS,
    **modes.HANDLERS,
    **queue.HANDLERS,
}

__all__ = ["HANDLERS", "Handler"]
