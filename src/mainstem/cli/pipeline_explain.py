"""`mainstem pipeline explain`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainstem.cli.connect import connection_options
from mainstem.cli.groups import examples
from mainstem.cli.output import Column, console_on, emit_record, emit_rows, json_option
from mainstem.cli.pipeline_files import files_argument, hidden, load_checked
from mainstem.client.settings import ClientSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mainstem.pipeline.checking import Checked
    from mainstem.pipeline.parts import Part, Pipeline

COLUMNS = (
    Column("name", "NAME"),
    Column("what", "WHAT"),
    Column("reads", "READS"),
    Column("to", "FROM / TO"),
    Column("columns", "COLUMNS"),
    Column("at", "AT"),
)


@click.command(
    "explain",
    epilog=examples(
        "mainstem pipeline explain orders.sql",
        "mainstem pipeline explain orders.sql --plan     # what Spark makes of it",
    ),
)
@files_argument
@click.option("--plan", is_flag=True, help="Start Spark, and show its plan of each query.")
@click.option("--offline", is_flag=True, help="Do not ask the broker.")
@json_option
@connection_options
def command(
    files: tuple[Path, ...], name: str, plan: bool, offline: bool, as_json: bool, settings: ClientSettings
) -> None:
    """Show what a pipeline is made of: what reads what, where rows come from and go to, which columns."""
    pipeline, checked = load_checked(files, name, None if offline else settings)
    emit_rows([_row(part, checked) for part in checked.order], COLUMNS, as_json=as_json)
    if plan:
        _plans(pipeline, checked, settings, as_json)


def _row(part: Part, checked: Checked) -> dict[str, object]:
    columns = checked.columns.get(part.name.lower())
    return {
        "name": part.name,
        "what": _what(part),
        "reads": ", ".join(checked.inputs[part.name]),
        "to": _place(part),
        "columns": ", ".join(columns) if columns else "",
        "at": f"{part.at.file}:{part.at.line}",
    }


def _what(part: Part) -> str:
    from mainstem.pipeline.parts import Function, Insert, JobPart, PerMessage, Source

    if isinstance(part, JobPart):
        return f"job {part.job}"
    if isinstance(part, Source):
        return f"{part.kind}, read"
    if isinstance(part, Insert):
        return f"insert into {part.into}"
    if isinstance(part, Function):
        return f"function, {part.returns}"
    if isinstance(part, PerMessage):
        return "per message"
    return f"{part.kind}, computed"


def _place(part: Part) -> str:
    from mainstem.pipeline.parts import Function, Insert
    from mainstem.pipeline.settings import text

    if isinstance(part, Insert | Function):
        return ""
    for name in ("topic", "topics", "pattern", "path", "url"):
        if name in part.options:
            return hidden(f"{name} {text(part.options, name)}")
    return ""


def _plans(pipeline: Pipeline, checked: Checked, settings: ClientSettings, as_json: bool) -> None:
    from mainstem.cli.pipeline_run import failure
    from mainstem.pipeline.broker_options import source_options
    from mainstem.pipeline.frames import Frames
    from mainstem.pipeline.session import require_spark, spark_session

    require_spark()
    with console_on(sys.stderr).status("Starting Spark"):
        frames = Frames(spark_session(pipeline.name, quick=True), source_options(settings), pipeline)
        try:
            frames.build(checked)
        except Exception as error:
            raise failure(error) from error
    for output in frames.outputs:
        plan = _plan(output.frame)
        if as_json:
            emit_record({"name": output.name, "plan": plan}, as_json=True)
        else:
            click.echo(f"\n== {output.name} ==\n{plan}")


def _plan(frame: DataFrame) -> str:
    """Optimized. Spark's own `explain` refuses streams that do not run; its optimizer takes them."""
    execution = frame._jdf.queryExecution()
    optimizer = frame._jdf.sparkSession().sessionState().optimizer()
    return str(optimizer.execute(execution.analyzed())).strip()
