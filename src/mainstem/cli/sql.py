"""`mainstem sql`: a query over what topics hold, answered by Spark on this machine."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mainstem.cli.connect import client_options
from mainstem.cli.groups import examples
from mainstem.cli.output import Column, emit_rows, remark
from mainstem.cli.when import HELP, find_offsets, parse_when
from mainstem.model.errors import InvalidRequest, NotSupported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mainstem.client import Client, TopicPartition
    from mainstem.pipeline.adhoc_prepare import Prepared
    from mainstem.pipeline.result import Result

DEFAULT_LIMIT = 1000
FORMATS = ("table", "csv", "json")
DRAWN = 100_000  # rows: a picture shows no more anyway
STDOUT = "-"


@dataclass(frozen=True)
class Wish:
    query: str | None
    file: Path | None
    format: str | None
    plot: str | None
    limit: int
    start: str | None
    end: str | None
    schemas: tuple[str, ...]
    raw: tuple[str, ...]
    uncommitted: bool
    unchecked: bool
    master: str
    spark_log: Path | None


@click.command(
    "sql",
    epilog=examples(
        "mainstem sql 'select region, sum(amount) as revenue from orders group by region'",
        "mainstem sql 'select * from `web.clicks` where _timestamp > now() - interval 1 hour' --limit 20",
        "mainstem sql --file revenue.sql --from '2d ago' --format csv > revenue.csv",
        "mainstem sql --file revenue.sql --plot revenue.png   # - for bars in the terminal",
        "mainstem sql 'select * from orders' --schema 'orders: id BIGINT, at TIMESTAMP'",
    ),
)
@click.argument("query", required=False)
@click.option(
    "--file", type=click.Path(path_type=Path), metavar="FILE", help="Read the query from this file."
)
@click.option("--format", type=click.Choice(FORMATS), help="How rows are printed. [table; none with --plot]")
@click.option("--plot", metavar="FILE.png", help="Draw the result into a file; - draws bars in the terminal.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=DEFAULT_LIMIT,
    metavar="N",
    help=f"At most so many rows; 0 for all. [{DEFAULT_LIMIT}]",
)
@click.option("--from", "start", metavar="WHEN", help=f"Read messages from here on: {HELP}. [earliest]")
@click.option("--to", "--until", "end", metavar="WHEN", help="Read messages before this. [latest]")
@click.option(
    "--schema",
    "schemas",
    multiple=True,
    metavar="'TOPIC: COLUMNS'",
    help="The fields of a topic's JSON values, instead of a guess. Can be repeated.",
)
@click.option("--raw", multiple=True, metavar="TOPIC", help="Its columns are key and value, as text.")
@click.option("--uncommitted", is_flag=True, help="Also messages of open and aborted transactions.")
@click.option("--unchecked", is_flag=True, help="Let Spark alone decide whether the query is right.")
@click.option("--master", default="local[*]", metavar="URL", help="Where Spark computes. [local[*]: here]")
@click.option(
    "--spark-log",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Append what Spark says while it works to this file.",
)
@client_options
def command(client: Client, **flags: Any) -> None:
    """Answer QUERY, whose tables are topics; - reads it from standard input.

    A topic's columns are the fields of its JSON values, else key and value as text, and _key, _partition,
    _offset, _timestamp (and _value, _topic, _headers where the query names them). Times are UTC.
    """
    wish = Wish(**flags)
    _check_flags(wish)
    query = _query_text(wish)
    _require(wish)
    prepared = _prepare(client, wish, query)
    for said in prepared.remarks:
        remark(said)
    result = _answer(client, wish, prepared)
    _show(result, wish, query)


# --- before Spark ----------------------------------------------------------------------------------


def _check_flags(wish: Wish) -> None:
    if (wish.query is None) == (wish.file is None):
        raise click.UsageError("Give a QUERY (- for standard input) or --file.")
    if wish.plot not in (None, STDOUT):
        picture = Path(wish.plot or "")
        if picture.suffix.lower() != ".png":
            raise InvalidRequest(f"{picture}: plots are PNG files: call it {picture.with_suffix('.png')}")
        if not picture.absolute().parent.is_dir():
            raise InvalidRequest(f"{picture}: there is no folder {picture.absolute().parent}")


def _most_rows(wish: Wish) -> int | None:
    """A picture of some rows would lie about the others: only what is printed is cut."""
    return DRAWN if wish.plot is not None else wish.limit or None


def _query_text(wish: Wish) -> str:
    if wish.file is not None:
        try:
            return wish.file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"{wish.file}: cannot be read: {error}") from None
    return sys.stdin.read() if wish.query == "-" else wish.query or ""


def _require(wish: Wish) -> None:
    from mainstem.pipeline.session import require_spark

    try:
        require_spark()
        if wish.plot not in (None, STDOUT):
            from mainstem.pipeline.plotting import require_matplotlib

            require_matplotlib()
    except NotSupported as error:
        raise InvalidRequest(str(error)) from None


def _prepare(client: Client, wish: Wish, query: str) -> Prepared:
    from mainstem.pipeline.adhoc import QueryError
    from mainstem.pipeline.adhoc_prepare import Asked, prepare

    asked = Asked(query, _schemas(wish.schemas), wish.raw, wish.unchecked)
    try:
        return prepare(client, asked, lambda topics: _range(client, wish, topics))
    except QueryError as error:
        raise InvalidRequest(f"{wish.file}: {error}" if wish.file else str(error)) from None


def _schemas(given: Sequence[str]) -> dict[str, str]:
    """`orders: id BIGINT, at TIMESTAMP`; a topic's name has no colon."""
    found = {}
    for text in given:
        topic, colon, columns = text.partition(":")
        if not colon or not columns.strip():
            raise InvalidRequest(f"--schema is written 'orders: id BIGINT, at TIMESTAMP', not {text!r}")
        found[topic.strip().strip("`")] = columns.strip()
    return found


def _range(
    client: Client, wish: Wish, topics: Sequence[str]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    from mainstem.client import TopicPartition

    now_ms = time.time_ns() // 1_000_000
    start, end = parse_when(wish.start or "earliest", now_ms), parse_when(wish.end or "latest", now_ms)
    places = [
        TopicPartition(topic, partition.index)
        for topic in topics
        for partition in client.topic(topic).partitions
    ]
    if not places:
        return {}, {}
    starts = find_offsets(client, places, start)
    ends = find_offsets(client, places, end)
    return starts, {place: max(at, starts[place]) for place, at in ends.items()}


# --- with Spark ------------------------------------------------------------------------------------


def _answer(client: Client, wish: Wish, prepared: Prepared) -> Result:
    from mainstem.cli.sql_progress import shown_progress
    from mainstem.pipeline.adhoc_views import Reach, run_query
    from mainstem.pipeline.broker_options import source_options
    from mainstem.pipeline.failures import reason
    from mainstem.pipeline.session import spark_session

    broker = source_options(client.settings)
    with shown_progress() as follow:
        spark = spark_session("mainstem sql", wish.master, quick=True, log_file=wish.spark_log)
        from pyspark.errors import AnalysisException, PySparkException

        cores = spark.sparkContext.defaultParallelism
        reach = Reach(broker, prepared.starts, prepared.ends, not wish.uncommitted, cores)
        follow(spark)
        try:
            return run_query(spark, prepared.query, prepared.plans, reach, _most_rows(wish))
        except AnalysisException as error:  # and what it calls ParseException
            raise InvalidRequest(reason(error)) from None
        except PySparkException as error:
            raise click.ClickException(reason(error)) from None


def _show(result: Result, wish: Wish, query: str) -> None:
    from mainstem.pipeline.plotting import chart_of, draw, text_chart, title_of
    from mainstem.pipeline.result import csv_lines, json_lines, shown

    printed = replace(result, rows=result.rows[: wish.limit or None])  # a plot is of more
    if wish.plot is None or wish.format is not None:
        if wish.format in ("csv", "json"):
            for line in (csv_lines if wish.format == "csv" else json_lines)(printed):
                click.echo(line)
        else:
            columns = [
                Column(str(i), one.name, "right" if one.kind == "number" else "left", shown)
                for i, one in enumerate(result.columns)
            ]
            rows = ({str(i): value for i, value in enumerate(row)} for row in printed.rows)
            emit_rows(rows, columns, as_json=False, empty="No rows.")
    if wish.plot is not None:
        chart = chart_of(result, title_of(query))
        if wish.plot == STDOUT:
            click.echo(text_chart(chart, shutil.get_terminal_size().columns))
        else:
            draw(chart, Path(wish.plot))
            remark(
                f"{wish.plot}: {'lines' if chart.kind == 'line' else 'bars'} over {chart.x_label or 'rows'}"
            )
        if chart.left_out:
            remark(f"the plot shows {chart.left_out}")
    if wish.plot is None and result.more:
        remark(f"more rows: use --limit ({wish.limit:,} shown)")
    elif result.more:
        remark(f"the plot shows the first {DRAWN:,} rows: let the query gather them")
