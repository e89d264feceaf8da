"""How far Spark is, on standard error while it starts and works. Silent where that is no terminal."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mainstem.cli.output import console_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress, TaskID

LOOK_EVERY_S = 0.3


@contextlib.contextmanager
def shown_progress() -> Iterator[Callable[[SparkSession], None]]:
    """Gives what is to be called when Spark has started."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    shown = sys.stderr.isatty()
    ended = threading.Event()
    followers: list[threading.Thread] = []
    with Progress(*columns, console=console_on(sys.stderr), disable=not shown, transient=True) as bar:
        task = bar.add_task("Starting Spark", total=None)

        def follow(spark: SparkSession) -> None:
            bar.update(task, description="Running")
            if shown:
                followers.append(
                    threading.Thread(target=_follow, args=(spark, bar, task, ended), daemon=True)
                )
                followers[-1].start()

        try:
            yield follow
        finally:
            ended.set()
            for follower in followers:
                follower.join()


def _follow(spark: SparkSession, bar: Progress, task: TaskID, ended: threading.Event) -> None:
    """Tasks of the stages that run now; a query has several, one after the other."""
    tracker: Any = spark.sparkContext.statusTracker()
    while not ended.wait(LOOK_EVERY_S):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        stages = [stage for stage in stages if stage is not None]
        total = sum(stage.numTasks for stage in stages)
        done = sum(stage.numCompletedTasks for stage in stages)
        bar.update(task, total=total or None, completed=done)
