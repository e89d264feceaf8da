"""Care for queues between publishes and deliveries: limits, expiry of messages, queues that nobody uses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mainstem.broker.queues.queue import Queue, Waits
from mainstem.broker.queues.sizes import Sizes
from mainstem.model.errors import MainstemError
from mainstem.model.logs import get_log
from mainstem.model.ports import Clock

events = get_log(__name__)

# A timer is set at most so far ahead; then it is looked at again.
MAX_SLEEP_S = 3600.0


class QueueCare:
    def __init__(self, clock: Clock, delete: Callable[[Queue, str], Awaitable[object]]) -> None:
        self._clock = clock
        self._delete = delete
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[object]] = set()
        self.sizes = Sizes()

    def take_on(self, queue: Queue) -> None:
        """A queue was made, or was there at the start, or was declared again."""
        if queue.needs_care:
            queue.watch()
            queue.wake()
        self.used(queue)

    def look_after(self, queue: Queue) -> None:
        if queue.is_limited:
            self._drop_what_is_too_much(queue)
        if queue.may_expire:
            self._drop_expired(queue)

    # --- limits ----------------------------------------------------------------------------------

    def _drop_what_is_too_much(self, queue: Queue) -> None:
        options = queue.options
        if options.max_length is not None and queue.ready > options.max_length:
            queue.drop_head(queue.ready - options.max_length)
        if options.max_bytes is not None:
            try:
                extra = self.sizes.too_many(queue, options.max_bytes)
            except Waits as wait:
                wait.until.add_done_callback(lambda _: queue.wake())
                return
            if extra:
                queue.drop_head(extra)

    # --- expiry of messages ----------------------------------------------------------------------

    def _drop_expired(self, queue: Queue) -> None:
        if queue.expiry is not None:
            queue.expiry.cancel()
            queue.expiry = None
        try:
            due_ms = queue.drop_expired()
        except Waits as wait:
            wait.until.add_done_callback(lambda _: queue.wake())
            return
        if due_ms is not None:
            wait_s = min(max(due_ms - self._clock.now_ms(), 0) / 1000 + 0.001, MAX_SLEEP_S)
            queue.expiry = self._loop.call_later(wait_s, queue.wake)

    # --- queues that nobody uses -----------------------------------------------------------------

    def used(self, queue: Queue) -> None:
        """Somebody consumes, asks or declares: the time until it expires begins anew."""
        if queue.unused_timer is not None:
            queue.unused_timer.cancel()
            queue.unused_timer = None
        expires_ms = queue.options.expires_ms
        if expires_ms is not None and not queue.consumers:
            queue.unused_timer = self._loop.call_later(expires_ms / 1000, self._expire, queue)

    def unused(self, queue: Queue) -> None:
        if queue.spec.auto_delete:
            self._begin(self._delete(queue, "its last consumer has left"))
        else:
            self.used(queue)

    def _expire(self, queue: Queue) -> None:
        queue.unused_timer = None
        if not queue.consumers:
            self._begin(self._delete(queue, "nobody used it"))

    def _begin(self, work: Awaitable[object]) -> None:
        async def guarded() -> None:
            try:
                await work
            except MainstemError as error:
                events.warning("a queue could not be deleted", why=str(error))

        task: asyncio.Task[object] = self._loop.create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
