"""How far a running pipeline is, as plain values that the broker keeps and screens show."""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["starting", "running", "stopping", "stopped", "done", "failed"]


class DeadLetters(msgspec.Struct, frozen=True, kw_only=True):
    """What came to a topic of records that could not be read: from this run or anybody else, as told by where
    the topic ends. -1 if that was not told."""

    topic: str
    records: int  # since the run began
    last: int  # since the batch of the same query that was told of before


class QueryProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One batch of one query, in Spark's figures; of a backfill, all that one output is made of."""

    query: str  # the part's name
    batch: int
    at_ms: int
    input_rows: int  # -1 where nobody counts: in a backfill
    input_rows_per_s: float
    output_rows: int  # -1 where nobody can tell
    output_rows_per_s: float
    batch_ms: int
    lag: int | None = None  # records that are there and were not read yet
    watermark_ms: int | None = None
    late_rows: int = 0  # came after the watermark, and were left out
    state_rows: int = 0
    state_bytes: int = 0
    dead: tuple[DeadLetters, ...] = ()  # of topics that got some


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
    rows_in: int = 0  # -1 as long as that is not known
    rows_out: int = 0  # the same, and if it is not known of one batch
    dead: tuple[DeadLetters, ...] = ()  # of all queries, each topic once
    error: str = ""
