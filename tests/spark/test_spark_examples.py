"""Each example: made-up input, a real broker, its pipeline on a real Spark; and what plain Python finds."""

import importlib
import json
import math
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainstem.client.settings import ClientSettings, parse_bootstrap
from mainstem.pipeline.loading import load
from mainstem.pipeline.running import Plan, Run
from mainstem.pipeline.validating import validate
from mainstem.testing.broker import Broker

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.timeout(300)
UNTIL = datetime.now(UTC).replace(second=30, microsecond=0) - timedelta(minutes=1)
COUNT = 3000
SEED = 11
MAX_PICTURE_BYTES = 60_000
MINUTE = timedelta(minutes=1)


class Show:
    """A broker for all examples, and a copy of them in a folder: they write beside themselves."""

    def __init__(self, spark, bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.folder = folder
        left = shutil.ignore_patterns("out", "mainstem-checkpoints")  # of somebody who tried them
        shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True, ignore=left)

    def generate(self, name: str):
        """Sends the input; gives the module that made it."""
        _module("generate").generate(name, self.bootstrap, COUNT, SEED, UNTIL)
        return _module(f"{name}.events")

    def run(self, file: str) -> None:
        settings = ClientSettings(parse_bootstrap(self.bootstrap))
        pipeline = load([self.folder / file])
        plan = Plan(settings, f"{self.folder}/checkpoints/{pipeline.name}", True)
        run = Run(pipeline, validate(pipeline, settings), plan)
        run.start(self.spark)
        try:
            while run.is_going():
                run.step()
                time.sleep(0.05)
            run.step()
        finally:
            run.end()

    def rows(self, topic: str) -> list[dict]:
        return _module("plot").rows(self.bootstrap, topic)

    def picture_bytes(self, name: str) -> int:
        out = self.folder / f"{name}.png"
        _module("plot").plot(name, self.bootstrap, out)
        assert out.read_bytes().startswith(b"\x89PNG")
        return out.stat().st_size


@pytest.fixture(scope="module")
def show(spark, tmp_path_factory) -> Iterator[Show]:
    with Broker(process=True) as broker:
        yield Show(spark, broker.kafka, tmp_path_factory.mktemp("examples"))


@pytest.fixture(autouse=True)
def on_path(monkeypatch) -> None:
    """As it is when a file in that folder is run."""
    monkeypatch.syspath_prepend(str(EXAMPLES))


def _module(name: str):
    module = importlib.import_module(name)
    assert EXAMPLES in Path(str(module.__file__)).parents
    return module


def _events(example) -> list[dict]:
    events = [json.loads(value) for _, value in example.events(COUNT, SEED, UNTIL)]
    assert len(events) == COUNT
    return [event | {"at": datetime.fromisoformat(event["at"])} for event in events]


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _minute(at: datetime, minutes: int = 1) -> datetime:
    return at.replace(minute=at.minute // minutes * minutes, second=0, microsecond=0)


def test_behaviour_makes_visits_and_counts_visitors_per_minute(show):
    clicks = _events(show.generate("behaviour"))
    show.run("behaviour/behaviour.sql")
    watermark = max(click["at"] for click in clicks) - timedelta(minutes=2)

    visits = {
        (row["visitor"], _at(row["began"])): (row["clicks"], row["first_page"], row["bought"])
        for row in show.rows("visits")
    }
    assert visits == {
        (visit[0]["visitor"], visit[0]["at"]): (
            len(visit),
            visit[0]["page"],
            any(click["page"] == "/thanks" for click in visit),
        )
        for visit in _visits(clicks)
        if visit[-1]["at"] + timedelta(minutes=5) <= watermark
    }
    assert len(visits) > COUNT / 10

    per_minute = defaultdict(set)
    for click in clicks:
        per_minute[_minute(click["at"])].add(click["visitor"])
    expected = {minute: len(who) for minute, who in per_minute.items() if minute + MINUTE <= watermark}
    exact = {_at(row["minute"]): row["visitors"] for row in show.rows("visitors-exact")}
    assert exact == expected
    estimated = {_at(row["minute"]): row["visitors"] for row in show.rows("visitors")}
    assert estimated.keys() == expected.keys()
    for minute, visitors in expected.items():  # three times the standard error that Spark promises
        assert abs(estimated[minute] - visitors) <= max(1, 0.15 * visitors)
    assert show.picture_bytes("behaviour") < MAX_PICTURE_BYTES


def _visits(clicks: list[dict]) -> list[list[dict]]:
    open_visits: dict[str, list[dict]] = {}
    visits = []
    for click in sorted(clicks, key=lambda click: click["at"]):
        visit = open_visits.get(click["visitor"])
        if visit is None or click["at"] > visit[-1]["at"] + timedelta(minutes=5):
            visit = open_visits[click["visitor"]] = []
            visits.append(visit)
        visit.append(click)
    return visits


def test_metrics_makes_percentiles_per_minute_and_keeps_the_worst(show):
    gauges = _events(show.generate("metrics"))
    show.run("metrics/metrics.sql")
    watermark = max(gauge["at"] for gauge in gauges) - timedelta(seconds=30)

    samples = defaultdict(list)
    for gauge in gauges:
        samples[_minute(gauge["at"]), gauge["host"], gauge["metric"]].append(gauge["value"])
    found = {
        (_at(row["minute"]), row["host"], row["metric"]): (row["samples"], row["p50"], row["p90"], row["p99"])
        for row in show.rows("percentiles")
    }
    assert found == {
        group: (len(values), *(_percentile(values, part) for part in (0.5, 0.9, 0.99)))
        for group, values in samples.items()
        if group[0] + MINUTE <= watermark
    }
    worst: dict[tuple[str, str], float] = {}
    for gauge in gauges:
        group = (gauge["host"], gauge["metric"])
        worst[group] = max(gauge["value"], worst.get(group, 0.0))
    # Of a changelog the last row counts.
    assert {(row["host"], row["metric"]): row["worst"] for row in show.rows("worst")} == worst
    assert show.picture_bytes("metrics") < MAX_PICTURE_BYTES


def _percentile(values: list[float], part: float) -> float:
    return sorted(values)[math.ceil(part * len(values)) - 1]


@pytest.fixture(scope="module")
def orders(show) -> list[dict]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        return _events(show.generate("orders"))


def _regions() -> dict[str, str]:
    return dict(_module("orders.events").customers())


def test_orders_makes_revenue_per_region_in_a_topic_and_as_files(show, orders):
    table = (show.folder / "orders" / "customers.csv").read_text().split()
    assert table == ["id,region", *map(",".join, _regions().items())]
    show.run("orders/orders.sql")
    expected = _revenue(orders, UNTIL - timedelta(seconds=30))
    found = {
        (_at(row["minute"]), row["region"]): (round(row["revenue"] * 100), row["orders"])
        for row in show.rows("revenue")
    }
    assert found == expected
    lake = show.spark.read.parquet(str(show.folder / "orders" / "out" / "revenue")).collect()
    files = {(row.minute.astimezone(UTC), row.region): (row.revenue * 100, row.orders) for row in lake}
    assert files == expected
    assert show.picture_bytes("orders") < MAX_PICTURE_BYTES


def _revenue(orders: list[dict], watermark: datetime) -> dict:
    regions = _regions()
    cents: Counter = Counter()
    count: Counter = Counter()
    for order in orders:
        group = (_minute(order["at"]), regions[order["customer"]])
        cents[group] += round(order["amount"] * 100)
        count[group] += 1
    return {group: (cents[group], count[group]) for group in cents if group[0] + MINUTE <= watermark}


def test_orders_in_python_sums_by_shelf_and_writes_receipts(show, orders):
    show.run("orders/orders_python.py")
    shelf, regions = _module("orders.orders_python").shelf, _regions()
    cents: Counter = Counter()
    for order in orders:
        group = (_minute(order["at"], 5), regions[order["customer"]], shelf(order["item"]))
        cents[group] += round(order["amount"] * 100)
    found = {
        (_at(row["begin"]), row["region"], row["shelf"]): round(row["revenue"] * 100)
        for row in show.rows("shelves")
    }
    watermark = UNTIL - timedelta(seconds=30)
    assert found == {group: sum for group, sum in cents.items() if group[0] + 5 * MINUTE <= watermark}
    lines = [f"{order['id']}: {order['item']}, {order['amount']:.2f}".encode() for order in orders]
    amounts = [order["amount"] for order in orders]
    large = [line for line, amount in zip(lines, amounts, strict=True) if amount > 100]
    usual = [line for line, amount in zip(lines, amounts, strict=True) if 5 <= amount <= 100]
    values = _module("generate").values
    assert sorted(values(show.bootstrap, "receipts")) == sorted(usual)
    assert sorted(values(show.bootstrap, "large-receipts")) == sorted(large)


def test_logs_come_through_rsyslog_and_raise_alerts(show):
    if _module("logs.rsyslogd").OUTPUT is None or _module("logs.rsyslogd").DAEMON is None:
        pytest.skip("rsyslog and its Kafka output are not here: sh tools/rsyslog.sh says how")
    example = show.generate("logs")
    lines = list(example.lines(COUNT, SEED, UNTIL))
    show.run("logs/logs.sql")
    watermark = UNTIL - timedelta(seconds=10)
    closed = [line for line in lines if _minute(line.at) + MINUTE <= watermark]

    counts = {
        (_at(row["minute"]), row["program"], row["severity"]): row["lines"] for row in show.rows("log-counts")
    }
    assert counts == Counter((_minute(line.at), line.program, line.severity) for line in closed)
    total = Counter((_minute(line.at), line.program) for line in closed)
    errors = Counter((_minute(line.at), line.program) for line in closed if line.severity == "err")
    rates = {
        (_at(row["minute"]), row["program"]): (row["lines"], row["errors"]) for row in show.rows("log-rates")
    }
    assert rates == {group: (total[group], errors[group]) for group in total}
    alerts = {(_at(row["minute"]), row["program"]) for row in show.rows("log-alerts")}
    assert alerts == {group for group in total if errors[group] / total[group] > 0.2 and total[group] >= 10}
    assert {program for _, program in alerts} == {"shop"}
    assert show.picture_bytes("logs") < MAX_PICTURE_BYTES
