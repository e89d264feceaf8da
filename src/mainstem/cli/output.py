"""How commands answer: tables for people, JSON lines for machines.

Results go to standard output, everything else (progress, questions, remarks) to standard error, so that a
pipe carries results only. With `--json` each result is one JSON object on its own line.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal, TypeVar

import click

from mainstem.model.errors import InvalidRequest, MainstemError

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
NO_WAY_BACK = "They cannot be brought back."
UNBOUNDED_WIDTH = 10_000  # a pipe has no width: never cut a cell there


@dataclass(frozen=True)
class Column:
    key: str
    title: str
    justify: Literal["left", "right"] = "left"
    show: Callable[[Any], str] = str


def json_option(function: F) -> F:
    """Adds `--json`, which the command gets as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON object per line, for machines.")(
        function
    )


def yes_option(function: F) -> F:
    """Adds `--yes`, for `confirm`."""
    return click.option("--yes", "-y", is_flag=True, help="Do not ask first.")(function)


def emit_rows(
    rows: Iterable[Mapping[str, object]], columns: Sequence[Column], *, as_json: bool, empty: str = "Nothing."
) -> None:
    """Many results of one shape. People see `columns`, machines see every key of every row."""
    if as_json:
        for row in rows:
            _json_line(row)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.title, justify=column.justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(column.show(row.get(column.key, "")))) for column in columns))
    if table.row_count:
        console_on(sys.stdout).print(table)
    else:
        remark(empty)


def emit_record(record: Mapping[str, object], *, as_json: bool) -> None:
    """One result: a line per fact for people."""
    if as_json:
        _json_line(record)
        return
    width = max(map(len, record), default=0)
    for name, value in record.items():
        value = ("no", "yes")[value] if isinstance(value, bool) else value
        click.echo(f"{name.ljust(width)}  {printable(str(value))}")


def remark(text: str) -> None:
    """A line for the person at the keyboard, not part of the result."""
    click.echo(text, err=True)


def confirm(deed: str, note: str = "", *, yes: bool) -> None:
    """Before a deed ("delete topic 'a'") that cannot be undone. Without a terminal, `--yes` must say it."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidRequest(f"refused: this would {deed}; add --yes")
    click.confirm(f"{deed[0].upper()}{deed[1:]}?{f' {note}' if note else ''}", abort=True, err=True)


@contextlib.contextmanager
def in_turn(names: Iterable[T]) -> Iterator[Iterator[T]]:
    """Gives them one after the other. If one fails, those that nothing was tried with are named."""
    left = deque(names)
    try:
        yield (left.popleft() for _ in range(len(left)))
    except MainstemError:
        if left:
            remark(f"Not tried after that: {', '.join(map(repr, left))}")
        raise


@contextlib.contextmanager
def progress(
    description: str, total: float | None, *, beside_results: bool = False
) -> Iterator[Callable[[float], None]]:
    """A bar on standard error; gives `advance(amount)`. Silent when that is not a terminal.

    `beside_results`: results are printed meanwhile, so there is no bar where both would share a terminal.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    shown = sys.stderr.isatty() and not (beside_results and sys.stdout.isatty())
    with Progress(*columns, TimeRemainingColumn(), console=console_on(sys.stderr), disable=not shown) as bar:
        task = bar.add_task(description, total=total)
        yield lambda amount: bar.advance(task, amount)


def printable(text: str) -> str:
    """Control characters spelled out: a message cannot drive the reader's terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def plural(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def listed(what: str, names: Sequence[object]) -> str:
    """`topic 'a'`, `topics 'a', 'b'`."""
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"


def human_bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def human_ms(duration_ms: float) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if abs(duration_ms) >= size:
            return f"{duration_ms / size:.4g} {unit}"
    return f"{duration_ms:.3g} ms"


def _json_line(value: Mapping[str, object]) -> None:
    click.echo(json.dumps(value, default=str, ensure_ascii=False))


def console_on(file: IO[str]) -> Console:
    from rich.console import Console

    width = None if file.isatty() else UNBOUNDED_WIDTH
    return Console(file=file, width=width, highlight=False, soft_wrap=False)
