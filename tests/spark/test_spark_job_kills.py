"""kill -9 of driver, worker and both brokers while the built-in jobs run: each record arrives once."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pyarrow.dataset as ds
import pytest
from postgres_kit import Postgres, programs, running_postgres
from spark_kit import House

from mainstem.client import TopicPartition
from mainstem.testing.broker import Broker
from mainstem.torture.spark_house import PYTHON_WORKER, Process, below, command_of, kill

SEED = 11
PARTITIONS = 2
TOPICS = {"events": PARTITIONS, "events-again": PARTITIONS, "orders": 1}  # those of the jobs
ROWS_PER_STRIKE = 400
START_S = 180  # of a driver with five queries, on a machine that is overloaded
KINDS = ("driver", "worker", "source", "target")
FOREVER = {"topics.retention_ms": -1}
MAINSTEM = [sys.executable, "-c", "from mainstem.cli.main import main; main()"]

LAKE = """
CREATE JOB archive USING lake WITH (topic = 'events', path = '{folder}/lake', max_records = '150');
"""
OTHERS = """
CREATE JOB copy USING mirror WITH (
  from = '{source}', topics = 'origin', rename = 'origin=events', groups = '', max.records = '150');
CREATE JOB again USING replay WITH (path = '{folder}/lake', topic = 'events-again', max_records = '150');
CREATE JOB rows USING sync WITH (
  topic = 'events', url = '{database}', table = 'rows_of_events', schema = 'number BIGINT',
  max.records = '150');
CREATE JOB orders USING sync WITH (
  direction = 'from', url = '{database}', table = 'orders', column = 'id', topic = 'orders', settle = '0',
  max.records = '150');
"""


class Works:
    """A broker that is mirrored, another with the jobs, and a database."""

    def __init__(self, source: House, target: House, database: Postgres, folder: Path) -> None:
        self._source = source
        self._target = target
        self._database = database
        self._folder = folder
        self._drivers = 0
        self._driver: Process | None = None
        self.sent = 0
        self.strikes: Counter[str] = Counter()
        source.create("origin", PARTITIONS)
        for topic, partitions in TOPICS.items():
            target.create(topic, partitions)
        with database.connect() as connection:
            connection.execute("CREATE TABLE orders (id BIGSERIAL PRIMARY KEY, number BIGINT)")
        places = {"folder": folder, "source": source.address, "database": database.url}
        self._lake, self._jobs = folder / "lake.sql", folder / "jobs.sql"
        self._lake.write_text(LAKE.format(**places))
        self._jobs.write_text((LAKE + OTHERS).format(**places))

    def send(self, count: int) -> None:
        numbers = range(self.sent, self.sent + count)
        for partition in range(PARTITIONS):
            values = [b'{"number": %d}' % number for number in numbers[partition::PARTITIONS]]
            self._source.fill("origin", values, partition)
        with self._database.connect() as connection, connection.cursor() as cursor:
            cursor.executemany("INSERT INTO orders (number) VALUES (%s)", [(number,) for number in numbers])
        self.sent += count

    # --- drivers -------------------------------------------------------------------------------------

    def begin_lake(self) -> None:
        """With one record that no mirror brought: what is replayed must be there first."""
        self._target.fill("events", [b'{"number": -1}'])
        self._run_once(self._lake)

    def start(self) -> None:
        self._driver = self._process(self._jobs)

    def end(self) -> None:
        if self._driver is not None:
            self._driver.kill()

    def go_on(self) -> None:
        """All jobs together, to the end of what is there."""
        self._run_once(self._jobs)

    def _run_once(self, file: Path) -> None:
        driver = self._driver = self._process(file, "--once")
        until("all is done", lambda: driver.poll() is not None, driver)
        assert driver.poll() == 0, driver.log_tail()

    def _process(self, file: Path, *options: str) -> Process:
        self._drivers += 1
        command = [*MAINSTEM, "pipeline", "run", str(file), "--name", "jobs", *options]
        environment = os.environ | {"MAINSTEM_BOOTSTRAP": self._target.address}
        return Process(command, self._folder / f"driver-{self._drivers}.log", environment)

    def _keep_going(self) -> None:
        """A driver that ended by itself, because it lost a worker, is started again as its keeper would."""
        assert self._driver is not None
        if self._driver.poll() is not None:
            self.start()

    def until_all_have(self, count: int) -> None:
        def have() -> bool:
            self._keep_going()
            return all(len(numbers) >= count for numbers in self.arrived().values())

        assert self._driver is not None
        until(f"{count} numbers everywhere", have, self._driver)

    def strike(self, kind: str, away_s: float) -> None:
        assert self._driver is not None
        if kind == "driver":
            self._driver.kill()
            self.start()
        elif kind == "worker":
            until("a worker is killed", self._kill_a_worker, self._driver)
        else:
            broker = (self._source if kind == "source" else self._target).broker
            assert broker is not None
            broker.kill()
            time.sleep(away_s)
            broker.start()
        self.strikes[kind] += 1

    def _kill_a_worker(self) -> bool:
        """Not their daemon, from which they are forked and have their command: without it they go on."""
        self._keep_going()
        assert self._driver is not None
        alike = [pid for pid in below(self._driver.pid) if PYTHON_WORKER in command_of(pid)]
        workers = (pid for daemon in alike for pid in below(daemon))
        return any(map(kill, workers))

    # --- what came of it -----------------------------------------------------------------------------

    def arrived(self) -> dict[str, list[int]]:
        """By topic, and those of the table."""
        with self._database.connect() as connection:
            made = connection.execute("SELECT to_regclass('rows_of_events')").fetchone()[0]
            rows = connection.execute("SELECT number FROM rows_of_events").fetchall() if made else []
        return {topic: self._numbers(topic) for topic in TOPICS} | {"table": [number for (number,) in rows]}

    def archived(self) -> list[int]:
        """As any reader of the folder finds them."""
        values = ds.dataset(self._folder / "lake", partitioning="hive").to_table(["value"])["value"]
        return [int(json.loads(value)["number"]) for value in values.to_pylist()]

    def _numbers(self, topic: str) -> list[int]:
        found = []
        with self._target.client() as client:
            client.topic(topic)
            for partition in range(TOPICS[topic]):
                offset = 0
                while True:
                    (fetched,) = client.fetch({TopicPartition(topic, partition): offset}, max_wait_ms=10)
                    values = (record.value for record in fetched.check().decoded(committed=True))
                    found += [int(json.loads(value or b"")["number"]) for value in values]
                    if fetched.next_offset == offset:
                        break
                    offset = fetched.next_offset
        return found


def until(what: str, holds: Callable[[], bool], driver: Process) -> None:
    deadline = time.monotonic() + START_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {START_S} s: {what}\n{driver.log_tail()}"
        time.sleep(0.1)


@pytest.fixture
def works(spark, tmp_path) -> Iterator[Works]:
    if programs() is None:
        pytest.skip("PostgreSQL is not here: apt install postgresql")
    with (
        running_postgres() as database,
        Broker(FOREVER, process=True) as source,
        Broker(FOREVER, process=True) as target,
    ):
        houses = House(spark, source.kafka, source), House(spark, target.kafka, target)
        made = Works(*houses, database, tmp_path)
        yield made
        made.end()


def check_nothing_is_lost_or_repeated(works: Works, rounds: int) -> None:
    chance = Random(SEED)
    works.begin_lake()
    works.start()
    works.send(ROWS_PER_STRIKE)
    for _ in range(rounds):
        for kind in chance.sample(KINDS, len(KINDS)):
            seen = works.sent
            works.send(ROWS_PER_STRIKE)
            # Then the last rows are on their way.
            works.until_all_have(seen)
            time.sleep(chance.random())
            works.strike(kind, away_s=chance.random())
    works.until_all_have(works.sent)
    works.end()
    works.go_on()
    numbers = list(range(works.sent))
    arrived = {name: sorted(found) for name, found in works.arrived().items()}
    first = [-1]  # not by way of the database
    assert arrived == {
        "events": first + numbers,
        "events-again": first + numbers,
        "table": first + numbers,
        "orders": numbers,
    }
    assert sorted(works.archived()) == first + numbers
    assert works.strikes == dict.fromkeys(KINDS, rounds)


@pytest.mark.timeout(900)
def test_jobs_bring_each_record_once_whatever_is_killed(works):
    check_nothing_is_lost_or_repeated(works, rounds=1)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_jobs_bring_each_record_once_across_twenty_kills(works):
    check_nothing_is_lost_or_repeated(works, rounds=5)
