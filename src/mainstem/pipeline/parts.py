"""What a pipeline is made of, as plain values: the parts that its files declare.

CREATE STREAM orders (id BIGINT, ...) WITH (topic = 'orders', ...)      Source, kind "stream"
CREATE TABLE customers WITH (format = 'csv', path = ...)                Source, kind "table"
CREATE STREAM revenue WITH (topic = 'revenue', ...) AS SELECT ...       Query, kind "stream"
CREATE TABLE lake WITH (format = 'parquet', path = ...) AS SELECT ...   Query, kind "table"
CREATE VIEW big AS SELECT ...                                           Query, kind "view"
INSERT INTO out SELECT ...                                              Insert
CREATE JOB archive USING lake WITH (topic = 'orders', path = ...)       JobPart
IMPORT 'functions.py'                                                   the parts of that file
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mainstem.model.errors import InvalidRequest

Kind = Literal["stream", "table", "view"]


@dataclass(frozen=True, slots=True)
class Position:
    """Where something stands in a file; counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class PipelineError(InvalidRequest):
    """Something in a pipeline's files is wrong; the text begins with where."""

    def __init__(self, at: Position, what: str) -> None:
        super().__init__(f"{at}: {what}")
        self.at = at
        self.what = what


class PipelineErrors(InvalidRequest):
    """All that is wrong, in the order of the files."""

    def __init__(self, errors: Iterable[PipelineError]) -> None:
        self.all = sorted(errors, key=lambda one: (one.at.file, one.at.line, one.at.column))
        super().__init__("\n".join(map(str, self.all)))


@dataclass(frozen=True, slots=True)
class Option:
    """One `name = 'value'` of a WITH list; numbers and booleans are kept as text, as Spark wants them."""

    value: str
    at: Position


Options = Mapping[str, Option]  # by name in lower case


@dataclass(frozen=True, slots=True)
class Source:
    """A stream or table that is read from outside: `schema` is DDL, empty where it is to be inferred."""

    kind: Kind
    name: str
    schema: str
    options: Options
    at: Position


@dataclass(frozen=True, slots=True)
class Query:
    """A stream or table that a SELECT makes. `query_at` is where the SELECT begins."""

    kind: Kind
    name: str
    options: Options
    query: str
    query_at: Position
    at: Position


@dataclass(frozen=True, slots=True)
class Insert:
    """More rows for a stream or table that is declared elsewhere; `name` is made up, for its checkpoint."""

    name: str
    into: str
    query: str
    query_at: Position
    at: Position


@dataclass(frozen=True, slots=True)
class JobPart:
    """One of the built-in jobs, by `job` its kind."""

    name: str
    job: str
    options: Options
    at: Position


@dataclass(frozen=True, slots=True)
class Call:
    """A stream or table that a Python function makes of DataFrames, its parameters by name."""

    kind: Kind
    name: str
    options: Options
    inputs: tuple[str, ...]
    function: Callable[..., Any]
    at: Position


@dataclass(frozen=True, slots=True)
class PerMessage:
    """A Python function that is called with each message of a stream, and says what becomes of it."""

    name: str
    source: str
    options: Options
    function: Callable[..., Any]
    at: Position


@dataclass(frozen=True, slots=True)
class Function:
    """A Python function that SQL can call; `returns` is its type in DDL."""

    name: str
    returns: str
    function: Callable[..., Any]
    at: Position


Part = Source | Query | Insert | JobPart | Call | PerMessage | Function


@dataclass(frozen=True, slots=True)
class Pipeline:
    """All parts, in the order of the files. Relative paths in them begin at `folder`.

    `has_python`: a Python file is among them, which may do more than declare parts.
    """

    name: str
    files: tuple[str, ...]
    folder: str
    parts: tuple[Part, ...]
    has_python: bool = False
