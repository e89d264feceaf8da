"""The book of pipelines in a real broker."""

import io
import threading

import pytest
from kafka_kit import until
from rich.console import Console

from mainstem.client import Client, ClientSettings, TopicPartition, admin, parse_bootstrap
from mainstem.model.errors import BrokerUnreachable, InvalidRequest, ResourceNotFound
from mainstem.model.records import Record, encode_batch
from mainstem.pipeline import driving
from mainstem.pipeline.book import Book, Wish
from mainstem.pipeline.driving import Driver
from mainstem.pipeline.progress import QueryProgress, RunStatus
from mainstem.pipeline.screen import Screen
from mainstem.testing.broker import Broker

NOW_MS = 1_800_000_000_000


class Hand:
    """A clock that is turned by hand."""

    def __init__(self):
        self.ms = NOW_MS

    def __call__(self):
        return self.ms


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


@pytest.fixture
def clock():
    return Hand()


@pytest.fixture
def book(broker, clock):
    with Book(settings_of(broker), clock) as made:
        yield made


@pytest.fixture
def other(broker, clock):
    """The same book on another machine."""
    with Book(settings_of(broker), clock) as made:
        yield made


def settings_of(broker):
    return ClientSettings(parse_bootstrap(broker.kafka), backoff_s=0.01)


def status(name, **changes):
    facts = {
        "pipeline": name,
        "run": f"{name}-1",
        "state": "running",
        "started_ms": NOW_MS,
        "at_ms": NOW_MS,
        "host": "here",
        "pid": 7,
        "master": "local[*]",
        "files": (f"{name}.sql",),
        "checkpoints": f"/var/{name}",
    }
    return RunStatus(**(facts | changes))


def progress(batch=0, **changes):
    facts = {
        "query": "revenue",
        "batch": batch,
        "at_ms": NOW_MS,
        "input_rows": 10,
        "input_rows_per_s": 10.0,
        "output_rows": 2,
        "output_rows_per_s": 2.0,
        "batch_ms": 200,
        "lag": 5,
    }
    return QueryProgress(**(facts | changes))


def texts(book, name, **wish):
    return [event.text for event in book.events(name, Wish(kinds=("log",), **wish))]


def test_a_broker_that_never_saw_a_pipeline_has_an_empty_book(clock):
    with Broker() as fresh, Book(settings_of(fresh), clock) as book:
        assert book.statuses() == {}
        assert list(book.events("orders")) == []
        with pytest.raises(ResourceNotFound, match="'orders'"):
            book.status("orders")
        assert not book.stop_asked(status("orders"))
        with Client(settings_of(fresh)) as client:
            assert admin.topic_names(client, internal=True) == []


def test_the_newest_status_is_seen_from_another_machine(book, other):
    book.say(status("orders", state="starting"))
    book.say(status("orders", rows_in=100, queries=(progress(),)))
    assert other.status("orders") == status("orders", rows_in=100, queries=(progress(),))
    book.say(status("orders", rows_in=200))
    assert other.statuses()["orders"].rows_in == 200


def test_the_topics_are_made_with_the_settings_that_keep_them_small(book, broker):
    book.say(status("orders"))
    with Client(settings_of(broker)) as client:
        configs = {
            topic: {one.name: one.value for one in admin.configs_of(client, admin.TOPIC, topic)}
            for topic in ("__pipelines", "__pipeline_log")
        }
    assert configs["__pipelines"]["cleanup.policy"] == "compact"
    assert configs["__pipeline_log"]["cleanup.policy"] == "delete"
    assert configs["__pipeline_log"]["retention.ms"] == str(7 * 86_400_000)


def test_an_unknown_name_gets_a_guess(book):
    book.say(status("clickstream"))
    with pytest.raises(ResourceNotFound, match="Did you mean clickstream"):
        book.status("clickstreem")


def test_changes_of_state_lines_and_batches_are_kept_in_order(book, other):
    book.say(status("shop", state="starting"))
    book.log("shop", "shop-1", "warning", "slow disk", NOW_MS + 1)
    book.progressed("shop", "shop-1", progress(3))
    book.say(status("shop"))
    book.say(status("shop", rows_in=5))  # no change of its state
    book.say(status("shop", state="failed", error="out of disk"))
    seen = list(other.events("shop"))
    assert [(one.kind, one.state) for one in seen] == [
        ("state", "starting"),
        ("log", None),
        ("progress", None),
        ("state", "running"),
        ("state", "failed"),
    ]
    assert (seen[1].level, seen[1].text, seen[1].at_ms) == ("warning", "slow disk", NOW_MS + 1)
    assert seen[2].progress == progress(3)
    assert seen[4].text == "out of disk"


def test_a_heartbeat_that_comes_late_does_not_take_back_the_end(book, other):
    book.say(status("late"))
    book.say(status("late", state="stopped"))
    book.say(status("late", at_ms=NOW_MS + 1))
    assert other.status("late").state == "stopped"
    assert [one.state for one in other.events("late")] == ["running", "stopped"]


def test_the_last_events_are_found_behind_those_of_other_pipelines(book, other):
    book.say(status("few"))
    book.say(status("many"))
    for number in range(3):
        book.log("few", "few-1", "info", f"few {number}", NOW_MS)
    for number in range(900):
        book.log("many", "many-1", "info", f"many {number}", NOW_MS)
    book.say(status("many", rows_in=1))  # whatever waited is there now
    assert texts(other, "few", last=2) == ["few 1", "few 2"]
    assert texts(other, "many", last=700) == [f"many {number}" for number in range(200, 900)]
    assert texts(other, "few", last=99) == ["few 0", "few 1", "few 2"]


def test_events_are_chosen_by_run_and_by_time(book, other):
    book.say(status("twice"))
    book.log("twice", "twice-1", "info", "old", NOW_MS)
    book.say(status("twice", run="twice-2"))
    book.log("twice", "twice-2", "info", "new", NOW_MS)
    book.say(status("twice", run="twice-2", rows_in=1))
    assert texts(other, "twice", run="twice-1") == ["old"]
    assert texts(other, "twice", since_ms=0) == ["old", "new"]
    assert texts(other, "twice", since_ms=2**52) == []  # the broker's clock counts, and it is not there yet


def test_following_goes_on_with_new_events(book, other):
    book.say(status("live"))
    book.log("live", "live-1", "info", "one", NOW_MS)
    book.say(status("live", rows_in=1))
    events = other.events("live", Wish(kinds=("log",), last=1, follow=True))
    assert next(events).text == "one"
    later = threading.Thread(
        target=lambda: (
            book.log("live", "live-1", "info", "two", NOW_MS),
            book.say(status("live", rows_in=2)),
        )
    )
    later.start()
    assert next(events).text == "two"
    later.join()
    events.close()


def test_a_request_to_stop_reaches_the_run_that_was_meant_and_no_later_one(book, other):
    run = status("halt")
    book.say(run)
    assert not book.stop_asked(run)
    assert other.ask_to_stop("halt").run == run.run
    assert book.stop_asked(run)
    assert not book.stop_asked(status("halt", run="halt-2"))
    assert "halt/stop" not in other.statuses()


def test_only_what_runs_can_be_asked_to_stop(book, other, clock):
    book.say(status("ended", state="done"))
    with pytest.raises(InvalidRequest, match="does not run: it is done"):
        other.ask_to_stop("ended")
    book.say(status("gone"))
    clock.ms += 40_000
    with pytest.raises(InvalidRequest, match="lost: process 7 on here said nothing for 40 s"):
        other.ask_to_stop("gone")


def test_a_run_is_live_until_it_ends_or_falls_silent(book, other):
    book.say(status("alone"))
    assert other.live_run("alone", NOW_MS + 15_000) == status("alone")
    assert other.live_run("alone", NOW_MS + 15_001) is None
    book.say(status("alone", state="stopped"))
    assert other.live_run("alone", NOW_MS) is None
    assert other.live_run("nobody", NOW_MS) is None


def test_a_second_run_is_refused_while_the_first_is_alive(book, other, clock):
    assert book.claim(status("one", state="starting")) is None
    assert other.claim(status("one", run="one-2", state="starting")) == status("one", state="starting")
    assert other.status("one").run == "one-1"
    clock.ms += 20_000
    assert other.claim(status("one", run="one-2", at_ms=clock.ms)) is None
    assert book.status("one").run == "one-2"


class Claim:
    """The claim of a second run, beside the test; `shown` is what its screen says."""

    def __init__(self, book, clock, name):
        self.shown = io.StringIO()
        screen = Screen(Console(file=self.shown, width=200), clock)
        self.driver = Driver(book, status(name, run=f"{name}-2", state="starting"), screen, clock)
        self.refused = None
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._thread.start()

    def _go(self):
        try:
            self.driver.claim()
        except InvalidRequest as error:
            self.refused = str(error)

    def until_it_listens(self):
        until(lambda: "listening for 15 seconds" in self.shown.getvalue())

    def end(self):
        self._thread.join(60)
        assert not self._thread.is_alive()


def test_a_run_that_was_killed_is_listened_to_until_it_is_lost(book, other, clock):
    book.claim(status("killed", state="starting"))
    claim = Claim(other, clock, "killed")
    claim.until_it_listens()
    clock.ms += 15_001
    claim.end()
    assert claim.refused is None
    assert book.status("killed").run == "killed-2"
    assert claim.driver.status.started_ms == claim.driver.status.at_ms == clock.ms


def test_a_run_that_is_heard_of_meanwhile_keeps_the_pipeline(book, other, clock):
    book.claim(status("alive", state="starting"))
    claim = Claim(other, clock, "alive")
    claim.until_it_listens()
    clock.ms += 3_000
    book.say(status("alive", at_ms=clock.ms))
    claim.end()
    assert claim.refused.startswith("alive runs already, on here (process 7)")
    assert other.status("alive").run == "alive-1"


def test_a_run_that_ends_while_it_is_listened_to_is_followed_at_once(book, other, clock):
    book.claim(status("ending", state="starting"))
    claim = Claim(other, clock, "ending")
    claim.until_it_listens()
    book.say(status("ending", state="stopped"))
    claim.end()
    assert claim.refused is None
    assert book.status("ending").run == "ending-2"


def test_silence_counts_by_the_clock_of_who_listens(book, other, clock, monkeypatch):
    monkeypatch.setattr(driving, "LISTEN_S", 1.0)
    book.claim(status("ahead", state="starting", at_ms=NOW_MS + 600_000))  # of a machine whose clock is ahead
    claim = Claim(other, clock, "ahead")
    claim.end()
    assert claim.refused is None
    assert book.status("ahead").run == "ahead-2"


def test_who_listens_hears_that_the_pipeline_is_to_stop(book, other, clock):
    book.claim(status("unwanted", state="starting"))
    claim = Claim(other, clock, "unwanted")
    claim.until_it_listens()
    other.ask_to_stop("unwanted")
    claim.end()
    assert claim.refused == "stopped before it began"
    assert book.status("unwanted").run == "unwanted-1"


def test_of_many_runs_that_begin_at_once_one_has_the_pipeline(broker, clock):
    books = [Book(settings_of(broker), clock) for _ in range(8)]
    start = threading.Barrier(len(books))
    rivals = {}

    def claim(number):
        start.wait()
        rivals[number] = books[number].claim(status("race", run=f"race-{number}", state="starting"))

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(len(books))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rivals) == len(books)
    (winner,) = (number for number, rival in rivals.items() if rival is None)
    books[winner].say(status("race", run=f"race-{winner}"))
    assert books[0].status("race").run == f"race-{winner}"
    for book in books:
        book.close()


def test_a_first_word_that_nobody_takes_is_an_error(clock):
    with Broker() as away:
        settings = settings_of(away)
    with Book(settings, clock) as book, pytest.raises(BrokerUnreachable):
        book.say(status("orders"))


def test_a_run_outlives_its_broker_and_tells_afterwards_what_happened(clock):
    with Broker(process=True) as broker:
        with Book(settings_of(broker), clock) as book:
            book.say(status("orders"))
            broker.kill()
            for number in range(1_200):
                clock.ms += 10
                book.log("orders", "orders-1", "info", f"line {number}", clock.ms)
            book.progressed("orders", "orders-1", progress(1))
            book.say(status("orders", rows_in=7, at_ms=clock.ms))
            assert not book.stop_asked(status("orders"))
            broker.restart()
            clock.ms += 5_000
            book.say(status("orders", state="stopped", rows_in=8, at_ms=clock.ms))
        with Book(settings_of(broker), clock) as later:
            assert later.status("orders").rows_in == 8
            lines = texts(later, "orders")
            assert lines[-2] == "line 1199"
            assert "were given up" in lines[-1]
            assert len(lines) >= 990
            states = [one.state for one in later.events("orders", Wish(kinds=("state",)))]
            assert states == ["running", "stopped"]


def test_topics_that_somebody_deleted_are_made_again(clock):
    with Broker() as broker, Book(settings_of(broker), clock) as book:
        book.say(status("orders"))
        with Client(settings_of(broker)) as client:
            admin.delete_topic(client, "__pipelines")
            admin.delete_topic(client, "__pipeline_log")
        assert not book.stop_asked(status("orders"))

        def said():
            clock.ms += 2_000
            book.say(status("orders", at_ms=clock.ms))
            return book.statuses().get("orders")

        assert until(said).at_ms == clock.ms


def test_what_others_write_there_does_no_harm(book, other, broker):
    book.say(status("safe"))
    junk = [
        Record(0, NOW_MS, b"junk", b"not json"),
        Record(0, NOW_MS, b"safe/stop", b"[]"),
        Record(0, NOW_MS, b"gone", None),
    ]
    with Client(settings_of(broker)) as client:
        for topic in ("__pipelines", "__pipeline_log"):
            client.produce({TopicPartition(topic, 0): encode_batch(junk)})
    assert "safe" in other.statuses()
    assert "junk" not in other.statuses()
    assert not book.stop_asked(status("safe"))
    assert [one.kind for one in other.events("safe")] == ["state"]
