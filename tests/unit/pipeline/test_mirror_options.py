"""What the options of mirror mean and refuse before Spark starts."""

import subprocess
import sys
from pathlib import Path

import pytest

from mainstem.client import TopicPartition
from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.jobs import job_of
from mainstem.pipeline.jobs.mirror import lag_line, lag_of, selection_of, source_options
from mainstem.pipeline.jobs.mirror_groups import Wanted

JOB = job_of("mirror")
PAGE = Path(__file__).parents[3] / "docs/pipelines/jobs-mirror.md"


def options(**given):
    defaults = {option.name: option.default for option in JOB.options if option.default}
    named = {("from" if name == "source" else name.replace("_", ".")): value for name, value in given.items()}
    return defaults | {"from": "old:9092"} | named


def test_every_option_is_in_the_page():
    text = PAGE.read_text()
    assert [option.name for option in JOB.options if f"`{option.name}`" not in text] == []


def test_topics_have_names_here_by_prefix_or_one_by_one():
    selection = selection_of(options(topics="a, b", prefix="old.", rename="b=bee"))
    assert [selection.target(name) for name in ("a", "b")] == ["old.a", "bee"]
    assert selection.selects("a")
    assert not selection.selects("old.a")


def test_a_pattern_fits_whole_names_and_no_dead_letters():
    selection = selection_of(options(pattern="orders.*"))
    assert [selection.selects(name) for name in ("orders", "orders-eu", "my-orders", "orders.dead")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give topics or pattern"),
        ({"topics": "a", "pattern": "b"}, "give topics or pattern"),
        ({"pattern": "("}, "pattern '\\('"),
        ({"topics": "a", "rename": "a"}, "rename is written"),
        ({"topics": "a", "rename": "b=c"}, "which is not one of the topics"),
        ({"topics": "a, b", "rename": "a=b"}, "would both become 'b'"),
        ({"topics": "a", "starting": "soon"}, "starting is one of earliest, latest"),
        ({"topics": "a", "compression": "rar"}, "compression is one of source, none"),
        ({"topics": "a", "groups_seconds": "0"}, "groups.seconds is a number above 0"),
        ({"topics": "a", "source": "old:port"}, "is not HOST:PORT"),
        (
            {"topics": "a, b", "prefix": "x.", "mapping": "x.b"},
            "the mirror of 'b': it needs a topic of its own",
        ),
        ({"topics": "a", "losses": "maybe"}, "losses is one of fail, pass"),
    ],
)
def test_what_does_not_fit_is_refused(given, message):
    with pytest.raises(InvalidRequest, match=message):
        JOB.check(options(**given))


def test_secrets_may_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("OLD_PASSWORD", "s3cret")
    told = source_options(options(from_sasl_password="$OLD_PASSWORD", from_sasl_username="alice"))
    assert told == {
        "kafka.bootstrap.servers": "old:9092",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "s3cret",
    }
    with pytest.raises(InvalidRequest, match="there is no such variable"):
        source_options(options(from_sasl_password="$NOT_THERE_AT_ALL"))


def test_groups_are_chosen_by_names_with_stars():
    wanted = Wanted(("billing", "report-*"))
    assert [wanted.selects(name) for name in ("billing", "report-1", "billing-2")] == [True, True, False]


def test_lag_is_what_the_source_has_and_was_not_copied():
    progress = {
        "sources": [
            {"endOffset": '{"a": {"0": 10}}', "latestOffset": '{"a": {"0": 17, "1": 3}, "b": {"0": 0}}'}
        ]
    }
    assert lag_of(progress) == {
        TopicPartition("a", 0): 7,
        TopicPartition("a", 1): 3,
        TopicPartition("b", 0): 0,
    }
    assert lag_line(progress) == "a 0: 7, a 1: 3 (10 in all)"
    assert lag_line(None) == "nothing copied yet"
    assert lag_line({"sources": [{"endOffset": None, "latestOffset": None}]}) == "none"


@pytest.mark.parametrize("kind", ["mirror", "sync"])
def test_options_are_checked_without_spark(kind):
    program = f"import sys; from mainstem.pipeline.jobs import job_of; job_of({kind!r}); print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert "mainstem.pipeline.jobs" in said.split()
    assert "pyspark" not in said.split()
