"""Dead letters are counted by where their topics end, in a real broker."""

import re
import time
import urllib.request

import pytest

from mainstem.client import Client, ClientSettings, TopicPartition, admin, parse_bootstrap
from mainstem.model.records import Record, encode_batch
from mainstem.pipeline.dead_topics import DeadTopics, of_topics
from mainstem.pipeline.dead_watch import DeadWatch
from mainstem.testing.broker import Broker


@pytest.fixture
def broker():
    with Broker() as running:
        yield running


@pytest.fixture
def watched(client):
    made = []

    def watch(topics):
        made.append(DeadWatch(client.settings, topics))
        return made[-1]

    yield watch
    for one in made:
        one.close()


@pytest.fixture
def client(broker):
    with Client(ClientSettings(parse_bootstrap(broker.kafka), attempts=1)) as client:
        yield client


def put(client, topic, count, partition=0):
    client.topic(topic)
    batch = encode_batch([Record(0, 1_000, None, b"bad")] * count)
    client.produce({TopicPartition(topic, partition): batch})


def test_what_was_there_before_a_run_is_not_its_own(client, watched):
    admin.create_topic(client, "a.dead", 2)
    put(client, "a.dead", 5)
    watch = watched(of_topics(["a", "b"]))
    watch.begin()
    assert watch.look(["a.dead", "b.dead"]) == {"a.dead": 0, "b.dead": 0}
    put(client, "a.dead", 2, partition=1)
    admin.create_topic(client, "b.dead", 1)  # as by the first letter
    put(client, "b.dead", 3)
    assert watch.look(["a.dead", "b.dead"]) == {"a.dead": 2, "b.dead": 3}
    admin.delete_topic(client, "a.dead")
    admin.create_topic(client, "a.dead", 1)
    put(client, "a.dead", 1)
    assert watch.look(["a.dead"]) == {"a.dead": 1}


def test_topics_of_a_pattern_are_found(client, watched):
    for topic in ("shop-1", "shop-1.dead", "other.dead"):
        admin.create_topic(client, topic, 1)
    put(client, "shop-1.dead", 4)
    dead = of_topics((), "shop-.*")
    watch = watched(dead)
    watch.begin()
    put(client, "shop-1.dead", 1)
    assert watch.found(dead) == {"shop-1.dead"}
    assert watch.look(dead.among(["shop-1", "shop-2"])) == {"shop-1.dead": 1, "shop-2.dead": 0}


def test_a_broker_that_is_away_makes_figures_unknown_and_no_errors(broker, watched):
    dead = DeadTopics(frozenset({"a.dead"}), frozenset({"b-.*"}))
    watch = watched(dead)
    watch.begin()
    broker.stop()
    assert watch.found(dead) == {"a.dead"}
    assert watch.look(["a.dead"]) == {"a.dead": -1}


def test_where_nothing_can_be_bad_nobody_is_asked(broker, watched):
    watch = watched(DeadTopics())
    broker.stop()
    watch.begin()
    assert watch.look([]) == {}


def open_connections(broker):
    with urllib.request.urlopen(f"http://{broker.http}/metrics", timeout=30) as answer:
        found = re.findall(r"^mainstem_kafka_connections\S* (\d+)", answer.read().decode(), re.MULTILINE)
    return sum(map(int, found))


def until_open(broker, count):
    deadline = time.monotonic() + 30
    while open_connections(broker) != count:
        assert time.monotonic() < deadline, f"{open_connections(broker)} connections, not {count}"
        time.sleep(0.02)


def test_a_connection_stays_open_between_looks_and_no_longer_than_the_run(broker, client, watched):
    admin.create_topic(client, "a.dead", 1)
    others = open_connections(broker)
    watch = watched(of_topics(["a"]))
    watch.begin()
    for _ in range(3):
        watch.look(["a.dead"])
        until_open(broker, others + 1)
    watch.close()
    until_open(broker, others)
