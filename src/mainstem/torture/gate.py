"""Threads that work until they are asked to rest, so that what they did can be judged."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence


class Gate:
    """Open: everybody works. Closed: everybody comes to rest, and waits."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open = False
        self._ended = False
        self._resting: set[object] = set()

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def has_ended(self) -> bool:
        return self._ended

    def open(self) -> None:
        with self._changed:
            self._open = True
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._open = False

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def rest(self, worker: object) -> None:
        """By a worker that has nothing under way: returns when the gate opens or all is over."""
        with self._changed:
            self._resting.add(worker)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._open or self._ended)
            self._resting.discard(worker)

    def wait_for_rest(self, workers: Sequence[Worker], timeout_s: float) -> list[Worker]:
        """Once all of them rest or have ended; those that do not by then."""

        def restless() -> list[Worker]:
            return [worker for worker in workers if worker not in self._resting and worker.is_alive()]

        until = time.monotonic() + timeout_s
        with self._changed:
            # Woken by those who rest; one that dies says nothing, hence the short waits.
            while restless() and (left_s := until - time.monotonic()) > 0:
                self._changed.wait(min(left_s, 0.1))
            return restless()


class Worker(threading.Thread):
    """Calls `step` while the gate is open and `settle` when it closes. What it raises ends it."""

    def __init__(self, name: str, gate: Gate, remark: Callable[[str], None]) -> None:
        super().__init__(name=name, daemon=True)
        self.gate = gate
        self._remark = remark

    def run(self) -> None:
        try:
            self.gate.rest(self)
            while not self.gate.has_ended:
                if self.gate.is_open:
                    self.step()
                else:
                    self.settle()
                    self.gate.rest(self)
            self.finish()
        except Exception as error:  # a client that cannot go on is a finding, not the end of the run
            self._remark(f"{self.name} gave up: {type(error).__name__}: {error}")

    def whereabouts(self) -> str:
        """What it is doing right now, innermost call last."""
        frame = sys._current_frames().get(self.ident or 0)
        calls = traceback.extract_stack(frame) if frame is not None else []
        return " > ".join(f"{call.name}:{call.lineno}" for call in calls[3:])

    def step(self) -> None:
        """A little work; returns often, so that a closed gate is noticed."""
        raise NotImplementedError

    def settle(self) -> None:
        """Bring what is under way to its end; the broker is there, or on its way back."""

    def finish(self) -> None:
        """All is over."""
