"""What is wrong with a pipeline, found before Spark starts. Pure: what the outside knows is passed in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.ddl import RAW, ddl_columns
from mainstem.pipeline.dialect import parse_query, position_of
from mainstem.pipeline.functions import Functions, unknown_functions
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
    """Columns of sources by name, where known; topics of the broker, None if it was not asked; functions that
    Spark has, None if they are not looked at."""

    columns: Mapping[str, Columns] = field(default_factory=dict)
    topics: frozenset[str] | None = None
    functions: Functions | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """`order` is one in which everything is made before it is read; `columns` is by name in lower case."""

    order: tuple[Part, ...]
    columns: Mapping[str, Columns]
    inputs: Mapping[str, tuple[str, ...]]  # of each part, by its name
    after: Mapping[str, tuple[str, ...]]  # of a source, the parts that write its topic
    doubts: tuple[PipelineError, ...] = ()  # what may be wrong, and only Spark can tell


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
    after = _after(pipeline)
    order = _ordered(pipeline, inputs, after, wrong)
    if not wrong:
        wrong += [*_not_fed(pipeline, inputs, named), *_shared_folders(pipeline, named)]
    columns = _check_columns(order, around, named, wrong)
    wrong += _missing_topics(pipeline, around)
    unknown = [*_unknown_functions(pipeline, around)]
    is_certain = around.functions is not None and not around.functions.may_have_more
    if is_certain and not pipeline.has_python:
        wrong += unknown
    if wrong:
        raise PipelineErrors(wrong)
    return Checked(order, columns, inputs, after, tuple(unknown))


def _unknown_functions(pipeline: Pipeline, around: Surroundings) -> Iterator[PipelineError]:
    if around.functions is None:
        return
    own = {part.name.lower() for part in pipeline.parts if isinstance(part, Function)}
    known = around.functions.names | own
    for part in pipeline.parts:
        if isinstance(part, Query | Insert):
            yield from unknown_functions(*parse_query(part.query, part.query_at), known)


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
    pipeline: Pipeline,
    inputs: Mapping[str, tuple[str, ...]],
    after: Mapping[str, tuple[str, ...]],
    wrong: list[PipelineError],
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
        for name in (*inputs[part.name], *after.get(part.name, ())):
            visit(by_name[name])
        path.pop()
        done[part.name] = part

    # Any query may call a function, wherever that is written.
    for part in sorted(pipeline.parts, key=lambda one: not isinstance(one, Function)):
        visit(part)
    return tuple(done.values())


def _after(pipeline: Pipeline) -> dict[str, tuple[str, ...]]:
    """Sources of topics that the pipeline writes itself: they come after what writes them."""
    named = {part.name.lower(): part for part in pipeline.parts if isinstance(part, Source)}
    writers: dict[str, list[str]] = {}
    for part in pipeline.parts:
        target = named.get(part.into.lower()) if isinstance(part, Insert) else part
        is_written = isinstance(part, Insert | Query | Call | PerMessage)
        if is_written and isinstance(target, Source | Query | Call | PerMessage):
            writers.setdefault(text(target.options, "topic"), []).append(part.name)
    writers.pop("", None)
    return {
        part.name: tuple(name for topic in listed(part.options, "topic") for name in writers.get(topic, ()))
        for part in named.values()
        if part.kind == "stream" and not elsewhere(part.options)
    }


def _is_fed(name: str, inputs: Mapping[str, tuple[str, ...]], named: Mapping[str, Part]) -> bool:
    """Whether a stream is among what it reads, or what that reads."""
    part = named.get(name.lower())
    if isinstance(part, Source):
        return part.kind == "stream"
    return isinstance(part, Call) or any(_is_fed(one, inputs, named) for one in inputs.get(name, ()))


def _not_fed(
    pipeline: Pipeline, inputs: Mapping[str, tuple[str, ...]], named: Mapping[str, Part]
) -> Iterator[PipelineError]:
    """Rows of tables alone would be written again at every start."""
    for part in pipeline.parts:
        to_topic = isinstance(part, Query) and part.kind == "stream" and "topic" in part.options
        if (to_topic or isinstance(part, Insert)) and not any(
            _is_fed(one, inputs, named) for one in inputs[part.name]
        ):
            what = "this reads no stream, and would be written again at every start"
            yield PipelineError(part.at, f"{what}: use CREATE TABLE ... AS, or read a stream")


def _shared_folders(pipeline: Pipeline, named: Mapping[str, Part]) -> Iterator[PipelineError]:
    """Spark notes in a folder which batches it holds; of two writers one would lose rows."""
    seen: dict[str, Position] = {}
    for part in pipeline.parts:
        target = named.get(part.into.lower()) if isinstance(part, Insert) else part
        is_written = isinstance(part, Insert | Query | Call)
        if not is_written or not isinstance(target, Source | Query | Call) or target.kind != "table":
            continue
        path = text(target.options, "path").rstrip("/")
        first = seen.setdefault(path, part.at) if path else part.at
        if first is not part.at:
            what = f"{path} is written at {first} already: put both into one SELECT, with UNION ALL"
            yield PipelineError(part.at, what)


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
            unknown = [*unknown_columns(tree, known, source)]
            wrong += unknown
            # What is named wrong comes out under the wrong name: all that is said of it would mislead.
            columns = None if unknown else columns_of(tree, known)
        if isinstance(part, Insert):
            target = named.get(part.into.lower())
            if isinstance(target, Source):
                wrong += _named_columns(target.options, ("key", "partition_by"), columns)
                wrong += _other_columns(part, target, columns)
            continue
        known[part.name.lower()] = _read_again(part, columns)
        if isinstance(part, Source):
            wrong += _named_columns(part.options, ("timestamp", "deduplicate"), columns)
        elif isinstance(part, Query):
            names = ("key", "timestamp", "deduplicate", "partition_by")
            wrong += _named_columns(part.options, names, columns)
    return known


def _read_again(part: Part, columns: Columns) -> Columns:
    """A stream that goes to a topic is read from there, where some formats have columns of their own."""
    if isinstance(part, Query | Call) and part.kind == "stream" and "topic" in part.options:
        return {"text": ("value",), "raw": RAW}.get(text(part.options, "format").lower(), columns)
    return columns


def _other_columns(part: Insert, target: Source, columns: Columns) -> Iterator[PipelineError]:
    """Rows are inserted by the names of their columns."""
    try:
        wanted = ddl_columns(target.schema) if target.schema else None
    except InvalidRequest:
        return  # told where it is declared
    if wanted is None or columns is None:
        return
    there = {name.lower() for name in wanted}
    for name in columns:
        if name.lower() not in there:
            what = f"{target.name} has no column {name!r}{hint(name, wanted)}; columns are matched by name"
            yield PipelineError(part.query_at, what)


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
    for part, topic in _read_topics(pipeline):
        if topic not in there:
            meant = hint(topic, there) or f"; make it with: mainstem topic create {topic}"
            what = f"the broker has no topic {topic!r}{meant}"
            yield PipelineError(part.options["topic"].at, what)


def _read_topics(pipeline: Pipeline) -> Iterator[tuple[Source | JobPart, str]]:
    """What a job makes need not be there for another job. For a stream it must: streams start before jobs."""
    jobs = [
        (part, job_of(part.job)) for part in pipeline.parts if isinstance(part, JobPart) and part.job in KINDS
    ]
    given = [(part, job, job_options(job, part.options, pipeline.folder)) for part, job in jobs]
    for part in pipeline.parts:
        if isinstance(part, Source) and part.kind == "stream" and not elsewhere(part.options):
            yield from ((part, topic) for topic in listed(part.options, "topic"))
    for reader, job, options in given:
        for topic in filter(None, job.reads(options)):
            if not any(_may_make(other, its, topic) for _, other, its in given):
                yield reader, topic


def _may_make(job: Job, options: Mapping[str, str], topic: str) -> bool:
    try:
        return job.makes(options, topic)
    except InvalidRequest:
        return True  # its options are wrong, and told elsewhere: nobody knows


def hint(word: str, known: object) -> str:
    assert hasattr(known, "__iter__")
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
