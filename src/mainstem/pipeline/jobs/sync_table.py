"""A PostgreSQL table: its columns for given fields, whether it fits, and the statements that change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql

from mainstem.model.errors import InvalidRequest

ROWS, KEYS = "mainstem_rows", "mainstem_keys"  # temporary tables of a transaction
BATCHES = "mainstem_sync"  # which batch of each query was the last, and what came of it
OUTCOME = "outcome"  # a column that tables of earlier versions lack
_PLAIN = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamptz",
    pa.timestamp("us"): "timestamp",
}

Connection = psycopg.Connection[tuple[Any, ...]]


def type_of(kind: pa.DataType) -> str:
    """PostgreSQL's name of a type. Lists and structures are jsonb."""
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    return _PLAIN.get(kind, "jsonb")


@dataclass(frozen=True, slots=True)
class Table:
    """`name` may be `schema.table`; without `keys` rows are only added."""

    name: str
    fields: pa.Schema
    keys: tuple[str, ...]

    def __post_init__(self) -> None:
        for key in self.keys:
            if key not in self.fields.names:
                near = get_close_matches(key, self.fields.names, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise InvalidRequest(
                    f"key {key!r} is not among the fields {', '.join(self.fields.names)}{hint}"
                )

    @property
    def id(self) -> sql.Identifier:
        return identifier(self.name)

    def create(self) -> sql.Composed:
        columns = [
            sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(type_of(field.type)))
            for field in self.fields
        ]
        if self.keys:
            columns.append(sql.SQL("PRIMARY KEY ({})").format(names(self.keys)))
        return sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(self.id, sql.SQL(", ").join(columns))

    def temporary(self, name: str, columns: Sequence[str]) -> sql.Composed:
        """An empty table with some columns of this one, for this transaction."""
        return sql.SQL("CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA").format(
            sql.Identifier(name), names(columns), self.id
        )

    def upsert(self) -> sql.Composed:
        columns = names(self.fields.names)
        insert = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(
            self.id, columns, columns, sql.Identifier(ROWS)
        )
        if not self.keys:
            return insert
        others = [name for name in self.fields.names if name not in self.keys]
        sets = [sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in others]
        action = (
            sql.SQL("DO UPDATE SET {}").format(sql.SQL(", ").join(sets)) if sets else sql.SQL("DO NOTHING")
        )
        return sql.SQL("{} ON CONFLICT ({}) {}").format(insert, names(self.keys), action)

    def delete(self) -> sql.Composed:
        equal = [sql.SQL("t.{0} = k.{0}").format(sql.Identifier(key)) for key in self.keys]
        return sql.SQL("DELETE FROM {} t USING {} k WHERE {}").format(
            self.id, sql.Identifier(KEYS), sql.SQL(" AND ").join(equal)
        )


def identifier(name: str) -> sql.Identifier:
    return sql.Identifier(*(part.strip() for part in name.split(".")))


def names(columns: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))


def columns_of(connection: Connection, table: str) -> list[str]:
    """Those that can be written; empty if there is no such table."""
    found = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 "
        "AND NOT attisdropped ORDER BY attnum",
        [identifier(table).as_string(connection)],
    )
    return [name for (name,) in found.fetchall()]


def primary_key(connection: Connection, table: str) -> tuple[str, ...]:
    found = connection.execute(
        "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
        "AND a.attnum = ANY(i.indkey) WHERE i.indrelid = to_regclass(%s) AND i.indisprimary "
        "ORDER BY array_position(i.indkey::int2[], a.attnum)",
        [identifier(table).as_string(connection)],
    )
    return tuple(name for (name,) in found.fetchall())


def prepare(connection: Connection, table: Table, *, create: bool) -> None:
    """Make the tables that are missing, and refuse one that does not fit before anything is read."""
    connection.execute(
        sql.SQL(
            "CREATE TABLE IF NOT EXISTS {} (query text PRIMARY KEY, batch bigint NOT NULL, "
            "at timestamptz NOT NULL DEFAULT now(), {} text)"
        ).format(sql.Identifier(BATCHES), sql.Identifier(OUTCOME))
    )
    if OUTCOME not in columns_of(connection, BATCHES):
        add = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} text")
        connection.execute(add.format(sql.Identifier(BATCHES), sql.Identifier(OUTCOME)))
    if create:
        connection.execute(table.create())
    there = columns_of(connection, table.name)
    if not there:
        raise InvalidRequest(f"there is no table {table.name!r}; create = 'true' makes it")
    for name in table.fields.names:
        if name not in there:
            near = get_close_matches(name, there, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InvalidRequest(f"table {table.name!r} has no column {name!r}{hint}")
    try:
        with connection.transaction():
            connection.execute(table.temporary(ROWS, table.fields.names))
            connection.execute(table.upsert())
    except psycopg.errors.InvalidColumnReference:  # PostgreSQL's name for this
        raise InvalidRequest(
            f"table {table.name!r} has no primary key or unique index on {', '.join(table.keys)}"
        ) from None
