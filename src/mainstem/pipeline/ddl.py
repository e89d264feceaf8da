"""Lists of columns as Spark writes them: `id BIGINT, name STRING`."""

from __future__ import annotations

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from mainstem.model.errors import InvalidRequest

RAW = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


def ddl_columns(ddl: str) -> tuple[str, ...]:
    try:
        table = parse_one(f"CREATE TABLE t ({ddl})", read="spark")
    except SqlglotError as error:
        raise InvalidRequest(f"not a list of columns: {str(error).splitlines()[0]}") from None
    columns = [column for column in table.this.expressions if isinstance(column, exp.ColumnDef)]
    if not columns or len(columns) != len(table.this.expressions) or any(not one.kind for one in columns):
        raise InvalidRequest("not a list of columns: write them as in 'id BIGINT, name STRING'")
    return tuple(column.name for column in columns)
