"""Which columns a SELECT gives, and whether those it names are there, without asking Spark.

Only what is certain is refused. Columns of a source that nobody knows (None) may be anything, and so may
names that Spark makes up: `window`, fields of a struct, parameters of a lambda.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from mainstem.pipeline.dialect import Text, position_of
from mainstem.pipeline.parts import PipelineError

Columns = tuple[str, ...] | None  # None: unknown
MADE_UP = frozenset({"window", "session_window", "start", "end"})


def tables_of(tree: exp.Query) -> dict[str, exp.Table]:
    """What the query reads, by name as written; not the names that WITH gives."""
    found: dict[str, exp.Table] = {}
    for scope in traverse_scope(tree):
        for source in scope.sources.values():
            if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
                found.setdefault(".".join(part.name for part in source.parts), source)
    return found


def unknown_columns(tree: exp.Query, known: Mapping[str, Columns], text: Text) -> Iterator[PipelineError]:
    """`known` has the columns of every table, by its name in lower case."""
    seen: set[int] = set()
    for scope in traverse_scope(tree):
        visible = _visible(scope, known)
        if any(columns is None for columns in visible.values()):
            continue
        everything = {name.lower() for columns in visible.values() for name in columns or ()}
        aliases = {alias.alias.lower() for alias in scope.expression.find_all(exp.Alias)}
        parameters = _lambda_parameters(scope.expression)
        free = everything | aliases | parameters | MADE_UP | set(visible)  # a table's name is its whole row
        for column in scope.columns:
            if column.parent_select is not scope.expression:
                continue  # of a SELECT within, which has its own turn
            wrong = _wrong(column, visible, free)
            if wrong is None or id(column) in seen:
                continue
            seen.add(id(column))
            at = column.this if column.table.lower() in {"", *visible} else column.args["table"]
            yield PipelineError(position_of(at, text), wrong)


def _wrong(column: exp.Column, visible: Mapping[str, Columns], free: set[str]) -> str | None:
    name, table = column.name, column.table
    if isinstance(column.this, exp.Star) or len(column.parts) > 2:
        return None  # everything, or a field within a field
    if not table:
        return None if name.lower() in free else f"there is no column {name!r}{_hint(name, _names(visible))}"
    if table.lower() in visible:
        columns = visible[table.lower()] or ()
        if name.lower() in {one.lower() for one in columns}:
            return None
        return f"{table} has no column {name!r}{_hint(name, columns)}"
    if table.lower() in free:  # a field of a struct
        return None
    return f"there is no table or column {table!r}{_hint(table, [*visible, *_names(visible)])}"


def columns_of(tree: exp.Query, known: Mapping[str, Columns]) -> Columns:
    """The names of the columns that come out; None where they cannot be told."""
    if isinstance(tree, exp.SetOperation):
        left = tree.left
        return columns_of(left, known) if isinstance(left, exp.Query) else None
    if not isinstance(tree, exp.Select):
        return None
    scopes = [scope for scope in traverse_scope(tree) if scope.expression is tree]
    visible = _visible(scopes[0], known) if scopes else {}
    found: list[str] = []
    for chosen in tree.expressions:
        if chosen.is_star:
            of = [chosen.table.lower()] if isinstance(chosen, exp.Column) else list(visible)
            if getattr(chosen, "args", {}).get("except_") or any(visible.get(name) is None for name in of):
                return None
            found += [column for name in of for column in visible[name] or ()]
        elif chosen.alias_or_name and not isinstance(chosen, exp.Func):
            found.append(chosen.alias_or_name)
        else:
            return None  # an expression without a name: Spark makes one up
    return tuple(found)


def _visible(scope: Scope, known: Mapping[str, Columns]) -> dict[str, Columns]:
    """Columns by the name under which this SELECT knows a table, and those of the SELECTs around it."""
    found: dict[str, Columns] = {}
    if scope.parent is not None and (scope.is_subquery or scope.is_udtf):
        found |= _visible(scope.parent, known)
    chosen: dict[str, Any] = {name: source for name, (_, source) in scope.selected_sources.items()}
    # Those of semi and anti joins can be named in their ON, though nothing of them comes out.
    chosen |= {name: scope.sources[name] for name in scope.semi_or_anti_join_tables if name in scope.sources}
    for name, source in (chosen or scope.sources).items():
        found[name.lower()] = _columns_of_source(source, known)
    if scope.expression.find(exp.Pivot) is not None:
        found[""] = None  # PIVOT and UNPIVOT make names of values
    for lateral in scope.expression.args.get("laterals") or ():
        found[(lateral.alias or "lateral").lower()] = tuple(lateral.alias_column_names) or None
    return found


def _columns_of_source(source: exp.Table | Scope, known: Mapping[str, Columns]) -> Columns:
    if isinstance(source, exp.Table):
        if not isinstance(source.this, exp.Identifier):
            return None  # a function that gives a table
        return known.get(".".join(part.name for part in source.parts).lower())
    tree = source.expression
    if not isinstance(tree, exp.Query) or source.is_udtf:
        return None
    renamed = tuple(getattr(tree.parent, "alias_column_names", ()))  # WITH a(x, y) AS, (...) AS a(x, y)
    if renamed:
        return renamed
    nested = {
        name.lower(): _columns_of_source(inner, known)
        for name, inner in source.sources.items()
        if isinstance(inner, Scope)
    }
    return columns_of(tree, {**known, **nested})


def _lambda_parameters(tree: exp.Expression) -> set[str]:
    return {one.name.lower() for function in tree.find_all(exp.Lambda) for one in function.expressions}


def _names(visible: Mapping[str, Columns]) -> list[str]:
    return [name for columns in visible.values() for name in columns or ()]


def _hint(word: str, known: Any) -> str:
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
