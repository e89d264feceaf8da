"""Where the records of a pipeline's part go that cannot be read."""

from pathlib import Path

import pytest

from mainstem.pipeline.dead_topics import NONE, DeadTopics, of_part, of_topics
from mainstem.pipeline.dead_watch import letters, together
from mainstem.pipeline.jobs import job_of
from mainstem.pipeline.loading import load
from mainstem.pipeline.progress import DeadLetters, QueryProgress
from mainstem.pipeline.validating import validate

SQL = """
CREATE STREAM orders (id BIGINT) WITH (topic = 'orders, orders-old');
CREATE STREAM lines (value STRING) WITH (topic = 'lines', format = 'text', dead_letters = 'bad-lines');
CREATE STREAM bytes WITH (topic = 'bytes', format = 'raw');
CREATE STREAM every (id BIGINT) WITH (pattern = 'shop-.*');
CREATE STREAM far (id BIGINT) WITH (topic = 'far', kafka.bootstrap.servers = 'other:9092');
CREATE VIEW seen AS SELECT id FROM orders;
CREATE STREAM made WITH (topic = 'made') AS SELECT id FROM seen;
CREATE STREAM copied WITH (topic = 'copied', format = 'raw') AS SELECT value FROM bytes;
CREATE TABLE a WITH (format = 'parquet', path = 'a') AS SELECT id FROM seen;
CREATE TABLE b WITH (format = 'parquet', path = 'b') AS SELECT id FROM made;
CREATE TABLE c WITH (format = 'parquet', path = 'c') AS
  SELECT value FROM lines UNION ALL SELECT string(id) FROM orders;
CREATE TABLE d WITH (format = 'parquet', path = 'd') AS SELECT id FROM every;
CREATE TABLE e WITH (format = 'parquet', path = 'e') AS SELECT id FROM far;
CREATE TABLE f WITH (format = 'parquet', path = 'f') AS SELECT value FROM copied;
"""


@pytest.fixture
def topics(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("shop.sql").write_text(SQL)
    pipeline = load([Path("shop.sql")])
    inputs = validate(pipeline, None).inputs
    named = {part.name: part for part in pipeline.parts}
    return lambda name, **how: of_part(named[name], named, inputs, **how)


@pytest.mark.parametrize(
    ("part", "names"),
    [
        ("a", {"orders.dead", "orders-old.dead"}),  # through a view
        ("b", {"made.dead"}),  # what goes to a topic is read from there
        ("c", {"bad-lines", "orders.dead", "orders-old.dead"}),
        ("e", set()),  # of another broker
        ("f", set()),  # bytes are always read
    ],
)
def test_records_go_where_the_sources_of_a_query_send_them(topics, part, names):
    assert topics(part) == DeadTopics(frozenset(names))


def test_a_pattern_has_a_topic_for_each_topic_it_fits(topics):
    found = topics("d")
    assert found.among({"shop-1", "orders"}) == {"shop-1.dead"}
    assert found.left_by(["shop-1", "shop-1.dead", "orders.dead"]) == {"shop-1.dead"}


def test_in_a_backfill_nothing_is_read_again(topics):
    assert topics("b", read_again=False) == topics("a")


@pytest.mark.parametrize(
    ("part", "names"),
    [
        ("a", {"orders-again.dead", "orders-old-again.dead"}),
        ("c", {"bad-lines-again", "orders-again.dead", "orders-old-again.dead"}),
    ],
)
def test_a_backfill_leaves_the_live_dead_letters_alone(topics, part, names):
    assert topics(part).beside("-again").names == names
    assert topics(part).beside("") == topics(part)  # in place


def test_a_backfill_has_a_topic_for_each_topic_that_a_pattern_fits(topics):
    found = topics("d").beside("-again") | topics("a").beside("-again")
    assert "shop-1-again.dead" in found.among({"shop-1", "orders"})
    there = ["shop-1.dead", "shop-1-again.dead", "other-again.dead"]
    assert topics("d").beside("-again").left_by(there) == {"shop-1-again.dead"}


def test_what_is_no_pattern_is_left_to_the_source_to_tell():
    assert of_topics((), "(") == NONE


@pytest.mark.parametrize(
    ("kind", "options", "found"),
    [
        ("lake", {"topic": "a, b", "format": "json"}, of_topics(["a", "b"])),
        ("lake", {"pattern": "a.*", "format": "csv"}, of_topics((), "a.*")),
        ("lake", {"topic": "a", "format": "json", "dead_letter_topic": "x"}, of_topics((), given="x")),
        ("lake", {"topic": "a", "format": "raw"}, NONE),
        ("sync", {"topic": "a", "direction": "to"}, of_topics(["a"])),
        ("sync", {"topic": "a", "direction": "to", "dead": "x"}, of_topics((), given="x")),
        ("sync", {"topic": "a", "direction": "from"}, NONE),
        ("mirror", {"topics": "a"}, NONE),
    ],
)
def test_jobs_say_where_theirs_go(kind, options, found):
    assert job_of(kind).dead(options) == found


def one(topic, records, last):
    return DeadLetters(topic=topic, records=records, last=last)


def test_letters_are_told_of_topics_that_got_some_with_what_the_last_batch_added():
    now = {"a": 5, "b": 0, "c": 2, "d": -1}
    assert letters(now, {"a": 3, "c": 2}) == (one("a", 5, 2), one("c", 2, 0), one("d", -1, -1))
    assert letters({"a": 6}, {"a": -1}) == (one("a", 6, -1),)


def test_a_topic_that_several_queries_share_is_told_once_as_the_newest_has_it():
    def batch(at_ms, *dead):
        return QueryProgress(
            query="q",
            batch=1,
            at_ms=at_ms,
            input_rows=0,
            input_rows_per_s=0,
            output_rows=0,
            output_rows_per_s=0,
            batch_ms=1,
            dead=dead,
        )

    newer, older = batch(20, one("a", 7, 2)), batch(10, one("a", 5, 5), one("b", 1, 1))
    assert together([newer, older]) == (one("a", 7, 2), one("b", 1, 1))
