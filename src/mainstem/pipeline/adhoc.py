"""An ad-hoc query before Spark: the topics it reads, which of their columns, and what is wrong with it. Pure.

Tables of the query are topics. A row has the fields of the record's value, or `key` and `value` as text where
values are no JSON objects, and what else a record knows, under names that begin with `_`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from sqlglot import exp, parse_one
from sqlglot.errors import ParseError
from sqlglot.tokens import TokenType

from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.dialect import Text, parse_select, position_of, tokens_of
from mainstem.pipeline.functions import spark_functions, unknown_functions
from mainstem.pipeline.names import tables_of, unknown_columns
from mainstem.pipeline.parts import PipelineError, Position

# It warns of what it does not know; Spark decides about that.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

RECORD = ("_key", "_partition", "_offset", "_timestamp")  # part of `*`
ON_DEMAND = ("_value", "_topic", "_headers")  # where the query names them
_TEXT_FIELDS = {"key": "STRING", "value": "STRING"}
_BEGIN = Position("query", 1, 1)
_WORD = re.compile(r"`([^`]+)`|([\w.]+)")


class QueryError(InvalidRequest):
    """Says line and column, and shows the line with a mark under the place."""

    def __init__(self, query: str, at: Position, what: str) -> None:
        line = query.splitlines()[at.line - 1] if query.strip() else ""
        # Tabs stay, so that the mark stands below the same place.
        mark = "".join("\t" if c == "\t" else " " for c in line[: at.column - 1]) + "^"
        super().__init__(f"line {at.line}, column {at.column}: {what}\n  {line}\n  {mark}")
        self.at = at


@dataclass(frozen=True, slots=True)
class TopicColumns:
    """What is known of a topic's rows. `fields` are those of the values, with Spark's types.

    `misfits` are values, of those `seen`, that are no JSON objects among others that are.
    """

    topic: str
    format: Literal["json", "text"]
    fields: Mapping[str, str]
    misfits: int = 0
    seen: int = 0

    @property
    def all(self) -> tuple[str, ...]:
        taken = {name.lower() for name in self.fields}
        return (*self.fields, *(name for name in (*RECORD, *ON_DEMAND) if name not in taken))


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What of a topic is read: fields of values, and `record` columns, both in the order of the rows."""

    topic: str
    format: Literal["json", "text"]
    fields: Mapping[str, str]
    record: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parsed:
    query: str  # one statement, without what ends it
    tree: exp.Query
    tables: Mapping[str, exp.Table]

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(self.tables)


def text_columns(topic: str) -> TopicColumns:
    return TopicColumns(topic, "text", _TEXT_FIELDS)


def parse_ddl(topic: str, ddl: str) -> TopicColumns:
    """`id BIGINT, at TIMESTAMP`."""
    wrong = InvalidRequest(
        f"{topic}: {ddl.strip()!r} are no columns: write them as in 'id BIGINT, name STRING'"
    )
    try:
        table = parse_one(f"CREATE TABLE t ({ddl})", read="spark")
    except ParseError:
        raise wrong from None
    parts = table.this.expressions if isinstance(table.this, exp.Schema) else []
    fields = {one.name: one.kind.sql("spark") for one in parts if isinstance(one, exp.ColumnDef) and one.kind}
    if not fields or len(fields) != len(parts):
        raise wrong
    return TopicColumns(topic, "json", fields)


def parse(query: str) -> Parsed:
    """One SELECT; what sqlglot does not understand is an error."""
    text = Text(query, _BEGIN)
    try:
        tokens = tokens_of(text)
        ends = [place for place, token in enumerate(tokens) if token.token_type == TokenType.SEMICOLON]
        first = ends[0] if ends else len(tokens)
        if first == 0:
            raise PipelineError(_BEGIN, "there is no query")
        rest = [token for token in tokens[first:] if token.token_type != TokenType.SEMICOLON]
        if rest:
            raise PipelineError(text.at(rest[0].start), "one query at a time")
        tree = parse_select(tokens[:first], text)
    except PipelineError as error:
        raise QueryError(query, error.at, error.what) from None
    if ends:
        query = query[: tokens[first].start]
    return Parsed(query, tree, tables_of(tree))


def named_topics(query: str, topics: Iterable[str]) -> tuple[str, ...]:
    """For a query that could not be parsed: the topics whose names stand in it."""
    words = {quoted or plain for quoted, plain in _WORD.findall(query)}
    return tuple(name for name in topics if name in words)


def check_topics(parsed: Parsed, topics: Collection[str]) -> None:
    """Each table must be a topic that is there, spelt so that Spark takes it for one name."""
    for name, table in parsed.tables.items():
        at = position_of(table.parts[0], Text(parsed.query, _BEGIN))
        if name not in topics:
            raise QueryError(parsed.query, at, f"there is no topic {name!r}{did_you_mean(name, topics)}")
        if len(table.parts) > 1:
            what = f"a name with dots stands in backticks: `{name}`"
            raise QueryError(parsed.query, at, what)
    by_lower: dict[str, str] = {}
    for name in parsed.tables:
        other = by_lower.setdefault(name.lower(), name)
        if other != name:
            raise InvalidRequest(f"{other!r} and {name!r} differ in case only, which SQL does not see")


def check_functions(parsed: Parsed) -> None:
    """The first one that this Spark certainly has not."""
    known = spark_functions({})
    wrong = unknown_functions(parsed.tree, Text(parsed.query, _BEGIN), known.names)
    for error in wrong if not known.may_have_more else ():
        raise QueryError(parsed.query, error.at, error.what)


def needs_backticks(query: str, topics: Iterable[str]) -> str | None:
    """A topic whose name is no word of SQL and stands in the query as if it were."""
    bare = re.sub(r"`[^`]*`|'[^']*'", " ", query)
    odd = (name for name in topics if not re.fullmatch(r"\w+", name))
    return next((name for name in odd if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", bare)), None)


def check_columns(parsed: Parsed, known: Mapping[str, TopicColumns]) -> None:
    """The first column that is certainly not there."""
    columns = {name.lower(): one.all for name, one in known.items()}
    for error in unknown_columns(parsed.tree, columns, Text(parsed.query, _BEGIN)):
        lists = "; ".join(f"{name} has {', '.join(one.fields)}" for name, one in known.items())
        raise QueryError(parsed.query, error.at, f"{error.what}\n  {lists}")


def plan(parsed: Parsed, known: Mapping[str, TopicColumns]) -> tuple[TopicPlan, ...]:
    """Only the columns that the query names; where several topics have one, all of them read it."""
    named = {one.name.lower() for one in parsed.tree.find_all(exp.Identifier)}
    return tuple(
        _plan(known[name], None if _takes_all(parsed.tree) else named, named)
        for name in parsed.tables
        if name in known
    )


def plan_all(known: Iterable[TopicColumns]) -> tuple[TopicPlan, ...]:
    """Of a query that could not be parsed."""
    return tuple(_plan(one, None, {*ON_DEMAND}) for one in known)


def _plan(topic: TopicColumns, wanted: set[str] | None, named: set[str]) -> TopicPlan:
    """`wanted` None: whatever `*` stands for, and the others if they are named."""
    fields = {name: kind for name, kind in topic.fields.items() if wanted is None or name.lower() in wanted}
    record = []
    for name in topic.all[len(topic.fields) :]:
        in_star = name in RECORD and not (name == "_key" and "key" in topic.fields)
        if name in named or (wanted is None and in_star):
            record.append(name)
    return TopicPlan(topic.topic, topic.format, fields, tuple(record))


def _takes_all(tree: exp.Query) -> bool:
    """Whether columns are taken without being named: by `*`, and by what goes by all of them."""
    if any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
        return True
    natural = any(join.args.get("method") == "NATURAL" for join in tree.find_all(exp.Join))
    return natural or tree.find(exp.Pivot) is not None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
