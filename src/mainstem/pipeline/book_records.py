"""What the book holds, as values and as JSON.

topic           key             value
__pipelines     NAME            RunStatus: how the newest run of that pipeline is
__pipelines     NAME/stop       StopRequest
__pipeline_log  NAME            Event: a state change, a line of a log, a batch
"""

from __future__ import annotations

from typing import Literal, TypeVar

import msgspec

from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.progress import QueryProgress, RunStatus, State

STATUS_TOPIC = "__pipelines"
LOG_TOPIC = "__pipeline_log"
DAY_MS = 86_400_000
# Whose clock: the broker's, so that a machine with a wrong one loses nothing to retention.
STATUS_CONFIGS = {
    "cleanup.policy": "compact",
    "max.compaction.lag.ms": str(3_600_000),
    "message.timestamp.type": "LogAppendTime",
}
LOG_CONFIGS = {
    "cleanup.policy": "delete",
    "retention.ms": str(7 * DAY_MS),
    "retention.bytes": str(1 << 30),
    "message.timestamp.type": "LogAppendTime",
}

LOST_AFTER_MS = 15_000
# Spark may take a minute to end its queries, and a run says little meanwhile.
STOPPING_LOST_AFTER_MS = 120_000
MAX_TEXT_CHARS = 8_000  # of a line or an error: the rest of a long trace helps nobody
STOP = "/stop"

Level = Literal["debug", "info", "warning", "error"]
T = TypeVar("T")
_ORDER: dict[State, int] = {
    "starting": 0,
    "running": 1,
    "stopping": 2,
    "stopped": 3,
    "done": 3,
    "failed": 3,
}
Shown = Literal["starting", "running", "stopping", "stopped", "done", "failed", "lost"]


class StopRequest(msgspec.Struct, frozen=True, kw_only=True):
    """To one run: a later one of the same name is not meant."""

    run: str
    at_ms: int


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened in a run; which fields are set depends on `kind`."""

    pipeline: str
    run: str
    at_ms: int
    kind: Literal["state", "log", "progress"]
    level: Level = "info"
    text: str = ""
    state: State | None = None
    progress: QueryProgress | None = None


def is_over(status: RunStatus) -> bool:
    """It has said that it ended."""
    return status.state in ("stopped", "done", "failed")


def is_behind(status: RunStatus, said: RunStatus) -> bool:
    """Of the same run, from before its last change of state."""
    is_same = (status.pipeline, status.run) == (said.pipeline, said.run)
    return is_same and _ORDER[status.state] < _ORDER[said.state]


def is_lost(status: RunStatus, now_ms: int) -> bool:
    """It ought to have said something by now: its process, its machine or the network is gone."""
    if is_over(status):
        return False
    patience_ms = STOPPING_LOST_AFTER_MS if status.state == "stopping" else LOST_AFTER_MS
    return now_ms - status.at_ms > patience_ms


def is_alive(status: RunStatus, now_ms: int) -> bool:
    return not is_over(status) and not is_lost(status, now_ms)


def shown_state(status: RunStatus, now_ms: int) -> Shown:
    return "lost" if is_lost(status, now_ms) else status.state


def total_lag(status: RunStatus) -> int | None:
    """Of all queries that tell theirs."""
    known = [one.lag for one in status.queries if one.lag is not None]
    return sum(known) if known else None


def status_key(pipeline: str) -> bytes:
    if not pipeline or "/" in pipeline:
        raise InvalidRequest(f"{pipeline!r} cannot be a pipeline's name: it must not be empty or hold a /")
    return pipeline.encode()


def stop_key(pipeline: str) -> bytes:
    return status_key(pipeline) + STOP.encode()


def shortened(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]} ..."


def state_event(status: RunStatus) -> Event:
    begun = f"on {status.host}, process {status.pid}, {status.master}" if status.state == "starting" else ""
    return Event(
        pipeline=status.pipeline,
        run=status.run,
        at_ms=status.at_ms,
        kind="state",
        level="error" if status.state == "failed" else "info",
        text=status.error or begun,
        state=status.state,
    )


def read_status(value: bytes | None) -> RunStatus | None:
    """None for what is no status: anybody with the rights may write to a topic."""
    return _read(value, RunStatus)


def read_stop(value: bytes | None) -> StopRequest | None:
    return _read(value, StopRequest)


def read_event(value: bytes | None) -> Event | None:
    return _read(value, Event)


def _read(value: bytes | None, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(value, type=kind) if value is not None else None
    except msgspec.DecodeError:
        return None
