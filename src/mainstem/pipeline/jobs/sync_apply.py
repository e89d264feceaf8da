"""Changes into PostgreSQL: a batch is one transaction, which notes its number too, so that it is known again.

Rows go by COPY into a temporary table and from there by one statement. If that fails because of what a row
holds, halves are tried, each in a savepoint, until the bad rows stand alone. The transaction notes these with
the number: they are told of after it has ended, and again if the batch is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import psycopg
import pyarrow as pa
from psycopg import sql

from mainstem.model.errors import MainstemError
from mainstem.model.logs import get_log
from mainstem.pipeline.counting import UNKNOWN_ROWS
from mainstem.pipeline.jobs.sync_address import hidden
from mainstem.pipeline.jobs.sync_changes import Changes, csv_of
from mainstem.pipeline.jobs.sync_table import BATCHES, KEYS, OUTCOME, ROWS, Connection, Table, names

events = get_log(__name__)

# Classes of errors that are a row's fault: cardinality, data, constraints, views, limits, and triggers'.
OF_ROWS = ("21", "22", "23", "44", "54", "P0")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
LONGEST_REASON = 1_000  # characters: some tell the whole value


class Refused(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A record that the table does not take. By its place, as a topic may lose others of its batch."""

    partition: int
    offset: int
    reason: str


class Outcome(msgspec.Struct, frozen=True):
    """What came of a batch, also of one that was applied before."""

    rows: int = UNKNOWN_ROWS  # inserted, updated or deleted, as the database counts them
    refused: tuple[Refused, ...] = ()


@dataclass(slots=True)
class Put:
    """Rows that went through a statement, and the numbers of those that were refused."""

    rows: int = 0
    bad: list[tuple[int, str]] = field(default_factory=list)


class DatabaseGone(MainstemError):
    """It does not answer, or refuses what has nothing to do with a row."""


def connect(url: str, patience_s: float = 0.0) -> Connection:
    """The password may also come from $PGPASSWORD or ~/.pgpass, as for PostgreSQL's own programs."""
    deadline, pause_s = time.monotonic() + patience_s, FIRST_PAUSE_S
    while True:
        try:
            return _connect(url)
        except DatabaseGone as error:
            if time.monotonic() + pause_s > deadline:
                raise
            events.warning("the database is waited for", why=str(error))
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _connect(url: str) -> Connection:
    try:
        connection = psycopg.connect(
            url, autocommit=True, application_name="mainstem sync", connect_timeout=10
        )
        connection.execute("SET TIME ZONE 'UTC'")
    except psycopg.Error as error:
        raise DatabaseGone(f"{hidden(url)}: {hidden(str(error)).strip()}") from None
    return connection


class Applier:
    """One connection, made anew when it breaks."""

    def __init__(self, url: str, table: Table, patience_s: float) -> None:
        self._url = url
        self._table = table
        self._patience_s = patience_s
        self._connection: Connection | None = None

    def apply(self, query: str, batch_id: int, changes: Callable[[], Changes]) -> Outcome:
        """Once for each batch. A database that is away is waited for: what is half done is undone there."""
        deadline, pause_s = time.monotonic() + self._patience_s, FIRST_PAUSE_S
        while True:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = connect(self._url)
                return self._transaction(self._connection, query, batch_id, changes)
            except (DatabaseGone, psycopg.OperationalError) as error:
                self.close()
                why = hidden(str(error)).strip()
                if time.monotonic() + pause_s > deadline:
                    raise DatabaseGone(f"batch {batch_id}: {why}") from None
                events.warning("the database is waited for", batch=batch_id, why=why)
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _transaction(
        self, connection: Connection, query: str, batch_id: int, changes: Callable[[], Changes]
    ) -> Outcome:
        batches = sql.Identifier(BATCHES)
        # In a transaction of its own, so that there is a row to lock: a COMMIT whose answer got lost may be
        # on its way still when the batch is tried again.
        first = sql.SQL("INSERT INTO {} (query, batch) VALUES (%s, -1) ON CONFLICT (query) DO NOTHING")
        connection.execute(first.format(batches), [query])
        with connection.transaction():
            last = sql.SQL("SELECT batch, {} FROM {} WHERE query = %s FOR UPDATE").format(
                sql.Identifier(OUTCOME), batches
            )
            known = connection.execute(last, [query]).fetchone()
            if known is None:
                raise DatabaseGone(f"the row of this query in {BATCHES} was deleted by somebody")
            if known[0] >= batch_id:
                events.event("batch was applied before", batch=batch_id)
                is_last = known[0] == batch_id and known[1] is not None
                return msgspec.json.decode(known[1], type=Outcome) if is_last else Outcome()
            # A violation must show up at its row, not at the end of the transaction.
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            outcome = self._change(connection, changes())
            note = sql.SQL("UPDATE {} SET batch = %s, at = now(), {} = %s WHERE query = %s")
            told = _as_text(outcome)
            connection.execute(note.format(batches, sql.Identifier(OUTCOME)), [batch_id, told, query])
        return outcome

    def _change(self, connection: Connection, found: Changes) -> Outcome:
        """Deletes come first: what they leave free, a new row may take."""
        table, bad, rows = self._table, list(found.bad), 0
        if table.keys and found.deletes.num_rows:
            connection.execute(table.temporary(KEYS, table.keys))
            deleted = _put(connection, KEYS, found.deletes, table.delete())
            bad += [(found.delete_rows[at], why) for at, why in deleted.bad]
            rows += deleted.rows
        connection.execute(table.temporary(ROWS, table.fields.names))
        put = _put(connection, ROWS, found.upserts, table.upsert())
        bad += [(found.upsert_rows[at], why) for at, why in put.bad]
        refused = (Refused(*found.place(row), _plain(why)) for row, why in bad)
        return Outcome(rows + put.rows, tuple(sorted(refused)))


def _plain(reason: str) -> str:
    """Short, and of letters that can be written as UTF-8."""
    return reason[:LONGEST_REASON].encode(errors="replace").decode()


def _as_text(outcome: Outcome) -> str:
    """PostgreSQL takes no zero byte in a text; JSON has another way to write one."""
    return msgspec.json.encode(outcome).decode()


def _put(connection: Connection, into: str, rows: pa.Table, statement: sql.Composed) -> Put:
    """All rows but those that are refused, each with the reason, are in."""
    done = Put()
    waiting = [(0, rows.num_rows)] if rows.num_rows else []  # stretches, the first on top
    while waiting:
        start, size = waiting.pop()
        try:
            with connection.transaction():
                _copy(connection, into, rows.slice(start, size))
                changed = connection.execute(statement).rowcount
            done.rows += changed
        except psycopg.Error as error:
            if (error.sqlstate or "")[:2] not in OF_ROWS:
                raise
            if size == 1:
                done.bad.append((start, _reason(error)))
            else:
                half = size // 2
                waiting += [(start + half, size - half), (start, half)]
    return done


def _copy(connection: Connection, into: str, rows: pa.Table) -> None:
    connection.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(into)))
    head = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(
        sql.Identifier(into), names(rows.column_names)
    )
    with connection.cursor() as cursor, cursor.copy(head) as copy:
        copy.write(csv_of(rows))


def _reason(error: psycopg.Error) -> str:
    told = [error.diag.message_primary or str(error), error.diag.message_detail or ""]
    return ". ".join(part for part in told if part)
