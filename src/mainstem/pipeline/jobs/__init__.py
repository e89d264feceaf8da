"""Built-in jobs: work that many people need, as a few lines of configuration.

    CREATE JOB archive USING lake WITH (topic = 'orders', path = 'lake/orders');

A job is a module of this folder with one `JOB`; to add one, write it and add its name to KINDS. The module
itself is imported before Spark starts, to check options, so it imports pyspark only inside functions.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mainstem.pipeline.counting import Tally
from mainstem.pipeline.dead_topics import NONE, DeadTopics
from mainstem.pipeline.jobs.lake_options import names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

KINDS = ("lake", "replay", "mirror", "sync", "stats")


@dataclass(frozen=True, slots=True)
class JobOption:
    name: str
    help: str
    required: bool = False
    default: str = ""
    is_path: bool = False  # relative ones begin where the pipeline's file lies


@dataclass(frozen=True, slots=True)
class JobRun:
    """What a job gets to work with. It runs on the driver."""

    spark: SparkSession
    broker: Mapping[str, str]  # `kafka.bootstrap.servers` and the like: options of the source and the sink
    name: str  # of the pipeline's part
    options: Mapping[
        str, str
    ]  # checked: every name is one of the job's, required ones are there, defaults set
    checkpoint: str  # a folder (or URL) of its own, for checkpointLocation; add "/x" for more than one query
    trigger: Mapping[str, Any]  # for DataStreamWriter.trigger(**trigger): all that is there, or every second
    once: bool  # the trigger ends by itself: so must the job's other work
    tally: Tally = field(default_factory=Tally)  # for rows that it writes itself, in `foreachBatch`


@dataclass(frozen=True, slots=True)
class Job:
    """`check` may refuse options (InvalidRequest) without Spark; `start` gives the queries it started.

    Their rows are counted by `counted`, or told to the tally. `dead` says where bad records go. `reads` gives
    the topics of this broker that must be there, out of the option `topic`; `makes` says whether a topic is,
    or may be, one that the job makes.
    """

    help: str
    options: tuple[JobOption, ...]
    start: Callable[[JobRun], list[StreamingQuery]]
    check: Callable[[Mapping[str, str]], None] = lambda options: None
    dead: Callable[[Mapping[str, str]], DeadTopics] = lambda options: NONE
    reads: Callable[[Mapping[str, str]], tuple[str, ...]] = lambda options: names(options.get("topic", ""))
    makes: Callable[[Mapping[str, str], str], bool] = lambda options, topic: False


def job_of(kind: str) -> Job:
    found = importlib.import_module(f"{__name__}.{kind}").JOB
    assert isinstance(found, Job)
    return found
