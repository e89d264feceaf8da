"""One run of a pipeline on the driver: queries are started and watched; the caller's loop drives it.

run = Run(pipeline, checked, plan)
run.start(spark)
while run.is_going():
    ... run.status() ...
    run.step()
run.end()
run.close()
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import msgspec

from mainstem.pipeline import dead_topics, topics
from mainstem.pipeline.book_progress import is_idle, progress_of, topics_read
from mainstem.pipeline.broker_options import source_options
from mainstem.pipeline.checking import Checked, job_options
from mainstem.pipeline.counting import Tally, added
from mainstem.pipeline.dead_topics import NONE, DeadTopics
from mainstem.pipeline.dead_watch import DeadWatch, letters
from mainstem.pipeline.frames import Frames, Output
from mainstem.pipeline.jobs import Job, JobRun, job_of
from mainstem.pipeline.outputs import LIVE_TRIGGER, refuse_foreign_folders, start
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
    rows_out: int = 0  # -1 if it is not known of one batch
    tally: Tally = field(default_factory=Tally)  # of a job that writes by itself
    dead: DeadTopics = NONE
    topics: set[str] = field(default_factory=set)  # that it has read
    letters: dict[str, int] = field(default_factory=dict)  # by topic, as of its last batch, or its start
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
        self._dead = self._dead_topics()
        self._watch = DeadWatch(plan.settings, reduce(or_, self._dead.values(), NONE))
        self._spark: SparkSession | None = None

    def start(self, spark: SparkSession) -> None:
        """The first queries run when this returns. Live ones start at once, others after what they read."""
        self._spark = spark
        topics.make(self.pipeline, self._plan.settings)
        self._watch.begin()
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

    def _dead_topics(self) -> dict[str, DeadTopics]:
        """By the name of the part that may send records there."""
        named = {part.name: part for part in self.pipeline.parts}
        found = {}
        for part in self.pipeline.parts:
            if isinstance(part, JobPart):
                job = job_of(part.job)
                found[part.name] = job.dead(self._job_options(job, part))
            else:
                found[part.name] = dead_topics.of_part(part, named, self._checked.inputs)
        return found

    def _next_wave(self) -> None:
        for one in self._waves.pop(0):
            try:
                self.watched += self._begin(one)
            except Exception as error:
                at = one.at if isinstance(one, JobPart) else one.target.at
                error.add_note(str(at))
                raise

    def _begin(self, one: Output | JobPart) -> Iterator[Watched]:
        dead, seen = self._dead[one.name], self._watch.seen
        if isinstance(one, JobPart):
            tally = Tally()
            for query in self._begin_job(one, tally):
                yield Watched(query.name or one.name, query, tally=tally, dead=dead, letters={**seen})
            return
        query = self._start(one)
        if query is not None:
            again = partial(self._start, one)
            yield Watched(query.name or one.name, query, dead=dead, letters={**seen}, again=again)

    def _start(self, output: Output) -> StreamingQuery | None:
        return start(output, self.pipeline, self._broker, self._checkpoint(output.name), self._plan.once)

    def _checkpoint(self, name: str) -> str:
        return f"{self._plan.checkpoints}/{name}"

    def _job_options(self, job: Job, part: JobPart) -> dict[str, str]:
        return job_options(job, part.options, self.pipeline.folder)

    def _begin_job(self, part: JobPart, tally: Tally) -> list[StreamingQuery]:
        checkpoint = self._checkpoint(part.name)
        assert self._spark is not None
        job = job_of(part.job)
        trigger: dict[str, Any] = (
            {"availableNow": True} if self._plan.once else {"processingTime": LIVE_TRIGGER}
        )
        return job.start(
            JobRun(
                self._spark,
                self._broker,
                part.name,
                self._job_options(job, part),
                checkpoint,
                trigger,
                self._plan.once,
                tally,
            )
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
        """Batches since it was asked last."""
        new = [(one, [*_news(one)]) for one in self.watched]
        asked = {topic for one, batches in new if batches for topic in one.dead.among(one.topics)}
        records = self._watch.look(asked)
        for one, batches in new:
            if batches:  # what quick batches sent cannot be told apart: the last of them has it
                one.last = batches[-1] = _with_letters(one, batches[-1], records)
        return [progress for _, batches in new for progress in batches]

    def is_going(self) -> bool:
        """A live pipeline ends only when it is told to; one that runs once ends by itself."""
        return bool(self._waves) or any(one.query.isActive for one in self.watched)

    def end(self) -> None:
        """Nothing starts any more. All at once: Spark may take long for each."""
        self._waves = []
        with ThreadPoolExecutor(max(1, len(self.watched))) as pool:
            for ended in [pool.submit(one.query.stop) for one in self.watched]:
                ended.result()

    def close(self) -> None:
        """After the last news."""
        self._watch.close()


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
        one.topics |= topics_read(told)
        # The figure of a number that came while there was nothing to do is that of the batch that follows.
        written = None if is_idle(told) else one.tally.take(told["batchId"])
        one.last = progress_of(told, one.name, written)
        one.rows_in += one.last.input_rows
        one.rows_out = added(one.rows_out, one.last.output_rows)
        yield one.last


def _with_letters(one: Watched, last: QueryProgress, records: Mapping[str, int]) -> QueryProgress:
    own = {topic: records[topic] for topic in one.dead.among(one.topics)}
    found = letters(own, one.letters)
    one.letters |= own
    return msgspec.structs.replace(last, dead=found)
