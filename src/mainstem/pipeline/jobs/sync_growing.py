"""A table that is read in the order of a column that grows: positions in it, and how far it is safe to read.

A transaction that ends late may add a row below rows that were read already. So what is newest is looked at,
and read only after every transaction that was writing to the table at that moment has ended, and after a
while besides.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

import msgspec
from psycopg import sql

from mainstem.model.errors import InvalidRequest, RequestTimedOut
from mainstem.model.logs import get_log
from mainstem.pipeline.jobs.sync_apply import connect
from mainstem.pipeline.jobs.sync_table import Connection, columns_of, identifier, primary_key

events = get_log(__name__)

Position = tuple[str, ...]
Statement = tuple[sql.Composed, list[str]]
PAUSE_S = 0.05
WARN_S = 60.0


class Growing(msgspec.Struct, frozen=True):
    """`order` is the column that grows, then the key; `columns` are those that a value has, all if empty."""

    table: str
    order: tuple[str, ...]
    keys: tuple[str, ...]
    columns: tuple[str, ...]

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Growing:
        return msgspec.json.decode(text, type=cls)

    def newest(self, connection: Connection) -> Position | None:
        query = sql.SQL("SELECT {} FROM {} t WHERE {} IS NOT NULL ORDER BY {} LIMIT 1").format(
            self._texts(), identifier(self.table), self._columns()[0], self._order(" DESC")
        )
        return connection.execute(query).fetchone()

    def is_behind(self, connection: Connection, start: Position | None, end: Position) -> bool:
        """Whether there may be rows behind `start` up to `end`."""
        where, values = self._between(start, end)
        query = sql.SQL("SELECT 1 FROM {} t WHERE {} LIMIT 1").format(identifier(self.table), where)
        return connection.execute(query, values).fetchone() is not None

    def limited(self, connection: Connection, start: Position | None, end: Position, most: int) -> Position:
        """`end`, or the position of the row up to which there are so many."""
        where, values = self._between(start, end)
        query = sql.SQL("SELECT {} FROM {} t WHERE {} ORDER BY {} OFFSET {} LIMIT 1").format(
            self._texts(), identifier(self.table), where, self._order(), sql.Literal(most - 1)
        )
        return connection.execute(query, values).fetchone() or end

    def rows(self, start: Position | None, end: Position) -> Statement:
        """Key and value of each, both as text."""
        where, values = self._between(start, end)
        query = sql.SQL("SELECT {}, {} FROM {} t WHERE {} ORDER BY {}").format(
            self._key(), self._value(), identifier(self.table), where, self._order()
        )
        return query, values

    def _key(self) -> sql.Composable:
        if not self.keys:
            return sql.SQL("NULL::text")
        if len(self.keys) == 1:
            return sql.SQL("t.{}::text").format(sql.Identifier(self.keys[0]))
        pairs = [sql.SQL("{}, t.{}").format(sql.Literal(key), sql.Identifier(key)) for key in self.keys]
        return sql.SQL("json_build_object({})::text").format(sql.SQL(", ").join(pairs))

    def _value(self) -> sql.Composable:
        if not self.columns:
            return sql.SQL("row_to_json(t)::text")
        some = sql.SQL(", ").join(sql.SQL("t.{}").format(sql.Identifier(name)) for name in self.columns)
        return sql.SQL("(SELECT row_to_json(r) FROM (SELECT {}) r)::text").format(some)

    def _between(self, start: Position | None, end: Position) -> tuple[sql.Composable, list[str]]:
        columns = sql.SQL(", ").join(self._columns())
        places = sql.SQL(", ").join([sql.Placeholder()] * len(self.order))
        where: sql.Composable = sql.SQL("({}) <= ({})").format(columns, places)
        if start is None:
            return where, list(end)
        return sql.SQL("{} AND ({}) > ({})").format(where, columns, places), [*end, *start]

    def _order(self, direction: str = "") -> sql.Composed:
        # Of the table's columns, by `t`: the names alone would be those of the texts that are selected.
        return sql.SQL(", ").join(column + sql.SQL(direction) for column in self._columns())

    def _columns(self) -> list[sql.Composed]:
        return [sql.SQL("t.{}").format(sql.Identifier(name)) for name in self.order]

    def _texts(self) -> sql.Composed:
        return sql.SQL(", ").join(sql.SQL("{}::text").format(column) for column in self._columns())


def growing_of(url: str, table: str, column: str, keys: tuple[str, ...], columns: tuple[str, ...]) -> Growing:
    """Checked against the table as it is; without `keys` its primary key counts."""
    with connect(url) as connection:
        there = columns_of(connection, table)
        if not there:
            raise InvalidRequest(f"there is no table {table!r}")
        for name in (column, *keys, *columns):
            if name not in there:
                near = get_close_matches(name, there, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise InvalidRequest(f"table {table!r} has no column {name!r}{hint}")
        _refuse_unsafe(connection, table, keys)
        keys = keys or primary_key(connection, table)
    if not keys:
        raise InvalidRequest(
            f"table {table!r} has no primary key: give key, the columns that tell rows apart"
        )
    return Growing(table, (column, *(key for key in keys if key != column)), keys, columns)


def _refuse_unsafe(connection: Connection, table: str, keys: tuple[str, ...]) -> None:
    """Where rows would be passed over unseen: who writes behind a view does not lock it, and a position with
    a null in it lies neither before nor behind another."""
    name = identifier(table).as_string(connection)
    kind = connection.execute("SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)", [name])
    if kind.fetchone() not in (("r",), ("p",)):
        raise InvalidRequest(
            f"{table!r} is not a table: a view, or a table of another server, does not tell who writes to it"
        )
    nullable = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = ANY(%s) "
        "AND NOT attnotnull ORDER BY attnum",
        [name, list(keys)],
    ).fetchone()
    if nullable is not None:
        raise InvalidRequest(f"key {nullable[0]!r} of table {table!r} may be null: it needs NOT NULL")


# Who writes to a table holds one of these on it, or on the part of it that it names, until its transaction
# ends; an INSERT does so before it takes a number of a sequence. Everybody may see them.
WRITERS = """
WITH RECURSIVE parts AS (
  SELECT to_regclass(%s)::oid AS id
  UNION SELECT inhrelid FROM pg_inherits JOIN parts ON inhparent = id
)
SELECT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND relation IN (SELECT id FROM parts) AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""


def writers(connection: Connection, table: str) -> frozenset[str]:
    found = connection.execute(WRITERS, [identifier(table).as_string(connection)])
    return frozenset(name for (name,) in found.fetchall())


class Looked(NamedTuple):
    """What was newest at a time, and who was at work then."""

    newest: Position | None
    writers: frozenset[str]
    at_s: float


@dataclass(slots=True)
class Settling:
    """How far it is safe to read: what was newest some time ago, once who was at work then has ended."""

    settle_s: float
    patience_s: float
    _reached: Position | None = None
    _waiting: Looked | None = None

    def reach(self, connection: Connection, growing: Growing) -> Position | None:
        if self._waiting is None:
            self._waiting = _look(connection, growing)
        if self._is_over(connection, growing, self._waiting):
            self._reached = self._waiting.newest
            self._waiting = _look(connection, growing)
        return self._reached

    def wait(self, connection: Connection, growing: Growing) -> Position | None:
        """What is newest now, as soon as it is safe to read."""
        looked = _look(connection, growing)
        deadline = time.monotonic() + self.settle_s + self.patience_s
        while not self._is_over(connection, growing, looked):
            if time.monotonic() > deadline:
                raise RequestTimedOut(
                    f"table {growing.table!r}: a transaction of the database stays open, and might add rows "
                    "below those that would be read; end it, or give it more patience"
                )
            time.sleep(PAUSE_S)
        return looked.newest

    def _is_over(self, connection: Connection, growing: Growing, looked: Looked) -> bool:
        age_s = time.monotonic() - looked.at_s
        if age_s < self.settle_s:
            return False
        is_over = not looked.writers or not looked.writers & writers(connection, growing.table)
        if not is_over and age_s > WARN_S:
            events.warning("rows wait for a transaction that stays open", seconds=int(age_s))
        return is_over


def _look(connection: Connection, growing: Growing) -> Looked:
    # In this order: who ends in between has its rows there, who begins in between is waited for in vain.
    newest = growing.newest(connection)
    return Looked(newest, writers(connection, growing.table), time.monotonic())
