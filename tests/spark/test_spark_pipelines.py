"""Pipelines of SQL and Python files, run on a real Spark over a real broker."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from spark_kit import House, new_name

from mainstem.client.settings import ClientSettings, parse_bootstrap
from mainstem.model.errors import InvalidRequest
from mainstem.model.records import Record
from mainstem.pipeline import backfill
from mainstem.pipeline.failures import reason, where
from mainstem.pipeline.frames import Span
from mainstem.pipeline.functions import SYNTAX, spark_functions
from mainstem.pipeline.loading import load
from mainstem.pipeline.parts import PipelineErrors
from mainstem.pipeline.progress import DeadLetters
from mainstem.pipeline.running import Plan, Run
from mainstem.pipeline.validating import validate

MAINSTEM = [sys.executable, "-c", "from mainstem.cli.main import main; main()"]
T0 = datetime(2031, 5, 4, 12, 0, tzinfo=UTC)


class Shop:
    """A folder with a pipeline in it, and topics of its own."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house = house
        self.folder = folder
        self.stem = new_name("shop")
        self.settings = ClientSettings(parse_bootstrap(house.address))
        house.create(self.topic("orders"), 2)

    def topic(self, name: str) -> str:
        return f"{self.stem}-{name}"

    def orders(self, rows, partition: int = 0) -> None:
        """Rows are (id, customer, amount, seconds after T0)."""
        now_ms = time.time_ns() // 1_000_000
        records = []
        for index, (number, customer, amount, at_s) in enumerate(rows):
            order = {"id": number, "customer": customer, "amount": amount, "at": _iso(at_s)}
            records.append(Record(index, now_ms, customer.encode(), json.dumps(order).encode()))
        self.house.put(self.topic("orders"), records, partition)

    def poison(self) -> None:
        """A record that no order can be read from."""
        self.house.put(self.topic("orders"), [Record(0, time.time_ns() // 1_000_000, None, b"{")])

    def write(self, file: str, text: str) -> Path:
        path = self.folder / file
        path.write_text(text.replace("~", self.stem + "-"))
        return path

    def run(self, *files: Path, once: bool = True) -> Run:
        pipeline = load(list(files))
        checked = validate(pipeline, self.settings)
        run = Run(pipeline, checked, Plan(self.settings, str(self.folder / "checkpoints"), once))
        run.start(self.house.spark)
        try:
            while run.is_going():
                run.step()
                time.sleep(0.05)
            run.step()
        finally:
            run.end()
            run.close()
        return run

    def values(self, topic: str) -> list[dict]:
        rows = self.house.read(self.topic(topic), columns="value").collect()
        return [json.loads(row.value) for row in rows]


def _iso(seconds: float) -> str:
    return (T0 + timedelta(seconds=seconds)).isoformat()


ORDERS = """
CREATE STREAM orders (id BIGINT, customer STRING, amount DOUBLE, at TIMESTAMP)
  WITH (topic = '~orders', format = 'json', timestamp = 'at', watermark = '10 seconds');
"""


@pytest.fixture
def shop(house, tmp_path) -> Shop:
    return Shop(house, tmp_path)


def test_windows_and_a_join_go_to_a_topic_and_to_parquet(shop):
    shop.write("customers.csv", "id,region\nann,north\nbob,south\n")
    file = shop.write(
        "revenue.sql",
        ORDERS
        + """
        CREATE TABLE customers WITH (format = 'csv', path = 'customers.csv', header = 'true');
        CREATE STREAM revenue WITH (topic = '~revenue', format = 'json', key = 'region') AS
          SELECT window.start AS minute, c.region, sum(o.amount) AS revenue
          FROM orders o JOIN customers c ON o.customer = c.id
          GROUP BY window(o.at, '1 minute'), c.region;
        CREATE TABLE lake WITH (format = 'parquet', path = 'lake') AS SELECT * FROM revenue;
        """,
    )
    shop.orders([(1, "ann", 1.5, 0), (2, "bob", 2.0, 30), (3, "ann", 4.0, 59), (4, "eve", 9.0, 1)])
    shop.orders([(5, "bob", 8.0, 61), (6, "ann", 1.0, 200)], partition=1)
    run = shop.run(file)
    first = [
        {"minute": "2031-05-04T12:00:00.000000Z", "region": "north", "revenue": 5.5},
        {"minute": "2031-05-04T12:00:00.000000Z", "region": "south", "revenue": 2.0},
        {"minute": "2031-05-04T12:01:00.000000Z", "region": "south", "revenue": 8.0},
    ]
    by = lambda row: (row["minute"], row["region"])  # noqa: E731
    assert sorted(shop.values("revenue"), key=by) == first
    keys = {bytes(row.key) for row in shop.house.read(shop.topic("revenue"), columns="key").collect()}
    assert keys == {b"north", b"south"}
    assert {(one.name, one.rows_in, one.rows_out) for one in run.watched} == {
        ("revenue", 6, 3),
        ("lake", 3, 3),
    }

    shop.orders([(7, "ann", 3.0, 210), (8, "ann", 1.0, 400)])
    shop.run(file)  # goes on where it ended
    after = [*first, {"minute": "2031-05-04T12:03:00.000000Z", "region": "north", "revenue": 4.0}]
    assert sorted(shop.values("revenue"), key=by) == after
    lake = shop.house.spark.read.parquet(str(shop.folder / "lake")).orderBy("minute", "region").collect()
    assert [(row.region, row.revenue) for row in lake] == [(row["region"], row["revenue"]) for row in after]
    idle = shop.run(file)  # Spark itself says -1 of a query that has had no batch since it was started
    assert {(one.name, one.rows_in, one.rows_out) for one in idle.watched} == {
        ("revenue", 0, 0),
        ("lake", 0, 0),
    }


def test_hopping_and_session_windows_duplicates_and_a_changelog(shop):
    file = shop.write(
        "kinds.sql",
        """
        CREATE STREAM orders (id BIGINT, customer STRING, amount DOUBLE, at TIMESTAMP)
          WITH (topic = '~orders',
          timestamp = 'at', watermark = '10 seconds', deduplicate = 'id');
        CREATE STREAM hops WITH (topic = '~hops') AS
          SELECT window.start AS begin, count(*) AS n FROM orders
          GROUP BY window(at, '60 seconds', '30 seconds');
        CREATE STREAM visits WITH (topic = '~visits') AS
          SELECT customer, session_window.start AS begin, session_window.end AS until, count(*) AS n
          FROM orders GROUP BY session_window(at, '20 seconds'), customer;
        CREATE STREAM totals WITH (topic = '~totals', output = 'changelog', key = 'customer') AS
          SELECT customer, sum(amount) AS total FROM orders GROUP BY customer;
        """,
    )
    shop.orders([(1, "ann", 1.0, 0), (1, "ann", 1.0, 0), (2, "ann", 2.0, 10), (3, "ann", 4.0, 45)])
    run = shop.run(file)
    assert {one.name: one.rows_out for one in run.watched}["totals"] == 1
    shop.orders([(4, "bob", 8.0, 300), (2, "ann", 2.0, 10)])
    shop.run(file)
    hops = {row["begin"][11:19]: row["n"] for row in shop.values("hops")}
    assert hops == {"11:59:30": 2, "12:00:00": 3, "12:00:30": 1}
    visits = [
        (row["customer"], row["begin"][11:19], row["until"][11:19], row["n"]) for row in shop.values("visits")
    ]
    assert sorted(visits) == [("ann", "12:00:00", "12:00:30", 2), ("ann", "12:00:45", "12:01:05", 1)]
    assert sorted((row["customer"], row["total"]) for row in shop.values("totals")) == [
        ("ann", 7.0),
        ("bob", 8.0),
    ]


def test_two_streams_are_joined_and_inserted_into_a_third(shop):
    shop.house.create(shop.topic("payments"), 1)
    file = shop.write(
        "join.sql",
        ORDERS
        + """
        CREATE STREAM payments (order_id BIGINT, paid TIMESTAMP)
          WITH (topic = '~payments', timestamp = 'paid', watermark = '10 seconds');
        CREATE STREAM done (id BIGINT, how STRING) WITH (topic = '~done', format = 'json');
        INSERT INTO done SELECT o.id, 'paid' AS how FROM orders o JOIN payments p
          ON o.id = p.order_id AND p.paid BETWEEN o.at AND o.at + INTERVAL 1 HOUR;
        INSERT INTO done SELECT id, 'free' AS how FROM orders WHERE amount = 0;
        CREATE TABLE lake WITH (format = 'parquet', path = 'lake') AS SELECT id FROM done;
        """,
    )
    shop.orders([(1, "ann", 1.0, 0), (2, "ann", 1.0, 5), (3, "ann", 0.0, 6)])
    paid = [{"order_id": 1, "paid": _iso(60)}, {"order_id": 2, "paid": _iso(7200)}]
    shop.house.fill(shop.topic("payments"), [json.dumps(one).encode() for one in paid], first_ms=_now_ms())
    shop.run(file)
    assert sorted((row["id"], row["how"]) for row in shop.values("done")) == [(1, "paid"), (3, "free")]
    # What is inserted is there before it is read.
    lake = shop.house.spark.read.parquet(str(shop.folder / "lake")).collect()
    assert sorted(row.id for row in lake) == [1, 3]


def test_a_folder_of_another_checkpoint_is_refused_instead_of_losing_rows(shop):
    file = shop.write(
        "lake.sql",
        ORDERS + "CREATE TABLE lake WITH (format = 'parquet', path = 'lake') AS SELECT id FROM orders;",
    )
    shop.orders([(1, "ann", 1.0, 0)])
    shop.run(file)
    shutil.rmtree(shop.folder / "checkpoints")
    with pytest.raises(InvalidRequest, match="holds what another checkpoint wrote"):
        shop.run(file)


def test_python_functions_mix_with_sql(shop):
    shop.write(
        "more.py",
        """
from mainstem.pipeline import Message, function, message, stream

@function("double")
def gross(amount):
    return None if amount is None else amount * 1.25

@stream(topic="~big", key="customer")
def big(orders):
    return orders.where("amount > 3")

@message(source="orders", topic="~rest")
def route(order: Message):
    if b"eve" in order.value:
        return order.to("~eve").with_value("for eve")
    return None if order.key == b"bob" else [order, order]
""",
    )
    file = shop.write(
        "mixed.sql",
        ORDERS + "IMPORT 'more.py';\n"
        "CREATE STREAM gross_big WITH (topic = '~gross', format = 'csv') AS"
        " SELECT id, gross(amount) AS g FROM big;",
    )
    shop.orders([(1, "ann", 4.0, 0), (2, "bob", 8.0, 1), (3, "eve", 1.0, 2)])
    shop.run(file)
    assert sorted(row["id"] for row in shop.values("big")) == [1, 2]
    gross = [bytes(row.value) for row in shop.house.read(shop.topic("gross")).collect()]
    assert sorted(gross) == [b"1,5.0", b"2,10.0"]
    assert [row["id"] for row in shop.values("rest")] == [1, 1]
    (eve,) = shop.house.read(shop.topic("eve")).collect()
    assert (bytes(eve.key), bytes(eve.value)) == (b"eve", b"for eve")


def test_tables_come_from_json_parquet_and_a_database(shop):
    spark = shop.house.spark
    shop.write("names.json", '{"customer": "ann", "name": "Ann"}\n')
    spark.sql("SELECT 'ann' AS customer, 'north' AS region").write.parquet(str(shop.folder / "regions"))
    url = f"jdbc:derby:memory:{shop.stem};create=true"
    limits = spark.sql("SELECT 'ann' AS customer, CAST(7 AS BIGINT) AS most")
    limits.write.format("jdbc").options(url=url, dbtable="limits", driver=DERBY).save()
    file = shop.write(
        "tables.sql",
        ORDERS
        + f"""
        CREATE TABLE names WITH (format = 'json', path = 'names.json');
        CREATE TABLE regions WITH (format = 'parquet', path = 'regions');
        CREATE TABLE limits WITH (format = 'jdbc', url = '{url}', dbtable = 'limits', driver = '{DERBY}');
        CREATE STREAM all_of_it WITH (topic = '~all') AS SELECT o.id, n.name, r.region, l.most FROM orders o
          JOIN names n ON n.customer = o.customer JOIN regions r ON r.customer = o.customer
          JOIN limits l ON l.customer = o.customer;
        CREATE TABLE stored WITH (format = 'jdbc', url = '{url}', dbtable = 'stored', driver = '{DERBY}') AS
          SELECT id, amount FROM orders;
        """,
    )
    shop.orders([(1, "ann", 1.0, 0), (2, "bob", 1.0, 0)])
    run = shop.run(file)
    assert {one.name: one.rows_out for one in run.watched} == {"all_of_it": 1, "stored": 2}
    assert shop.values("all") == [{"id": 1, "name": "Ann", "region": "north", "most": 7}]
    stored = spark.read.format("jdbc").options(url=url, dbtable="stored", driver=DERBY).load()
    assert sorted(row.ID if hasattr(row, "ID") else row.id for row in stored.collect()) == [1, 2]


DERBY = "org.apache.derby.iapi.jdbc.AutoloadedDriver"


def test_a_backfill_computes_a_stretch_of_history_beside_the_live_results(shop):
    file = shop.write(
        "totals.sql",
        ORDERS
        + """
        CREATE STREAM totals WITH (topic = '~totals') AS
          SELECT window.start AS minute, sum(amount) AS total FROM orders GROUP BY window(at, '1 minute');
        CREATE TABLE lake WITH (format = 'parquet', path = 'lake') AS SELECT * FROM totals;
        """
        + f"CREATE TABLE kept WITH (format = 'jdbc', url = 'jdbc:derby:memory:{shop.stem};create=true',"
        f" dbtable = 'kept', driver = '{DERBY}') AS SELECT total FROM totals WHERE total > 3;",
    )
    shop.orders([(1, "ann", 1.0, 0)])
    time.sleep(0.01)
    begin_ms = _now_ms()
    time.sleep(0.01)
    shop.orders([(2, "ann", 2.0, 0), (3, "ann", 4.0, 61)])
    shop.poison()
    pipeline = load([file])
    checked = validate(pipeline, shop.settings)
    fill = backfill.Fill(shop.settings, Span(begin_ms, None), "-again")
    assert backfill.rows_between(pipeline, fill) == 3
    told: dict[str, tuple[int, int]] = {}
    filled = backfill.run(
        shop.house.spark,
        pipeline,
        checked,
        fill,
        lambda name, done, known: told.update({name: (done, known)}),
    )
    dead = shop.topic("orders-again.dead")  # where each of them sends what it cannot read
    assert [(one.name, one.rows, one.dead) for one in filled] == [
        ("totals", 2, (DeadLetters(topic=dead, records=1, last=1),)),
        ("lake", 2, (DeadLetters(topic=dead, records=2, last=1),)),
        ("kept", 1, (DeadLetters(topic=dead, records=3, last=1),)),
    ]
    assert told == {"totals": (1, 1), "lake": (1, 1), "kept": (1, 1)}
    with shop.house.client() as client:
        assert shop.topic("orders.dead") not in client.cluster().topics  # that is for what runs
    assert sorted(row["total"] for row in shop.values("totals-again")) == [2.0, 4.0]
    lake = shop.house.spark.read.parquet(str(shop.folder / "lake-again")).collect()
    assert sorted(row.total for row in lake) == [2.0, 4.0]


def test_rows_that_jobs_write_and_records_that_nobody_can_read_are_counted(shop):
    file = shop.write(
        "jobs.sql",
        """
        CREATE JOB archive USING lake
          WITH (topic = '~orders', path = 'lake', format = 'json', schema = 'id BIGINT', max_records = '4');
        CREATE JOB figures USING stats WITH (topic = '~orders', window = '1 day');
        """,
    )
    shop.poison()
    shop.orders([(1, "ann", 1.0, 0), (2, "bob", 1.0, 0), (3, "ann", 1.0, 0)])
    run = shop.run(file)
    assert {one.name: (one.rows_in, one.rows_out) for one in run.watched} == {
        "archive": (3, 3),
        "figures": (4, 1),
    }
    letters = {one.name: one.last.dead for one in run.watched}
    first = DeadLetters(topic=shop.topic("orders.dead"), records=1, last=1)
    assert letters == {"archive": (first,), "figures": ()}
    shop.poison()
    (archive, _) = shop.run(file).watched  # which counts its own
    assert (archive.rows_out, archive.last.dead) == (0, (first,))


def test_what_spark_refuses_is_told_with_the_place_in_the_file(shop):
    file = shop.write(
        "bad.sql",
        ORDERS + "\nCREATE STREAM t WITH (topic = '~t') AS"
        " SELECT customer, sum(amount) AS s FROM orders GROUP BY 1;",
    )
    with pytest.raises(Exception, match="watermark") as error:
        shop.run(file)
    assert where(error.value) == f"{file}:5:1: "
    assert "output = 'changelog'" in reason(error.value)


def test_a_topic_that_is_missing_is_told_before_spark_starts(shop):
    file = shop.write("typo.sql", "CREATE STREAM o (id BIGINT) WITH (topic = '~ordrs');")
    with pytest.raises(PipelineErrors, match="has no topic '.*-ordrs'; did you mean '.*-orders'"):
        shop.run(file)


def test_the_list_of_functions_is_that_of_this_spark(house):
    told = {row[0] for row in house.spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert {name for name in told if name.isidentifier()} | SYNTAX == spark_functions({}).names
    for call in ("timestampadd(DAY, 1, now())", "timestampdiff(DAY, now(), now())", "IDENTIFIER('abs')(-1)"):
        house.spark.sql(f"SELECT {call}")  # which are not in it, and no functions to Spark


def test_the_command_runs_a_pipeline_once_and_the_broker_remembers_it(shop):
    shop.orders([(1, "ann", 1.0, 0), (2, "bob", 2.0, 1)])
    shop.poison()
    file = shop.write(
        "copy.sql", ORDERS + "CREATE STREAM copy WITH (topic = '~copy') AS SELECT id, amount FROM orders;"
    )
    name = shop.topic("copy-pipeline")
    ran = _mainstem(shop, "pipeline", "run", str(file), "--once", "--name", name, "--json")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert (told["state"], told["rows_in"], told["rows_out"]) == ("done", 2, 2)
    dead = shop.topic("orders.dead")
    assert told["dead"] == [{"topic": dead, "records": 1, "last": 1}]
    assert f"1 in {dead}, 1 with the last batch" in _mainstem(shop, "pipeline", "status", name).stdout
    assert f"dead letters in {dead}: 1 more" in _mainstem(shop, "pipeline", "logs", name).stdout
    assert sorted(row["id"] for row in shop.values("copy")) == [1, 2]
    listed = _mainstem(shop, "pipeline", "ls", "--json")
    assert name in [json.loads(line)["pipeline"] for line in listed.stdout.splitlines()]
    reset = _mainstem(shop, "pipeline", "reset", str(file), "--name", name, "--yes")
    assert reset.returncode == 0, reset.stderr
    assert not (shop.folder / "mainstem-checkpoints" / name).exists()


def test_ctrl_c_ends_a_running_pipeline_in_order(shop):
    file = shop.write(
        "copy.sql", ORDERS + "CREATE STREAM copy WITH (topic = '~copy') AS SELECT id FROM orders;"
    )
    shop.orders([(1, "ann", 1.0, 0)])
    name = shop.topic("interrupted")
    process = subprocess.Popen(
        [*MAINSTEM, "pipeline", "run", str(file), "--name", name],
        env=os.environ | {"MAINSTEM_BOOTSTRAP": shop.house.address},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if "running" in line:
                break
        os.killpg(process.pid, signal.SIGINT)  # as the terminal does it
        said.append(process.stderr.read())
        assert process.wait() == 0, "".join(said)
    finally:
        process.kill()
    assert f"{name}: stopped" in said[-1]
    status = json.loads(_mainstem(shop, "pipeline", "status", name, "--json").stdout)
    assert (status["state"], status["error"]) == ("stopped", "")


def test_explain_shows_sparks_plan_of_streams(shop):
    file = shop.write(
        "sums.sql",
        ORDERS + "CREATE STREAM sums WITH (topic = '~sums') AS SELECT window.start, sum(amount) AS amount"
        " FROM orders GROUP BY window(at, '1 minute');",
    )
    done = _mainstem(shop, "pipeline", "explain", str(file), "--plan")
    assert done.returncode == 0, done.stderr
    assert "== sums ==" in done.stdout
    assert "Aggregate [window" in done.stdout


def _mainstem(shop: Shop, *words: str) -> subprocess.CompletedProcess:
    command = [*MAINSTEM, *words]
    environment = os.environ | {"MAINSTEM_BOOTSTRAP": shop.house.address}
    return subprocess.run(command, capture_output=True, text=True, timeout=110, env=environment, check=False)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
