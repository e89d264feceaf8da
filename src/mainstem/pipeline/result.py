"""The rows that a query gave, as text for people and for programs. Pure.

Times are UTC, as in the session that computed them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["number", "time", "text", "other"]


@dataclass(frozen=True, slots=True)
class ResultColumn:
    name: str
    kind: Kind
    is_whole: bool = False  # a number without a fraction


@dataclass(frozen=True, slots=True)
class Result:
    """`more`: there were more rows than were asked for."""

    columns: tuple[ResultColumn, ...]
    rows: Sequence[tuple[Any, ...]]
    more: bool = False

    def values(self, index: int) -> list[Any]:
        return [row[index] for row in self.rows]


def result_of(table: pa.Table, limit: int | None = None) -> Result:
    """Names may repeat, so columns are taken by place."""
    more = limit is not None and table.num_rows > limit
    table = table.slice(0, limit) if more else table
    columns = tuple(
        ResultColumn(field.name, _kind(field.type), _is_whole(field.type)) for field in table.schema
    )
    values = [column.to_pylist(maps_as_pydicts="lossy") for column in table.columns]
    return Result(columns, list(zip(*values, strict=True)) if values else [], more)


def _kind(kind: pa.DataType) -> Kind:
    import pyarrow as pa

    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_timestamp(kind) or types.is_date(kind):
        return "time"
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_boolean(kind)
    return "text" if is_text else "other"


def _is_whole(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind)) or (bool(pa.types.is_decimal(kind)) and kind.scale == 0)


# --- one value -------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """For people: short, and a null looks like none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _short(value)
    if isinstance(value, datetime):
        return _utc(value).isoformat(" ", "milliseconds" if value.microsecond else "seconds")
    if isinstance(value, bytes | dict | list):
        return json.dumps(plain(value), ensure_ascii=False)
    return str(value)


def _short(value: float) -> str:
    """Sums of floats end in noise that nobody wants to read; programs get every digit."""
    text = f"{value:.12g}"
    return text if "." in text or "e" in text or not text.lstrip("-").isdigit() else text + ".0"


def exact(value: Any) -> str:
    """For csv: as JSON has it, but for the quotes around text."""
    if isinstance(value, Decimal):
        return str(value)
    given = plain(value)
    if given is None:
        return ""
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def plain(value: Any) -> Any:
    """What JSON can say: times as ISO text, bytes as text, decimals as the nearest number."""
    if isinstance(value, datetime):
        return _utc(value).isoformat() + ("Z" if value.tzinfo else "")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, float) and value - value != 0:  # infinite, or not a number
        return str(value)
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value


# --- all rows --------------------------------------------------------------------------------------


def json_lines(result: Result) -> Iterator[str]:
    names = _names(result)
    for row in result.rows:
        yield json.dumps(dict(zip(names, map(plain, row), strict=True)), ensure_ascii=False)


def csv_lines(result: Result) -> Iterator[str]:
    """With a head."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for line in (
        [column.name for column in result.columns],
        *([exact(v) for v in row] for row in result.rows),
    ):
        writer.writerow(line)
        yield buffer.getvalue().removesuffix("\n")
        buffer.seek(0)
        buffer.truncate()


def _names(result: Result) -> list[str]:
    """Two columns of one name become two keys."""
    found: list[str] = []
    for column in result.columns:
        name, number = column.name, 2
        while name in found:
            name, number = f"{column.name}_{number}", number + 1
        found.append(name)
    return found
