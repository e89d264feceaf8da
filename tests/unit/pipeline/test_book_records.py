import msgspec
import pytest

from mainstem.model.errors import InvalidRequest
from mainstem.pipeline import book_records as records
from mainstem.pipeline.progress import QueryProgress, RunStatus

NOW_MS = 1_800_000_000_000


def status(**changes):
    facts = {
        "pipeline": "orders",
        "run": "r1",
        "state": "running",
        "started_ms": NOW_MS - 60_000,
        "at_ms": NOW_MS,
        "host": "here",
        "pid": 7,
        "master": "local[*]",
        "files": ("orders.sql",),
        "checkpoints": "/var/checkpoints",
    }
    return RunStatus(**(facts | changes))


@pytest.mark.parametrize(
    ("state", "silent_ms", "shown"),
    [
        ("starting", 15_000, "starting"),
        ("starting", 15_001, "lost"),
        ("running", 15_000, "running"),
        ("running", 15_001, "lost"),
        ("running", -60_000, "running"),  # a clock that is ahead of ours
        ("stopping", 60_000, "stopping"),
        ("stopping", 120_001, "lost"),
        ("stopped", 10**9, "stopped"),
        ("done", 10**9, "done"),
        ("failed", 10**9, "failed"),
    ],
)
def test_a_run_that_says_nothing_for_too_long_is_lost_unless_it_is_over(state, silent_ms, shown):
    assert records.shown_state(status(state=state, at_ms=NOW_MS - silent_ms), NOW_MS) == shown


def test_only_runs_that_go_on_are_alive():
    assert records.is_alive(status(), NOW_MS)
    assert not records.is_alive(status(at_ms=NOW_MS - 20_000), NOW_MS)
    assert not records.is_alive(status(state="done"), NOW_MS)


def progress(**changes):
    facts = {
        "query": "revenue",
        "batch": 3,
        "at_ms": NOW_MS,
        "input_rows": 10,
        "input_rows_per_s": 10.0,
        "output_rows": 2,
        "output_rows_per_s": 2.0,
        "batch_ms": 200,
    }
    return QueryProgress(**(facts | changes))


def test_the_lag_of_a_run_is_that_of_the_queries_that_tell_theirs():
    assert records.total_lag(status()) is None
    assert records.total_lag(status(queries=(progress(),))) is None
    queries = (progress(lag=5), progress(query="copy", lag=7), progress(query="rate"))
    assert records.total_lag(status(queries=queries)) == 12


def test_a_status_comes_back_as_it_was_written():
    written = status(queries=(progress(lag=5, watermark_ms=NOW_MS),), error="no")
    assert records.read_status(msgspec.json.encode(written)) == written


@pytest.mark.parametrize("value", [None, b"", b"hello", b"[]", b'{"pipeline": "orders"}', b"\xff"])
def test_what_is_no_status_is_passed_over(value):
    assert records.read_status(value) is None


def test_a_status_of_a_newer_version_is_read_without_what_is_new():
    value = msgspec.json.encode(msgspec.to_builtins(status()) | {"mood": "good"})
    assert records.read_status(value) == status()


def test_a_state_event_says_where_a_run_began_and_why_it_failed():
    assert records.state_event(status(state="starting")).text == "on here, process 7, local[*]"
    failed = records.state_event(status(state="failed", error="no topic"))
    assert (failed.level, failed.text) == ("error", "no topic")


@pytest.mark.parametrize("name", ["", "a/b", "orders/stop"])
def test_a_name_that_would_collide_with_a_request_is_refused(name):
    with pytest.raises(InvalidRequest):
        records.status_key(name)
