"""One run of a pipeline on the driver: queries are started and watched; the caller's loop drives it.

run = Run(pipeline, checked, plan)
run.start(spark)
while run.is_going():
    ... run.status() ...
    run.step()
run.end()
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from mainstem.pipeline import topics
from mainstem.pipeline.book_progress import progress_of
from mainstem.pipeline.broker_options import source_options
from mainstem.pipeline.checking import Checked, job_options
from mainstem.pipeline.frames import Frames, Output
from mainstem.pipeline.jobs import JobRun, job_of
from mainstem.pipeline.outputs import COUNTED, LIVE_TRIGGER, refuse_foreign_folders, start
from mainstem.pipeline.parts import JobPart, Pipeline
from mainstem.pipeline.progress import QueryProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from mainstem.client.settings import ClientSettings


TOO_BUSY = "Python worker failed to connect back"
RETRIES = 5


@dataclass(frozen=True, slots=True)
class Plan:
    settings: ClientSettings
    checkpoints: str  # a folder or URL; each query gets its own below it
    once: bool = False


@dataclass(slots=True)
class Watched:
    """A query that runs, and what was seen of it."""

    name: str
    query: StreamingQuery
    seen: str = ""  # when the last batch began that was told of
    last: QueryProgress | None = None
    rows_in: int = 0
    rows_out: int = 0
    again: Callable[[], StreamingQuery | None] | None = None  # starts it once more
    failures: int = 0


class Run:
    def __init__(self, pipeline: Pipeline, checked: Checked, plan: Plan) -> None:
        self.pipeline = pipeline
        self._checked = checked
        self._plan = plan
        self._broker: Mapping[str, str] = source_options(plan.settings)
        self._waves: list[list[Output | JobPart]] = []
        self.watched: list[Watched] = []
        self._spark: SparkSession | None = None

    def start(self, spark: SparkSession) -> None:
        """The first queries run when this returns. Live ones start at once, others after what they read."""
        self._spark = spark
        topics.make(self.pipeline, self._plan.settings)
        frames = Frames(spark, self._broker, self.pipeline)
        frames.build(self._checked)
        refuse_foreign_folders(frames.outputs, self.pipeline, self._plan.checkpoints)
        jobs: list[Output | JobPart] = [part for part in self.pipeline.parts if isinstance(part, JobPart)]
        last = max((output.wave for output in frames.outputs), default=-1)
        waves: list[list[Output | JobPart]] = [
            [output for output in frames.outputs if output.wave == wave] for wave in range(last + 1)
        ]
        waves.append(jobs)
        self._waves = waves if self._plan.once else [[one for wave in waves for one in wave]]
        self._next_wave()

    def _next_wave(self) -> None:
        for one in self._waves.pop(0):
            try:
                for query in self._begin(one):
                    again = None if isinstance(one, JobPart) else partial(self._start, one)
                    self.watched.append(Watched(query.name or one.name, query, again=again))
            except Exception as error:
                at = one.at if isinstance(one, JobPart) else one.target.at
                error.add_note(str(at))
                raise

    def _begin(self, one: Output | JobPart) -> Iterator[StreamingQuery]:
        if isinstance(one, JobPart):
            yield from self._begin_job(one)
            return
        query = self._start(one)
        if query is not None:
            yield query

    def _start(self, output: Output) -> StreamingQuery | None:
        return start(output, self.pipeline, self._broker, self._checkpoint(output.name), self._plan.once)

    def _checkpoint(self, name: str) -> str:
        return f"{self._plan.checkpoints}/{name}"

    def _begin_job(self, part: JobPart) -> list[StreamingQuery]:
        checkpoint = self._checkpoint(part.name)
        assert self._spark is not None
        job = job_of(part.job)
        trigger: dict[str, Any] = (
            {"availableNow": True} if self._plan.once else {"processingTime": LIVE_TRIGGER}
        )
        options = job_options(job, part.options, self.pipeline.folder)
        return job.start(
            JobRun(self._spark, self._broker, part.name, options, checkpoint, trigger, self._plan.once)
        )

    # --- while it runs ---------------------------------------------------------------------------

    def step(self) -> list[QueryProgress]:
        """What is new. Raises what ended a query; starts the next wave where one is over."""
        new = self.news()
        for one in self.watched:
            error = None if one.query.isActive else one.query.exception()
            if error is not None and not _started_again(one, error):
                raise error
        if self._waves and not any(one.query.isActive for one in self.watched):
            self._next_wave()
        return new

    def news(self) -> list[QueryProgress]:
        return [progress for one in self.watched for progress in _news(one)]

    def is_going(self) -> bool:
        """A live pipeline ends only when it is told to; one that runs once ends by itself."""
        return bool(self._waves) or any(one.query.isActive for one in self.watched)

    def end(self) -> None:
        """Nothing starts any more. All at once: Spark may take long for each."""
        self._waves = []
        with ThreadPoolExecutor(max(1, len(self.watched))) as pool:
            for ended in [pool.submit(one.query.stop) for one in self.watched]:
                ended.result()


def _started_again(one: Watched, error: Exception) -> bool:
    """On a machine that is very busy Spark waits ten seconds for its Python, and gives the query up."""
    one.failures += 1
    if TOO_BUSY not in str(error) or one.again is None or one.failures > RETRIES:
        return False
    query = one.again()
    assert query is not None
    one.query, one.seen = query, ""
    return True


def _news(one: Watched) -> Iterator[QueryProgress]:
    """Spark keeps the last hundred. A number comes again while there is nothing to do, a time never does."""
    for progress in one.query.recentProgress:
        told = json.loads(progress.json)
        if told["timestamp"] <= one.seen:
            continue
        one.seen = told["timestamp"]
        counted = (told.get("observedMetrics") or {}).get(COUNTED)
        if counted:  # Spark does not count what goes into a Python sink
            told["sink"]["numOutputRows"] = counted["rows"]
        one.last = progress_of(told, one.name)
        one.rows_in += one.last.input_rows
        one.rows_out += max(one.last.output_rows, 0)
        yield one.last
