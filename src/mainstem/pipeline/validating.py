"""Everything that can be said about a pipeline before Spark starts, in one call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from mainstem.client.settings import ClientSettings
from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.checking import Checked, Surroundings, check, hint, written_topics
from mainstem.pipeline.ddl import WrongDdl, wrong_columns, wrong_type
from mainstem.pipeline.dialect import text_of
from mainstem.pipeline.functions import Functions, spark_functions
from mainstem.pipeline.jobs.lake_folder import Lake
from mainstem.pipeline.jobs.lake_options import local_folder
from mainstem.pipeline.names import Columns
from mainstem.pipeline.parts import (
    Call,
    Function,
    Insert,
    JobPart,
    Part,
    Pipeline,
    PipelineError,
    PipelineErrors,
    Position,
    Query,
    Source,
)
from mainstem.pipeline.schemas import Schemas
from mainstem.pipeline.settings import below, listed, text


def validate(
    pipeline: Pipeline, settings: ClientSettings | None, spark: Mapping[str, str] | None = None
) -> Checked:
    """Raises PipelineErrors. Without `settings` the broker is not asked. `spark` are settings of Spark's."""
    schemas = Schemas(pipeline, settings, written_topics(pipeline) | _written_paths(pipeline))
    topics = schemas.topics()
    functions = spark_functions(spark or {})
    columns: dict[str, Columns] = {}
    wrong: list[PipelineError] = [*_missing_lakes(pipeline)]
    for part in pipeline.parts:
        mistake = _wrong_ddl(part, functions)
        if mistake is not None:
            wrong.append(mistake)
        if mistake is not None or not isinstance(part, Source) or not _can_be_read(part, topics):
            continue
        try:
            columns[part.name] = schemas.columns(part)
        except PipelineError as error:
            wrong.append(error)
    try:
        checked = check(pipeline, Surroundings(columns, topics, functions))
    except PipelineErrors as errors:
        raise PipelineErrors([*wrong, *errors.all]) from None
    if wrong:
        raise PipelineErrors(wrong)
    return checked


def _can_be_read(part: Source, topics: frozenset[str] | None) -> bool:
    """A missing topic is told elsewhere, with what was meant."""
    return part.kind == "table" or topics is None or set(listed(part.options, "topic")) <= topics


def _written_paths(pipeline: Pipeline) -> set[str]:
    inserted = {part.into.lower() for part in pipeline.parts if isinstance(part, Insert)}
    return {
        text(part.options, "path")
        for part in pipeline.parts
        if isinstance(part, Query | Call) or (isinstance(part, Source) and part.name.lower() in inserted)
    } - {""}


# --- types -----------------------------------------------------------------------------------------


def _wrong_ddl(part: Part, functions: Functions) -> PipelineError | None:
    """A Spark that may have more functions than we know may have more types too."""
    ddl, wrong = "", None
    if isinstance(part, Source) and part.schema:
        ddl, wrong = part.schema, wrong_columns(part.schema, may_have_more=functions.may_have_more)
    elif isinstance(part, Function) and isinstance(part.returns, str) and not functions.may_have_more:
        ddl, wrong = part.returns, wrong_type(part.returns)
    if wrong is None:
        return None
    return PipelineError(_place(part.at, ddl, wrong), f"{part.name}: {wrong}")


def _place(at: Position, ddl: str, wrong: WrongDdl) -> Position:
    """Within the DDL, as it stands in the file after `at`; `at` if Python has put it together."""
    try:
        content = Path(at.file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return at
    begin = sum(len(line) + 1 for line in content.split("\n")[: at.line - 1]) + at.column - 1
    found = re.compile(rf"[(\"']\s*({re.escape(ddl)})").search(content, begin)
    return text_of(at.file, content).at(found.start(1) + wrong.offset) if found else at


# --- lakes -----------------------------------------------------------------------------------------


def _missing_lakes(pipeline: Pipeline) -> Iterator[PipelineError]:
    """What is to be replayed is there, or a job of the same pipeline archives it."""
    jobs = [part for part in pipeline.parts if isinstance(part, JobPart) and text(part.options, "path")]
    made = {_lake_of(part, pipeline): text(part.options, "path") for part in jobs if part.job == "lake"}
    for part in jobs:
        lake = _lake_of(part, pipeline) if part.job == "replay" else None
        if lake is not None and lake not in made and not Lake(str(lake)).exists:
            meant = hint(text(part.options, "path"), made.values())
            what = f"{lake} is not a lake: the job lake has written nothing there{meant}"
            yield PipelineError(part.options["path"].at, what)


def _lake_of(part: JobPart, pipeline: Pipeline) -> Path | None:
    try:
        return Path(local_folder("path", below(pipeline.folder, text(part.options, "path")))).resolve()
    except InvalidRequest:
        return None  # told with the job's options
