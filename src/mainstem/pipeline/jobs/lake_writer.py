"""Batches into a lake: staged by Spark, published by renames, compacted by exchanging folders. Driver."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mainstem.model.errors import InvalidRequest, NotSupported
from mainstem.model.logs import get_log
from mainstem.pipeline.counting import Tally
from mainstem.pipeline.jobs.lake_compaction import Policy, Sized, choose, parts
from mainstem.pipeline.jobs.lake_folder import Lake, Positions, State, is_data, next_name
from mainstem.pipeline.jobs.lake_rows import (
    Rows,
    Shape,
    cast_to,
    dead_letters,
    partition_columns,
    row_columns,
    rows_of,
)
from mainstem.pipeline.jobs.lake_schema import Schema, as_stored, merge, needs_rewriting
from mainstem.pipeline.jobs.query_id import query_of_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

events = get_log(__name__)

ROWS_PER_FILE = 500_000  # of one batch: fewer files than tasks, if the batch is small
_SPARK_ROW = b"org.apache.spark.sql.parquet.row.metadata"


@dataclass(frozen=True, slots=True)
class Plan:
    shape: Shape
    policy: Policy
    compression: str
    checkpoint: str
    broker: Mapping[str, str]
    dead_letter_topic: str


class Writer:
    """One for each start of the job; called for each batch, in a thread of Spark's."""

    def __init__(self, lake: Lake, plan: Plan, began: State, tally: Tally) -> None:
        self._lake = lake
        self._plan = plan
        self._tally = tally
        self._began = began  # the lake when the query was started
        self._looked_s = 0.0  # when all folders were looked at last; at once, after a start
        self._can_swap = True

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        session = batch.sparkSession
        query = query_of_batch(session)
        session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        session.conf.set("spark.sql.parquet.compression.codec", self._plan.compression)
        with self._lake.locked():
            state = self._lake.recover()
            touched: set[Path] = set()
            if self._is_next(state, query, batch_id):
                positions = state.positions | end_positions(session, self._plan.checkpoint, batch_id)
                state = msgspec.structs.replace(state, query=query, batch=batch_id, positions=positions)
                state = self._write(batch, state)
                touched = {(self._lake.folder / final).parent for _, final in state.moves}
                state = self._lake.publish(state)
            self._tally.wrote(batch_id, state.rows)  # of a batch that is repeated, what it had
            self._compact(session, state, touched)

    def _is_next(self, state: State, query: str, batch_id: int) -> bool:
        if state.query == query:
            if batch_id < state.batch:
                raise InvalidRequest(
                    f"the checkpoint is older than the lake {self._lake.folder}, which has batch "
                    f"{state.batch} already: {batch_id} is late. Start again with a new checkpoint"
                )
            if batch_id > state.batch + 1:  # Spark numbers batches one by one
                raise InvalidRequest(
                    f"the lake {self._lake.folder} is older than the checkpoint: it ends with batch "
                    f"{state.batch}, and {batch_id} comes. Start again with a new checkpoint; the job goes "
                    "on where the lake ends"
                )
            return batch_id > state.batch
        if batch_id > 0:
            raise InvalidRequest(
                f"the checkpoint is not the one that wrote to {self._lake.folder} last: what its earlier "
                "batches wrote is not there. Start again with a new one; the job goes on where the lake ends"
            )
        if state != self._began:
            raise InvalidRequest(f"another job writes to {self._lake.folder}")
        return True

    # --- a batch -----------------------------------------------------------------------------------

    def _write(self, batch: DataFrame, state: State) -> State:
        """To staging; the state then says what is there and where it goes."""
        plan, session = self._plan, batch.sparkSession
        with rows_of(batch, plan.shape, state.fields) as rows:
            columns = self._grow(session, state, row_columns(plan.shape, rows.fields))
            made = partition_columns(plan.shape, [one["name"] for one in rows.fields.get("fields", [])])
            frame = rows.frame.select(
                *cast_to(rows.frame, columns), *(column.alias(name) for name, column in made.items())
            )
            order = [plan.shape.of_record(name) for name in ("topic", "partition", "offset")]
            files = 1 + _count(state.positions, state.held) // ROWS_PER_FILE
            staged = frame.coalesce(files).sortWithinPartitions(*made, *order)
            staged.write.partitionBy(*made).parquet(str(self._lake.staging))
            self._send_bad(rows)
        moves, written = self._moves(state.query, state.batch)
        return msgspec.structs.replace(
            state,
            columns=columns,
            fields=rows.fields,
            rows=written,
            moves=moves,
            format=plan.shape.format,
            partition_by=list(plan.shape.partition_by),
        )

    def _send_bad(self, rows: Rows) -> None:
        if rows.bad is None or rows.seen is None or not rows.seen.get["bad"]:
            return
        dead = dead_letters(rows.bad, self._plan.dead_letter_topic, rows.fields)
        dead.write.format("mainstem").options(**self._plan.broker).mode("append").save()

    def _moves(self, query: str, batch_id: int) -> tuple[list[tuple[str, str]], int]:
        """Where the files of a batch go, and how many rows they hold."""
        from pyarrow import parquet

        moves, rows = [], 0
        staged = (path for path in self._lake.staging.rglob("*") if is_data(path.name))
        for number, path in enumerate(sorted(staged)):
            held = parquet.read_metadata(path).num_rows
            if held:
                rows += held
                target = path.parent.relative_to(self._lake.staging) / next_name(query, batch_id, number)
                moves.append((os.path.relpath(path, self._lake.folder), str(target)))
        return moves, rows

    def _grow(self, session: SparkSession, state: State, columns: Schema) -> Schema:
        """The lake's columns with this batch; older files are rewritten if one of them got wider."""
        grown = merge(state.columns, columns)
        if grown.conflicts:
            raise InvalidRequest(
                f"the lake {self._lake.folder} has other columns: {'; '.join(grown.conflicts)}. "
                "Give the schema it was written with, or another path"
            )
        if grown.widened and state.columns:
            events.event("columns of the lake get wider", columns=grown.widened)
            for leaf in self._lake.leaves():
                self._widen(session, leaf, grown.schema)
        if grown.schema != state.columns:
            self._put_common_metadata(session, grown.schema)
        return grown.schema

    def _put_common_metadata(self, session: SparkSession, columns: Schema) -> None:
        from pyspark.sql.types import StructType

        made = self._lake.workspace() / "columns"
        empty = session.createDataFrame([], StructType.fromJson(columns))
        empty.coalesce(1).write.parquet(str(made))
        (file,) = _data_files(made)
        self._lake.put_common_metadata(file)

    def _widen(self, session: SparkSession, leaf: Path, columns: Schema) -> None:
        narrow: dict[str, list[Path]] = {}
        for file in self._lake.files(leaf):
            stored = _stored_columns(file.path)
            if needs_rewriting(stored, columns):
                narrow.setdefault(json.dumps(stored), []).append(file.path)
        for stored_json, paths in narrow.items():
            self._rewrite(session, leaf, paths, (as_stored(columns, json.loads(stored_json)), columns), 1)

    # --- compaction --------------------------------------------------------------------------------

    def _compact(self, session: SparkSession, state: State, touched: set[Path]) -> None:
        policy, now_s = self._plan.policy, time.time()  # noqa: TID251 - beside times of files
        if not policy.fan_in or not self._can_swap or not state.columns:
            return
        leaves = dict.fromkeys(sorted(touched), False)
        if now_s - self._looked_s >= policy.idle_s:
            self._looked_s = now_s
            leaves = {leaf: self._is_idle(leaf, now_s) for leaf in self._lake.leaves()}
        for leaf, idle in leaves.items():
            sized = [Sized(str(file.path), file.size_bytes) for file in self._lake.files(leaf)]
            chosen = choose(sized, policy, idle=idle)
            if not chosen:
                continue
            try:
                paths = [Path(one.name) for one in chosen]
                both = (state.columns, state.columns)
                self._rewrite(session, leaf, paths, both, parts(chosen, policy))
            except NotSupported as error:
                self._can_swap = False
                events.warning("small files are not compacted", why=str(error))
                return

    def _is_idle(self, leaf: Path, now_s: float) -> bool:
        return all(now_s - file.changed_s >= self._plan.policy.idle_s for file in self._lake.files(leaf))

    def _rewrite(
        self,
        session: SparkSession,
        leaf: Path,
        paths: Sequence[Path],
        columns: tuple[Schema, Schema],  # as they are stored, as they shall be
        files: int,
    ) -> None:
        from pyspark.sql.types import StructType

        stored, wanted = columns
        frame = session.read.schema(StructType.fromJson(stored)).parquet(*map(str, paths))
        order = [self._plan.shape.of_record(name) for name in ("topic", "partition", "offset")]
        rows = frame.select(*cast_to(frame, wanted)).coalesce(files)
        made = self._lake.workspace() / "files"
        rows.sortWithinPartitions(*(name for name in order if name in rows.columns)).write.parquet(str(made))
        self._lake.replace(leaf, paths, _data_files(made))


def end_positions(session: SparkSession, checkpoint: str, batch_id: int) -> Positions:
    """Where a batch ends, as Spark has written down before it began."""
    name = f"{checkpoint.rstrip('/')}/offsets/{batch_id}"
    path = Path(name.removeprefix("file://").removeprefix("file:"))
    if path.exists():
        lines = path.read_text().splitlines()
    else:
        lines = session.read.text(name, wholetext=True).collect()[0][0].splitlines()
    found: Any = json.loads(lines[-1])
    return {topic: {str(index): int(at) for index, at in places.items()} for topic, places in found.items()}


def _count(end: Positions, begin: Positions) -> int:
    return sum(
        at - begin.get(topic, {}).get(index, 0)
        for topic, places in end.items()
        for index, at in places.items()
    )


def _data_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if is_data(path.name))


def _stored_columns(file: Path) -> Schema:
    from pyarrow import parquet

    about = parquet.read_schema(file).metadata or {}
    if _SPARK_ROW not in about:
        raise InvalidRequest(f"{file} was not written by this job")
    found: Schema = json.loads(about[_SPARK_ROW])
    return found
