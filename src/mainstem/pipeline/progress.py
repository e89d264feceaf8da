"""How far a running pipeline is, as plain values that the broker keeps and screens show."""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["starting", "running", "stopping", "stopped", "done", "failed"]


class QueryProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One batch of one query, in Spark's figures."""

    query: str  # the part's name
    batch: int
    at_ms: int
    input_rows: int
    input_rows_per_s: float
    output_rows: int  # -1 where the sink does not say
    output_rows_per_s: float
    batch_ms: int
    lag: int | None = None  # records that are there and were not read yet
    watermark_ms: int | None = None
    late_rows: int = 0  # came after the watermark, and were left out
    state_rows: int = 0
    state_bytes: int = 0


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a pipeline. The newest of a pipeline replaces the older ones."""

    pipeline: str
    run: str  # an id of its own
    state: State
    started_ms: int
    at_ms: int  # when this was said: a running pipeline says so every few seconds
    host: str
    pid: int
    master: str
    files: tuple[str, ...]
    checkpoints: str
    mode: Literal["live", "once", "backfill"] = "live"
    queries: tuple[QueryProgress, ...] = ()  # the last of each
    rows_in: int = 0
    rows_out: int = 0
    error: str = ""
