"""`mainstem pipeline init`."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from mainstem.cli.groups import examples
from mainstem.cli.output import remark
from mainstem.model.errors import InvalidRequest

SQL = """\
-- Orders come in as JSON; event time is in `at`, and may be 10 seconds late.
CREATE STREAM orders (id BIGINT, customer STRING, amount DOUBLE, at TIMESTAMP)
  WITH (topic = 'orders', format = 'json', timestamp = 'at', watermark = '10 seconds');

-- A table to look things up in; its path begins where this file lies.
CREATE TABLE customers WITH (format = 'csv', path = '{name}-customers.csv', header = 'true');

-- A result for each minute and region, once the minute is over. The topic is made if it is not there.
CREATE STREAM revenue WITH (topic = '{name}-revenue', format = 'json', key = 'region') AS
  SELECT window.start AS minute, c.region, sum(o.amount) AS revenue, count(*) AS orders
  FROM orders o JOIN customers c ON o.customer = c.id
  GROUP BY window(o.at, '1 minute'), c.region;

-- The same rows as Parquet files.
CREATE TABLE lake WITH (format = 'parquet', path = '{name}-lake') AS SELECT * FROM revenue;
"""
CSV = "id,region\nc-1,north\nc-2,south\n"
PYTHON = '''\
"""Big orders, and a line for each. The parameters of a function name what it reads."""

from mainstem.pipeline import Message, message, read_stream, stream

read_stream(
    "orders", "id BIGINT, customer STRING, amount DOUBLE, at TIMESTAMP", topic="orders", format="json"
)


@stream(topic="{name}-big", format="json", key="customer")
def big_orders(orders):
    return orders.where("amount > 100")


@message(source="orders", topic="{name}-lines")
def lines(order: Message) -> Message | None:
    """None drops a message; `order.to("topic")` sends it elsewhere."""
    return order.with_value(b"order: " + order.value) if order.value else None
'''


@click.command(
    "init",
    epilog=examples(
        "mainstem pipeline init shop            # shop.sql and a table for it",
        "mainstem pipeline init shop --python   # shop.py",
    ),
)
@click.argument("name")
@click.option("--python", is_flag=True, help="In Python instead of SQL.")
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default=".", help="Where. [.]")
def command(name: str, python: bool, folder: Path) -> None:
    """Write a pipeline to begin with, and say how to run it."""
    from mainstem.pipeline.loading import NAME

    if not NAME.fullmatch(name):
        raise InvalidRequest(f"{name!r} is no name for a pipeline: use letters, digits, '.', '_' and '-'")
    files = {f"{name}.py": PYTHON} if python else {f"{name}.sql": SQL, f"{name}-customers.csv": CSV}
    for file in files:
        if (folder / file).exists():
            raise InvalidRequest(f"{folder / file} is there already")
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (folder / file).write_text(text.replace("{name}", name), encoding="utf-8")
        click.echo(str(folder / file))
    main = folder / next(iter(files))
    result = f"{name}-big" if python else f"{name}-revenue"
    # The second one closes the minute of the first, so that there is a result to see.
    now_s = int(time.time())
    lines = "' '".join(_order(number, now_s + 300 * number) for number in (0, 1))
    remark(
        f"\nNext:\n  mainstem topic create orders\n  printf '%s\\n' '{lines}' | mainstem produce orders"
        f"\n  mainstem pipeline validate {main}\n  mainstem pipeline run {main} --once"
        f"\n  mainstem consume {result}"
    )


def _order(number: int, at_s: int) -> str:
    at = datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps({"id": number, "customer": f"c-{number + 1}", "amount": 120.5, "at": at})
