"""amqplib, RabbitMQ's client for Node, over a socket: the program is in node/scenarios.js."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from java_kit import until
from node_kit import Node, amqplib, told

from mainstem.cli.main import cli
from mainstem.testing import Broker

pytestmark = [pytest.mark.peers, pytest.mark.timeout(200)]


@pytest.fixture(scope="module")
def modules():
    return amqplib()


@pytest.fixture
def node(modules, tmp_path):
    programs = Node(modules, "scenarios", tmp_path)
    yield programs
    programs.close()


def test_node_connects_to_a_vhost_and_is_kept_by_heartbeats(node, broker):
    made = CliRunner().invoke(cli, ["namespace", "create", "shop"], env={"MAINSTEM_HTTP": broker.http})
    assert made.exit_code == 0, made.output
    saw = node("connecting", broker.amqp, "shop")
    assert "ConnectionClose" in saw.pop("nowhere"), "it does not tell its caller why"
    assert "403 (ACCESS-REFUSED)" in saw.pop("stranger")
    assert saw == {"heartbeat": 1, "product": "Mainstem", "still": 0, "elsewhere": 404, "byUrl": True}


def test_node_publishes_with_confirms(node, broker):
    saw = node("confirms", broker.amqp)
    assert saw == {
        "confirmed": 1000,
        "depth": 1000,
        "outcomes": [None, "message nacked"],
        "nacked": True,
    }


def test_node_acknowledges_requeues_and_drops(node, broker):
    saw = node("answers", broker.amqp)
    assert saw["seen"] == [
        *([name, False] for name in "abcde"),
        *([name, True] for name in "bce"),
    ]
    assert saw["left"] == 0


def test_node_holds_no_more_than_its_prefetch(node, broker):
    assert node("prefetch", broker.amqp) == {"held": 4, "early": 0, "third": "2", "before": 3, "got": 0}


def test_node_gets_back_what_leads_nowhere(node, broker):
    assert node("returned", broker.amqp) == {
        "replyCode": 312,
        "replyText": "NO_ROUTE",
        "exchange": "amq.direct",
        "routingKey": "nobody",
        "headers": {"mine": "yes"},
        "messageId": "m-1",
        "body": "where to",
        "order": ["return", "confirm"],
    }


def test_node_asks_and_is_answered_directly(node, broker):
    assert node("rpc", broker.amqp) == {
        "answers": [["one", "ONE"], ["two", "TWO"], ["three", "THREE"]],
        "addresses": 1,
        "address": "amq.rabbitmq.reply-to",
        "without": 406,
    }


def test_node_is_told_why_something_is_refused(node, broker):
    saw = node("refusals", broker.amqp)
    assert saw.pop("again") == {"queue": "strict", "messageCount": 0, "consumerCount": 0}
    assert saw.pop("after") == "strict"
    other = "406 inequivalent arg '{}' for queue 'strict' in vhost '/': received {} but current is {}"
    texts = {
        "otherTtl": other.format("x-message-ttl", "'1000'", "'60000'"),
        "noTtl": other.format("x-message-ttl", "none", "the value '60000' of type 'signedint'"),
        "notDurable": other.format("durable", "'false'", "'true'"),
        "noQueue": "404 no queue 'missing' in vhost '/'",
        "noExchange": "404 no exchange 'missing' in vhost '/'",
        "unbound": "404 no exchange 'missing' in vhost '/'",
    }
    assert saw.keys() == texts.keys()
    for name, expected in texts.items():
        code, _, text = expected.partition(" ")
        assert saw[name]["code"] == int(code)
        assert text in saw[name]["text"]
        assert saw[name]["told"] == [f"error {code}", "close"]


def test_node_reads_why_messages_died(node, broker):
    saw = node("dying", broker.amqp)
    death = {"count": 1, "exchange": "", "time": "timestamp"}
    assert saw["refused"] == {
        "body": "refused",
        "key": "was.refused",
        "death": {**death, "queue": "refusing", "reason": "rejected", "routing-keys": ["refusing"]},
        "first": ["refusing", "rejected", ""],
        "mine": 1,
    }
    assert saw["late"] == {
        "body": "too late",
        "key": "brief",
        "death": {**death, "queue": "brief", "reason": "expired", "routing-keys": ["brief"]},
        "first": ["brief", "expired", ""],
    }
    assert saw["pushed"]["body"] == "old"
    assert saw["pushed"]["death"] == {
        **death,
        "queue": "short",
        "reason": "maxlen",
        "routing-keys": ["short"],
        "original-expiration": "60000",
    }


def test_node_publishes_for_later(node, broker):
    saw = node("delayed", broker.amqp)
    assert [body for body, _ in saw["got"]] == ["0", "100", "200", "300"]
    assert saw["waited"] >= 300


def test_node_headers_of_every_type_come_back_as_they_went(node, broker):
    assert node("headers", broker.amqp) == {
        "wrong": [],
        "typed": [0.5, 255, 65535, 4294967295, -5],
        "left": False,
        "count": 22,
        "properties": [],
    }


def test_node_sends_large_messages_in_many_frames(node, broker):
    saw = node("large", broker.amqp)
    assert saw["same"] == [True] * 8
    assert (saw["tooLarge"]["code"], saw["left"]) == (406, 0)
    assert "message size 17825792 is larger than configured max size 16777216" in saw["tooLarge"]["text"]


def test_node_binds_exchanges_to_exchanges_and_topics(node, broker):
    saw = node("exchanges", broker.amqp)
    keys = ["news", "news.sport.ball", "news.sport.net", "x.sport.y", "weather", "news.a.b.c"]
    assert saw["found"] == {
        "all": keys,
        "news": [key for key in keys if key.startswith("news")],
        "sport": ["news.sport.ball", "news.sport.net"],
        "exact": ["news.sport.ball"],
        "one": ["news.sport.ball", "news.sport.net", "x.sport.y"],
        "late": 0,
    }
    assert saw["hidden"] == 403


def test_node_sees_what_a_quorum_queue_counts(node, broker):
    saw = node("quorum", broker.amqp)
    assert saw["seen"] == [[None, None], [1, None], [2, None], [3, 1], [4, 2], [5, 2]]
    assert saw["reason"] == "delivery_limit"


def test_node_is_told_that_its_queue_is_gone(node, broker):
    assert node("cancelled", broker.amqp) == {"cancelled": None, "messageCount": 0, "after": "amq.gen-"}


def test_node_is_told_that_the_broker_ends(node):
    with Broker(process=True) as broker:
        program = node.start("closing", broker.amqp)
        until("it is connected", lambda: "ready" in program.said, program)
        broker.stop()
        node.let_end()
    saw = told(program.said)
    assert (saw["code"], saw["errors"]) == (320, [])
    assert "CONNECTION_FORCED" in saw["text"]
    assert "closed" in saw["late"]


def test_node_comes_back_by_itself_after_a_restart(node):
    with Broker(process=True) as broker:
        program = node.start("recovering", broker.amqp)
        until("it consumes", lambda: "ready" in program.said and "got before" in program.said, program)
        broker.kill()
        broker.restart()
        until("it consumes again", lambda: "got after" in program.said, program)
        node.let_end()
    assert told(program.said) == {"recovered": True}
