"""What is wrong with a pipeline, found before Spark starts. Pure: what the outside knows is passed in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.dialect import parse_query, position_of
from mainstem.pipeline.jobs import KINDS, Job, job_of
from mainstem.pipeline.names import Columns, columns_of, tables_of, unknown_columns
from mainstem.pipeline.parts import (
    Call,
    Function,
    Insert,
    JobPart,
    Options,
    Part,
    PerMessage,
    Pipeline,
    PipelineError,
    PipelineErrors,
    Position,
    Query,
    Source,
)
from mainstem.pipeline.settings import below, elsewhere, listed, text, wrong_options

NAME = re.compile(r"[A-Za-z_][\w.-]{0,99}")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Columns of sources by name, where known; topics of the broker, None if it was not asked."""

    columns: Mapping[str, Columns] = field(default_factory=dict)
    topics: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """`order` is one in which everything is made before it is read; `columns` is by name in lower case."""

    order: tuple[Part, ...]
    columns: Mapping[str, Columns]
    inputs: Mapping[str, tuple[str, ...]]  # of each part, by its name


def check(pipeline: Pipeline, around: Surroundings) -> Checked:
    """Raises all that is wrong at once."""
    wrong: list[PipelineError] = [*_wrong_names(pipeline)]
    for part in pipeline.parts:
        wrong += wrong_options(part)
        if isinstance(part, JobPart):
            wrong += _wrong_job(part, pipeline.folder)
    named = {part.name.lower(): part for part in pipeline.parts if not isinstance(part, Insert | Function)}
    inputs: dict[str, tuple[str, ...]] = {}
    for part in pipeline.parts:
        inputs[part.name] = tuple(_inputs(part, named, wrong))
    order = _ordered(pipeline, inputs, wrong)
    wrong += _loops(pipeline, inputs, named)
    columns = _check_columns(order, around, named, wrong)
    wrong += _missing_topics(pipeline, around)
    if wrong:
        raise PipelineErrors(wrong)
    return Checked(order, columns, inputs)


def _wrong_names(pipeline: Pipeline) -> Iterator[PipelineError]:
    """A name is also that of a folder, for the checkpoint."""
    seen: dict[str, Position] = {}
    for part in pipeline.parts:
        if not NAME.fullmatch(part.name):
            yield PipelineError(part.at, f"{part.name!r} is no name: use letters, digits, '_', '-' and '.'")
        first = seen.setdefault(part.name.lower(), part.at)
        if first is not part.at:
            yield PipelineError(part.at, f"{part.name} is there already, at {first}")


def _wrong_job(part: JobPart, folder: str) -> Iterator[PipelineError]:
    if part.job not in KINDS:
        yield PipelineError(part.at, f"there is no job {part.job!r}{hint(part.job, KINDS)}")
        return
    job = job_of(part.job)
    known = [option.name for option in job.options]
    for name, option in part.options.items():
        if name not in known:
            yield PipelineError(option.at, f"{part.job} has no option {name!r}{hint(name, known)}")
    missing = [one.name for one in job.options if one.required and one.name not in part.options]
    if missing:
        yield PipelineError(part.at, f"{part.job} needs {', '.join(missing)}")
        return
    try:
        job.check(job_options(job, part.options, folder))
    except InvalidRequest as error:
        yield PipelineError(part.at, str(error))


def job_options(job: Job, given: Options, folder: str) -> dict[str, str]:
    found = {one.name: text(given, one.name, one.default) for one in job.options}
    paths = [one.name for one in job.options if one.is_path and found[one.name]]
    return found | {name: below(folder, found[name]) for name in paths}


# --- what reads what -------------------------------------------------------------------------------


def _inputs(part: Part, named: Mapping[str, Part], wrong: list[PipelineError]) -> Iterator[str]:
    """Names of other parts, as they are declared."""
    if isinstance(part, Query | Insert):
        tree, source = parse_query(part.query, part.query_at)
        for name, table in tables_of(tree).items():
            if name.lower() in named and not isinstance(named[name.lower()], JobPart):
                yield named[name.lower()].name
            else:
                what = f"there is no stream or table {name!r}{hint(name, _readable(named))}"
                wrong.append(PipelineError(position_of(table, source), what))
    elif isinstance(part, Call | PerMessage):
        for name in part.inputs if isinstance(part, Call) else (part.source,):
            read = named.get(name.lower())
            if read is not None:
                yield read.name
                if isinstance(part, PerMessage) and not _has_messages(read):
                    what = f"a function of messages reads a stream with a topic; {name} is none"
                    wrong.append(PipelineError(part.at, what))
            else:
                what = f"there is no stream or table {name!r}{hint(name, _readable(named))}"
                wrong.append(PipelineError(part.at, what))
    if isinstance(part, Insert):
        target = named.get(part.into.lower())
        if target is None:
            what = f"there is no stream or table {part.into!r}{hint(part.into, _readable(named))}"
            wrong.append(PipelineError(part.at, what))
        elif not isinstance(target, Source):
            wrong.append(PipelineError(part.at, f"{part.into} is made by its own SELECT, at {target.at}"))


def _has_messages(part: Part) -> bool:
    is_stream = isinstance(part, Source | Query | Call) and part.kind == "stream"
    return is_stream and bool({"topic", "pattern"} & set(getattr(part, "options", ())))


def _readable(named: Mapping[str, Part]) -> list[str]:
    return [part.name for part in named.values() if not isinstance(part, JobPart)]


def _ordered(
    pipeline: Pipeline, inputs: Mapping[str, tuple[str, ...]], wrong: list[PipelineError]
) -> tuple[Part, ...]:
    by_name = {part.name: part for part in pipeline.parts}
    done: dict[str, Part] = {}
    path: list[str] = []

    def visit(part: Part) -> None:
        if part.name in done:
            return
        if part.name in path:
            circle = " -> ".join([*path[path.index(part.name) :], part.name])
            wrong.append(PipelineError(part.at, f"these read each other in a circle: {circle}"))
            return
        path.append(part.name)
        for name in inputs[part.name]:
            visit(by_name[name])
        path.pop()
        done[part.name] = part

    for part in pipeline.parts:
        visit(part)
    return tuple(done.values())


def _loops(
    pipeline: Pipeline, inputs: Mapping[str, tuple[str, ...]], named: Mapping[str, Part]
) -> Iterator[PipelineError]:
    """What writes a topic that it reads would never come to an end."""
    for part in pipeline.parts:
        target = named.get(part.into.lower()) if isinstance(part, Insert) else part
        if isinstance(part, Source | JobPart | Function) or target is None:
            continue
        topic = _topic(target)
        if topic and topic in _topics_read(part.name, inputs, named):
            yield PipelineError(part.at, f"{part.name} writes topic {topic!r}, which it also reads")


def _topics_read(name: str, inputs: Mapping[str, tuple[str, ...]], named: Mapping[str, Part]) -> set[str]:
    found: set[str] = set()
    seen: set[str] = set()
    waiting = [*inputs[name]]
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        part = named[one.lower()]
        if isinstance(part, Source):
            found |= set(listed(part.options, "topic"))
        elif _topic(part):
            found.add(_topic(part))
        waiting += inputs.get(part.name, ())
    return found


def _topic(part: Part) -> str:
    is_written = isinstance(part, Source | Query | Call | PerMessage)
    return text(part.options, "topic") if is_written and hasattr(part, "options") else ""


# --- columns ---------------------------------------------------------------------------------------


def _check_columns(
    order: tuple[Part, ...], around: Surroundings, named: Mapping[str, Part], wrong: list[PipelineError]
) -> dict[str, Columns]:
    known: dict[str, Columns] = {}
    for part in order:
        columns: Columns = None
        if isinstance(part, Source):
            columns = around.columns.get(part.name)
        elif isinstance(part, Query | Insert):
            tree, source = parse_query(part.query, part.query_at)
            wrong += unknown_columns(tree, known, source)
            columns = columns_of(tree, known)
        if isinstance(part, Insert):
            target = named.get(part.into.lower())
            options = target.options if isinstance(target, Source) else {}
            wrong += _named_columns(options, ("key", "partition_by"), columns)
            continue
        known[part.name.lower()] = columns
        if isinstance(part, Source):
            wrong += _named_columns(part.options, ("timestamp", "deduplicate"), columns)
        elif isinstance(part, Query):
            names = ("key", "timestamp", "deduplicate", "partition_by")
            wrong += _named_columns(part.options, names, columns)
    return known


def _named_columns(options: Options, names: tuple[str, ...], columns: Columns) -> Iterator[PipelineError]:
    if columns is None:
        return
    there = {column.lower() for column in columns}
    for name in names:
        for column in listed(options, name):
            if column.lower() not in there:
                what = f"{name} names no column: {column!r}{hint(column, columns)}"
                yield PipelineError(options[name].at, what)


# --- topics ----------------------------------------------------------------------------------------


def written_topics(pipeline: Pipeline) -> set[str]:
    """Those that the pipeline makes itself, so they need not be there yet."""
    inserted = {part.into.lower() for part in pipeline.parts if isinstance(part, Insert)}
    found = set()
    for part in pipeline.parts:
        is_written = isinstance(part, Query | Call | PerMessage) or part.name.lower() in inserted
        if is_written and not isinstance(part, Insert | JobPart | Function):
            found.add(text(part.options, "topic"))
    return found - {""}


def _missing_topics(pipeline: Pipeline, around: Surroundings) -> Iterator[PipelineError]:
    if around.topics is None:
        return
    there = around.topics | written_topics(pipeline)
    for part in pipeline.parts:
        if isinstance(part, Source) and part.kind == "stream" and not elsewhere(part.options):
            for topic in listed(part.options, "topic"):
                if topic not in there:
                    what = f"the broker has no topic {topic!r}{hint(topic, there)}"
                    yield PipelineError(part.options["topic"].at, what)


def hint(word: str, known: object) -> str:
    assert hasattr(known, "__iter__")
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
