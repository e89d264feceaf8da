"""Everything that can be said about a pipeline before Spark starts, in one call."""

from __future__ import annotations

from collections.abc import Mapping

from mainstem.client.settings import ClientSettings
from mainstem.pipeline.checking import Checked, Surroundings, check, written_topics
from mainstem.pipeline.functions import spark_functions
from mainstem.pipeline.names import Columns
from mainstem.pipeline.parts import Call, Insert, Pipeline, PipelineError, PipelineErrors, Query, Source
from mainstem.pipeline.schemas import Schemas
from mainstem.pipeline.settings import listed, text


def validate(
    pipeline: Pipeline, settings: ClientSettings | None, spark: Mapping[str, str] | None = None
) -> Checked:
    """Raises PipelineErrors. Without `settings` the broker is not asked. `spark` are settings of Spark's."""
    schemas = Schemas(pipeline, settings, written_topics(pipeline) | _written_paths(pipeline))
    topics = schemas.topics()
    columns: dict[str, Columns] = {}
    wrong: list[PipelineError] = []
    for part in pipeline.parts:
        if not isinstance(part, Source) or not _can_be_read(part, topics):
            continue
        try:
            columns[part.name] = schemas.columns(part)
        except PipelineError as error:
            wrong.append(error)
    try:
        checked = check(pipeline, Surroundings(columns, topics, spark_functions(spark or {})))
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
