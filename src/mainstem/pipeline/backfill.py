"""A stretch of history through a pipeline, as batches: nothing waits for a watermark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.client.client import EARLIEST, LATEST, Client
from mainstem.client.cluster import TopicPartition
from mainstem.model.errors import InvalidRequest
from mainstem.pipeline import dead_topics, topics
from mainstem.pipeline.broker_options import source_options
from mainstem.pipeline.checking import Checked
from mainstem.pipeline.dead_topics import NONE
from mainstem.pipeline.dead_watch import DeadWatch, letters
from mainstem.pipeline.frames import Frames, Output, Span, path_of
from mainstem.pipeline.outputs import goes_to_topic, write
from mainstem.pipeline.parts import Call, JobPart, PerMessage, Pipeline, Query, Source
from mainstem.pipeline.progress import DeadLetters
from mainstem.pipeline.settings import elsewhere, has_scheme, listed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mainstem.client.settings import ClientSettings

LOOK_S = 0.3
Report = Callable[[str, int, int], None]  # output, tasks done, tasks known of


@dataclass(frozen=True, slots=True)
class Fill:
    settings: ClientSettings
    span: Span
    suffix: str  # after the names of topics, also of dead letters, and paths; empty: the pipeline's own


@dataclass(frozen=True, slots=True)
class Filled:
    """An output that is written whole."""

    name: str
    rows: int  # -1 if Spark does not tell
    took_ms: int
    dead: tuple[DeadLetters, ...]  # so far, and since the output before


def refuse(pipeline: Pipeline, fill: Fill) -> None:
    """What makes no sense, before Spark starts."""
    refuse_occupied(pipeline, fill)
    jobs = [part.name for part in pipeline.parts if isinstance(part, JobPart)]
    if jobs and len(jobs) == len(pipeline.parts):
        raise InvalidRequest(f"jobs have no backfill of their own: run them ({', '.join(jobs)})")


def rows_between(pipeline: Pipeline, fill: Fill) -> int:
    """How many records the sources have there, about: compaction and markers leave gaps."""
    total = 0
    with Client(fill.settings) as client:
        there = client.cluster().topics
        for part in pipeline.parts:
            is_read = isinstance(part, Source) and part.kind == "stream" and not elsewhere(part.options)
            for name in listed(part.options, "topic") if isinstance(part, Source) and is_read else ():
                if name not in there:
                    continue  # the pipeline makes it
                places = [TopicPartition(name, one.index) for one in client.topic(name).partitions]
                begin = _offsets(client, places, fill.span.from_ms, EARLIEST)
                end = _offsets(client, places, fill.span.to_ms, LATEST)
                total += sum(max(0, end[place] - begin[place]) for place in places)
    return total


def refuse_occupied(pipeline: Pipeline, fill: Fill) -> None:
    """A second backfill into the same names would write everything twice."""
    if not fill.suffix:
        return
    with Client(fill.settings) as client:
        there = client.cluster().topics
        for topic in topics.wanted(pipeline, fill.suffix):
            if topic in there and any(first < end for first, end in client.bounds([topic]).values()):
                raise InvalidRequest(
                    f"topic {topic!r} holds records already: delete it, or use another --suffix"
                )
    for part in pipeline.parts:
        path = path_of(part, pipeline, fill.suffix) if isinstance(part, Query | Call) else None
        if path is not None and not has_scheme(path) and Path(path).exists():
            raise InvalidRequest(f"{path} is there already: delete it, or use another --suffix")


def _offsets(
    client: Client, places: list[TopicPartition], at_ms: int | None, otherwise: int
) -> Mapping[TopicPartition, int]:
    ends = client.offsets(dict.fromkeys(places, otherwise if at_ms is None else at_ms))
    if at_ms is None:
        return {place: found.offset for place, found in ends.items()}
    last = client.offsets(dict.fromkeys(places, LATEST))
    return {place: found.offset if found.offset >= 0 else last[place].offset for place, found in ends.items()}


def run(
    spark: SparkSession, pipeline: Pipeline, checked: Checked, fill: Fill, report: Report
) -> Iterator[Filled]:
    """The outputs, one after the other: each is written when the next is asked for."""
    broker = source_options(fill.settings)
    topics.make(pipeline, fill.settings, fill.suffix)
    frames = Frames(spark, broker, pipeline, fill.span, fill.suffix)
    frames.build(checked)
    for output in frames.outputs:
        _must_be_readable(output, pipeline, fill.suffix)
    named = {part.name: part for part in pipeline.parts}
    dead = {}
    for output in frames.outputs:
        live = dead_topics.of_part(named[output.name], named, checked.inputs, read_again=False)
        dead[output.name] = live.beside(fill.suffix)
    watch = DeadWatch(fill.settings, reduce(or_, dead.values(), NONE.beside(fill.suffix)))
    watch.begin()
    before: dict[str, int] = {}
    try:
        for output in frames.outputs:
            begun_s = time.monotonic()
            with _watched(spark, output.name, report):
                rows = write(output, pipeline, broker, fill.suffix)
            took_ms = int((time.monotonic() - begun_s) * 1000)
            now = before | watch.look(watch.found(dead[output.name]))
            yield Filled(output.name, rows, took_ms, letters(now, before))
            before = now
    finally:
        watch.close()


def _must_be_readable(output: Output, pipeline: Pipeline, suffix: str) -> None:
    """Readers of a folder that a stream writes see only what the stream has noted there."""
    if goes_to_topic(output) or isinstance(output.target, PerMessage):
        return
    path = path_of(output.target, pipeline, suffix)
    if path is not None and not has_scheme(path) and (Path(path) / "_spark_metadata").exists():
        raise InvalidRequest(f"{path} belongs to a stream, and would hide what a backfill adds: use --suffix")


@contextmanager
def _watched(spark: SparkSession, name: str, report: Report) -> Iterator[None]:
    """Reports tasks while the jobs of this output run."""
    context = spark.sparkContext
    over = threading.Event()
    context.setJobGroup(name, name)

    def look() -> None:
        tracker = context.statusTracker()
        while not over.wait(LOOK_S):
            done = known = 0
            for job in tracker.getJobIdsForGroup(name):
                info = tracker.getJobInfo(job)
                for stage in info.stageIds if info is not None else ():
                    found = tracker.getStageInfo(stage)
                    if found is not None:
                        done += found.numCompletedTasks
                        known += found.numTasks
            report(name, done, known)

    thread = threading.Thread(target=look, name="backfill", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    report(name, 1, 1)
