"""The book of pipelines where the broker asks who is there: over TLS, with the rights that the docs name."""

import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from security_house import PASSWORDS, Files, guarded

from mainstem.cli.main import cli
from mainstem.client import ClientSettings, Sasl, Tls, parse_bootstrap
from mainstem.model.errors import BrokerRefused
from mainstem.pipeline.book import Book
from mainstem.pipeline.progress import RunStatus

DOCS = (Path(__file__).parents[2] / "docs" / "pipelines" / "operate.md").read_text()


def wall_ms():
    return time.time_ns() // 1_000_000


def status(**changes):
    facts = {
        "pipeline": "orders",
        "run": "r1",
        "state": "running",
        "started_ms": 0,
        "at_ms": wall_ms() + 600_000,
    }
    facts |= {"host": "here", "pid": 7, "master": "local[*]", "files": (), "checkpoints": ""}
    return RunStatus(**(facts | changes))


@pytest.fixture
def house(tmp_path):
    files = Files(tmp_path)
    with guarded(files) as broker:
        yield broker, files


def book_of(house, user):
    broker, files = house
    where = parse_bootstrap(broker.listening["kafka+tls"])
    sasl = Sasl(user, PASSWORDS[user])
    return Book(ClientSettings(where, tls=Tls(str(files.ca)), sasl=sasl), wall_ms)


def grant(house, line):
    """A line of the docs, as the admin would type it."""
    broker, _ = house
    environment = {"MAINSTEM_USER": "admin", "MAINSTEM_PASSWORD": PASSWORDS["admin"]}
    words = line.split("#")[0].split()[1:]
    result = CliRunner().invoke(cli, ["-b", broker.kafka, *words], env=environment)
    assert result.exit_code == 0, result.output


def lines_about(who):
    found = [line for line in DOCS.splitlines() if line.startswith(f"mainstem acl add {who} ")]
    assert found
    return found


def test_the_rights_in_the_docs_are_enough_and_needed(house):
    with (
        book_of(house, "alice") as driver,
        pytest.raises(BrokerRefused, match="not authorized|authorization"),
    ):
        driver.say(status())
    for line in lines_about("alice"):
        grant(house, line)
    with book_of(house, "alice") as driver, book_of(house, "bob") as watcher:
        assert driver.claim(status()) is None
        with pytest.raises(BrokerRefused):
            watcher.statuses()
        reading, asking = lines_about("bob")
        grant(house, reading)
        assert watcher.status("orders").run == "r1"
        assert [event.kind for event in watcher.events("orders")] == ["state"]
        with pytest.raises(BrokerRefused):
            watcher.ask_to_stop("orders")
        grant(house, asking)
        watcher.ask_to_stop("orders")
        assert driver.stop_asked(status())
