"""A log without threads: every round and every piece of file work happens when the caller says so.

    hand = LogByHand(MemoryDisk("/data"), "/data", LogOptions(file_bytes=4096))
    hand.log.append_delta(1, b"x", done)
    hand.turn()          # writes the round, tells `done`, then does the file work

The same calls always make the same operations in the same order, which is what crash tests and simulations
need.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from mainstem.kernel.log.log import Log, LogOptions
from mainstem.kernel.log.recover import recover
from mainstem.model.ports import Disk

Replayed = tuple[Any, ...]


class ExecutorByHand(Executor):
    """Keeps work until `run` is called."""

    def __init__(self) -> None:
        self._work: deque[Callable[[], None]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def work() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        self._work.append(work)
        return future

    def run(self) -> None:
        while self._work:
            self._work.popleft()()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if wait and not cancel_futures:
            self.run()
        self._work.clear()


class Replays:
    """Keeps what recovery hands out, in order."""

    reached = None  # every batch by itself

    def __init__(self) -> None:
        self.events: list[Replayed] = []

    def delta(self, section: int, payload: bytes) -> None:
        self.events.append(("delta", section, payload))

    def batch(self, partition: int, batch: memoryview) -> None:
        self.events.append(("batch", partition, bytes(batch)))

    def link(self, partition: int, base: int, last: int) -> None:
        self.events.append(("link", partition, base, last))


class LogByHand:
    """Recovers, opens and drives a log. `failures` are the errors that would have ended the process."""

    def __init__(self, disk: Disk, folder: str, options: LogOptions) -> None:
        self.disk = disk
        replays = Replays()
        recovered = recover(disk, folder, options.file_bytes, replays, lambda: "log")
        self.replayed = replays.events
        self.failures: list[BaseException] = []
        self.housekeeper = ExecutorByHand()
        self.log = Log(
            recovered,
            options,
            post=lambda function, done: function(done),
            on_failure=self.failures.append,
            housekeeper=self.housekeeper,
        )

    def turn(self) -> None:
        """Write all that was appended, tell everyone, do the file work that follows."""
        self.log.run_pending()
        self.housekeeper.run()

    def close(self) -> None:
        self.log.close()
