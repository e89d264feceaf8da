"""The commands for queues, against a real broker, with RabbitMQ's Python client beside them."""

import contextlib
import functools
import http.client
import json
import time

import pika
import pytest
from click.testing import CliRunner
from security_house import Files

from mainstem.cli.main import cli
from mainstem.testing import Broker

DEADLINE_S = 10


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


@pytest.fixture
def channel(broker):
    host, port = broker.amqp.split(":")
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))
    yield connection.channel()
    if connection.is_open:
        connection.close()


@pytest.fixture
def run(broker):
    def call(*arguments, code=0, stdin=None):
        words = [str(argument) for argument in arguments]
        result = CliRunner().invoke(
            cli, words, prog_name="mainstem", input=stdin, env={"MAINSTEM_HTTP": broker.http}
        )
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        return result

    return call


def rows(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def until(is_so):
    deadline = time.monotonic() + DEADLINE_S
    while not (found := is_so()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return found


def ready(run, queue):
    (row,) = rows(run("queue", "ls", queue, "--json"))
    return row["ready"]


def make_dead(run, channel, name, *bodies, key="order.new"):
    """A queue `name` bound to an exchange `name`.x, whose messages were all refused."""
    run("queue", "create", f"{name}.dead")
    run("queue", "create", name, "--dead-letters-to", f"{name}.dead")
    run("exchange", "create", f"{name}.x", "--kind", "topic")
    run("binding", "create", f"{name}.x", name, "--key", "#")
    for body in bodies:
        properties = pika.BasicProperties(
            headers={"kind": body}, message_id=f"m-{body}", expiration="3600000"
        )
        channel.basic_publish(f"{name}.x", key, body.encode(), properties)
    for _ in bodies:
        method = until(lambda: channel.basic_get(name)[0])
        channel.basic_reject(method.delivery_tag, requeue=False)
    until(lambda: ready(run, f"{name}.dead") == len(bodies))


def test_queues_are_made_listed_and_deleted(run, channel):
    run("queue", "create", "ls.a", "ls.b", "--ttl", "1h", "--max-length", 5, "-a", "x-max-length-bytes=100")
    channel.queue_declare("ls.a", durable=True, passive=True)
    assert (
        "exists"
        in run(
            "queue", "create", "ls.a", "--ttl", "1h", "--max-length", 5, "-a", "x-max-length-bytes=100"
        ).stdout
    )
    channel.confirm_delivery()
    channel.basic_publish("", "ls.a", b"hello")
    until(lambda: rows(run("queue", "ls", "ls.a", "--json"))[0]["ready"] == 1)
    listed = {row["queue"]: row for row in rows(run("queue", "ls", "ls.*", "--json"))}
    assert set(listed) == {"ls.a", "ls.b"}
    assert listed["ls.a"]["arguments"] == {
        "x-message-ttl": 3_600_000,
        "x-max-length": 5,
        "x-max-length-bytes": 100,
    }
    assert listed["ls.a"]["bytes"] == 5
    assert "ls.a" in run("queue", "ls").stdout
    assert "has messages" in run("queue", "delete", "ls.a", "--if-empty", "--yes", code=1).stderr
    assert "add --yes" in run("queue", "delete", "ls.a", code=2).stderr
    assert "with 1 message" in run("queue", "delete", "ls.a", "ls.b", "--yes").stdout
    assert not rows(run("queue", "ls", "ls.*", "--json"))


def test_what_is_mistyped_gets_a_guess_and_what_differs_is_said(run):
    run("queue", "create", "spelling")
    assert "Did you mean spelling?" in run("queue", "peek", "speling", code=2).stderr
    assert "Did you mean spelling?" in run("queue", "purge", "speling", "--yes", code=2).stderr
    assert "Did you mean amq.topic?" in run("binding", "create", "amq.topik", "spelling", code=2).stderr
    assert "there is no namespace 'nope'" in run("queue", "ls", "-N", "nope", code=2).stderr
    assert "x-message-ttl" in run("queue", "create", "spelling", "--ttl", "1s", code=1).stderr
    assert "Did you mean peek?" in run("queue", "peak", "x", code=2).stderr
    refused = run("queue", "create", "bad", "-a", "x-max-length=many", code=2).stderr
    assert "expected integer" in refused
    assert "the broker's own" in run("exchange", "create", "amq.mine", code=1).stderr
    assert "no answer from" in run("queue", "ls", "--http", "127.0.0.1:1", code=1).stderr


def test_peek_changes_nothing(run, channel):
    run("queue", "create", "peeked", "--priorities", 3)
    channel.basic_publish("", "peeked", b"low", pika.BasicProperties(priority=0, headers={"n": 1}))
    channel.basic_publish("", "peeked", b"\xff\x00", pika.BasicProperties(priority=2, content_type="x/y"))
    until(lambda: ready(run, "peeked") == 2)
    first, second = rows(run("queue", "peek", "peeked", "--json"))
    assert (first["body_base64"], first["id"], first["priority"]) == ("/wA=", "2:0", 2)
    assert first["properties"]["content_type"] == "x/y"
    assert (second["body"], second["headers"]) == ("low", {"n": 1})
    assert [row["body"] for row in rows(run("queue", "peek", "peeked", "--header", "n=1", "--json"))] == [
        "low"
    ]
    assert "0xff00" in run("queue", "peek", "peeked").stdout
    method, _, body = channel.basic_get("peeked")
    assert (body, method.redelivered) == (b"\xff\x00", False)
    assert [row["id"] for row in rows(run("queue", "peek", "peeked", "--unacked", "--json"))] == ["2:0"]
    channel.basic_ack(method.delivery_tag)
    assert "dropped 1 message" in run("queue", "purge", "peeked", "--yes").stdout
    assert ready(run, "peeked") == 0


def test_a_broker_that_was_named_by_another_listener_is_not_mistaken(broker):
    """Or a queue of the usual one would be purged."""
    for words, env in (
        (["-b", broker.kafka, "queue", "ls"], {}),
        (["queue", "purge", "orders", "--yes"], {"MAINSTEM_BOOTSTRAP": broker.kafka}),
    ):
        result = CliRunner().invoke(cli, words, prog_name="mainstem", env=env)
        assert result.exit_code == 2
        assert f"{broker.kafka} is one for Kafka's clients" in result.stderr
        assert (
            CliRunner()
            .invoke(cli, [*words[: words.index("queue")], "queue", "ls", "--http", broker.http])
            .exit_code
            == 0
        )


def test_a_queue_that_is_not_there_is_told_when_it_is_published_to(run):
    run("queue", "create", "spelt")
    assert (
        "there is no queue 'spelled'. Did you mean spelt?"
        in run("publish", "-q", "spelled", "hi", code=2).stderr
    )
    later = run("publish", "-q", "spelled", "hi", "--delay", "1h")
    assert "If there is none when it is due, the message is dropped." in later.stderr
    assert "delayed until" in later.stdout
    (waiting,) = rows(run("delay", "ls", "--json"))
    run("delay", "cancel", waiting["id"], "--yes")


def test_publish_says_where_messages_went(run, channel):
    run("queue", "create", "told")
    run("exchange", "create", "news", "--kind", "topic")
    run("binding", "create", "news", "told", "--key", "eu.*")
    assert (
        "published to told"
        in run("publish", "-x", "news", "-k", "eu.fr", "hi", "-H", "n=1", "-P", "priority=3").stdout
    )
    assert "went nowhere" in run("publish", "-x", "news", "-k", "us", "hi", code=1).stderr
    assert "2 published" in run("publish", "-q", "told", "--lines", stdin="one\ntwo\n").stdout
    method, properties, body = channel.basic_get("told", auto_ack=True)
    assert (method.exchange, method.routing_key, body) == ("news", "eu.fr", b"hi")
    assert (properties.headers, properties.priority, properties.delivery_mode) == ({"n": 1}, 3, 2)
    assert [channel.basic_get("told", auto_ack=True)[2] for _ in range(2)] == [b"one", b"two"]
    assert "no property 'colour'" in run("publish", "-q", "told", "x", "-P", "colour=red", code=2).stderr
    assert (
        "there is no exchange 'newz'. Did you mean news?" in run("publish", "-x", "newz", "x", code=2).stderr
    )


def test_a_full_queue_refuses_and_says_so(run):
    run("queue", "create", "full", "--max-length", 1, "-a", "x-overflow=reject-publish")
    run("publish", "-q", "full", "one")
    assert "refused: full: full" in run("publish", "-q", "full", "two", code=1).stdout


def test_bindings_are_listed_and_deleted(run):
    run("queue", "create", "bound")
    run("binding", "create", "amq.headers", "bound", "-a", "x-match=any", "-a", "n=1")
    run("binding", "create", "amq.topic", "amq.fanout", "--to-exchange", "--key", "a.#")
    assert "bound" in run("binding", "ls", "bound").stdout
    assert rows(run("binding", "ls", "bound", "--json"))[0]["arguments"] == {"x-match": "any", "n": 1}
    assert "not bound" in run("binding", "delete", "amq.headers", "bound", "--yes", code=2).stderr
    run("binding", "delete", "amq.headers", "bound", "-a", "x-match=any", "-a", "n=1", "--yes")
    run("binding", "delete", "amq.topic", "amq.fanout", "--to-exchange", "--key", "a.#", "--yes")
    assert not rows(run("binding", "ls", "bound", "--json"))
    run("exchange", "create", "gone", "--kind", "fanout", "--alternate", "amq.direct")
    assert rows(run("exchange", "ls", "gone", "--json"))[0]["arguments"] == {
        "alternate-exchange": "amq.direct"
    }
    run("exchange", "delete", "gone", "--yes")
    assert "there is no exchange 'gone'" in run("exchange", "delete", "gone", "--yes", code=2).stderr


def test_dead_letters_are_shown_with_their_history(run, channel):
    make_dead(run, channel, "hist", "a", "b")
    (listed,) = (row for row in rows(run("dlq", "ls", "--json")) if row["queue"] == "hist.dead")
    assert (listed["ready"], listed["from"]) == (2, ["hist"])
    letters = rows(run("dlq", "ls", "hist.dead", "--json"))
    assert [(row["reason"], row["died_in"]) for row in letters] == [("rejected", "hist")] * 2
    assert not rows(run("dlq", "ls", "hist.dead", "--reason", "expired", "--json"))
    assert "rejected" in run("dlq", "ls", "hist.dead").stdout
    shown = run("dlq", "show", "hist.dead", letters[0]["id"]).stdout
    assert "rejected in hist, 1 time" in shown
    assert "header kind" in shown
    assert "has no message 99" in run("dlq", "show", "hist.dead", 99, code=2).stderr
    assert "no message id" in run("dlq", "show", "hist.dead", "x:y", code=2).stderr


def test_redrive_sends_dead_letters_back_as_they_were_published(run, channel):
    make_dead(run, channel, "back", "a", "b", "c")
    dry = rows(run("dlq", "redrive", "back.dead", "--dry-run", "--json"))
    assert [(row["outcome"], row["to"]) for row in dry] == [("would move", ["back"])] * 3
    assert ready(run, "back.dead") == 3
    ids = [row["id"] for row in rows(run("dlq", "ls", "back.dead", "--json"))]
    outcome = rows(run("dlq", "redrive", "--yes", "back.dead", ids[1], 77, "--json", code=1))
    assert {row["id"]: row["outcome"] for row in outcome} == {ids[1]: "moved", "77": "not found"}
    method, properties, body = channel.basic_get("back", auto_ack=True)
    assert (method.exchange, method.routing_key, body) == ("back.x", "order.new", b"b")
    assert properties.headers["x-death"][0]["queue"] == "back"
    assert (properties.headers["kind"], properties.message_id, properties.expiration) == ("b", "m-b", None)
    assert (
        "1 moved"
        in run("dlq", "redrive", "back.dead", "--header", "kind=c", "--fresh", "--body", "C", "--yes").stderr
    )
    _, properties, body = channel.basic_get("back", auto_ack=True)
    assert (properties.headers, body) == ({"kind": "c"}, b"C")
    assert (
        "1 moved"
        in run(
            "dlq",
            "redrive",
            "--yes",
            "back.dead",
            "--set-header",
            "try=2",
            "--drop-header",
            "kind",
            "--limit",
            5,
        ).stderr
    )
    _, properties, body = channel.basic_get("back", auto_ack=True)
    assert (properties.headers["try"], "kind" in properties.headers, body) == (2, False, b"a")
    assert ready(run, "back.dead") == 0
    assert "No messages to move" in run("dlq", "redrive", "--yes", "back.dead").stderr


def test_redrive_asks_before_it_moves_anything(run, channel):
    make_dead(run, channel, "asked", "a")
    refused = run("dlq", "redrive", "asked.dead", code=2).stderr
    assert "refused: this would move all that fits out of queue 'asked.dead'; add --yes" in refused
    (letter,) = rows(run("dlq", "ls", "asked.dead", "--json"))
    assert "move 1 message out of" in run("dlq", "redrive", "asked.dead", letter["id"], code=2).stderr
    run("dlq", "redrive", "asked.dead", "--dry-run")
    assert ready(run, "asked.dead") == 1


def test_redrive_goes_elsewhere_when_told_and_says_what_cannot_move(run, channel):
    make_dead(run, channel, "away", "a", "b")
    run("queue", "create", "park", "away.copy")
    run("binding", "create", "away.x", "away.copy", "--key", "#")
    (moved,) = rows(run("dlq", "redrive", "--yes", "away.dead", "--limit", 1, "--to", "park", "--json"))
    assert moved["to"] == ["park"]
    assert "already" in run("dlq", "redrive", "--yes", "away.dead", "--to", "away.dead", code=2).stderr
    assert (
        "there is no queue 'parc'"
        in run("dlq", "redrive", "--yes", "away.dead", "--to", "parc", code=2).stderr
    )
    method, _, _ = channel.basic_get("away.dead")
    (letter,) = rows(run("queue", "peek", "away.dead", "--unacked", "--json"))
    (held,) = rows(run("dlq", "redrive", "--yes", "away.dead", letter["id"], "--json", code=1))
    assert held["outcome"] == "held"
    channel.basic_nack(method.delivery_tag, requeue=True)
    until(lambda: ready(run, "away.dead") == 1)
    unroutable = run(
        "dlq", "redrive", "--yes", "away.dead", "--to-exchange", "amq.direct", "--new-key", "no", code=1
    )
    assert "leads nowhere" in unroutable.stdout
    (again,) = rows(run("dlq", "redrive", "--yes", "away.dead", "--as-published", "--json"))
    assert again["to"] == ["away", "away.copy"]
    run("queue", "create", "plain")
    run("publish", "-q", "plain", "x")
    assert "no dead letter" in run("dlq", "redrive", "--yes", "plain", code=1).stdout


def test_what_was_redriven_is_in_one_place_after_a_restart(run, broker, channel):
    make_dead(run, channel, "kept", "a", "b", "c")
    run("dlq", "redrive", "--yes", "kept.dead", "--limit", 2)
    channel.connection.close()
    broker.stop()
    broker.start()
    assert [row["body"] for row in rows(run("queue", "peek", "kept", "--json"))] == ["a", "b"]
    assert [row["body"] for row in rows(run("queue", "peek", "kept.dead", "--json"))] == ["c"]


def test_a_redrive_that_is_killed_leaves_every_message_in_one_place():
    bodies = [f"m-{n}" for n in range(3000)]
    with Broker(process=True) as broker:
        env = {"MAINSTEM_HTTP": broker.http}
        call = functools.partial(CliRunner().invoke, cli, prog_name="mainstem", env=env)
        assert call(["queue", "create", "from", "to"]).exit_code == 0
        assert call(["publish", "-q", "from", "--lines"], input="\n".join(bodies)).exit_code == 0
        connection = http.client.HTTPConnection(*broker.http.split(":"), timeout=30)
        connection.request("POST", "/admin/redrive", json.dumps({"queue": "from", "to_queue": "to"}))
        moved = []
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            for line in connection.getresponse():
                moved.append(json.loads(line)["id"])
                if len(moved) == 500:
                    broker.kill()
        broker.start()
        found = {
            queue: [row["body"] for row in rows(call(["queue", "peek", queue, "-n", "9999", "--json"]))]
            for queue in ("from", "to")
        }
    assert sorted(found["from"] + found["to"]) == sorted(bodies)
    assert found["to"][: len(moved)] == bodies[: len(moved)], "what was told as moved is moved"


def test_delays_are_listed_and_cancelled(run, channel):
    run("queue", "create", "later")
    assert "delayed until" in run("publish", "-q", "later", "soon", "--delay", "300ms").stdout
    run("publish", "-q", "later", "never", "--delay", "1h")
    pending = rows(run("delay", "ls", "--json"))
    (never,) = (row for row in pending if row["bytes"] == 5)
    assert never["keys"] == ["later"]
    assert "cancelled" in run("delay", "cancel", never["id"], "--yes").stdout
    assert "no message" in run("delay", "cancel", never["id"], "--yes", code=2).stderr
    until(lambda: ready(run, "later") == 1)
    assert channel.basic_get("later", auto_ack=True)[2] == b"soon"
    assert not rows(run("delay", "ls", "--json"))


def test_policies_change_queues_that_are_there(run):
    run("queue", "create", "ruled")
    run("publish", "-q", "ruled", "--lines", stdin="1\n2\n3\n")
    run("policy", "set", "short", "^ruled$", "max-length=1", "--apply-to", "queues", "--priority", 3)
    until(lambda: ready(run, "ruled") == 1)
    assert rows(run("queue", "ls", "ruled", "--json"))[0]["policy"] == "short"
    assert "max-length" in run("policy", "ls").stdout
    assert "cannot set 'ha-mode'" in run("policy", "set", "x", "", "ha-mode=all", code=2).stderr
    run("policy", "delete", "short", "--yes")
    assert "there is no policy 'short'" in run("policy", "delete", "short", "--yes", code=2).stderr


def test_namespaces_are_apart(run, broker):
    run("namespace", "create", "shop")
    run("queue", "create", "only-here", "-N", "shop")
    run("publish", "-N", "shop", "-q", "only-here", "x")
    host, port = broker.amqp.split(":")
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port), "shop"))
    assert connection.channel().basic_get("only-here", auto_ack=True)[2] == b"x"
    connection.close()
    assert not rows(run("queue", "ls", "only-here", "--json"))
    assert "1 queue" in run("namespace", "delete", "shop", "--yes").stdout
    assert "shop" not in run("namespace", "ls").stdout
    assert "the broker's own" in run("namespace", "delete", "/", "--yes", code=1).stderr


def test_definitions_of_rabbitmq_come_in_and_go_out(run, tmp_path):
    given = {
        "rabbit_version": "4.1.0",
        "vhosts": [{"name": "imported"}],
        "users": [
            {"name": "old", "password_hash": "abc", "hashing_algorithm": "rabbit_password_hashing_sha256"}
        ],
        "permissions": [{"user": "old", "vhost": "imported", "configure": ".*", "write": ".*", "read": ".*"}],
        "parameters": [{"component": "shovel", "name": "move"}],
        "policies": [
            {
                "vhost": "imported",
                "name": "p",
                "pattern": "^q",
                "apply-to": "queues",
                "definition": {"max-length": 10, "ha-mode": "all"},
                "priority": 1,
            }
        ],
        "exchanges": [
            {"name": "e", "vhost": "imported", "type": "topic", "durable": True, "arguments": {}},
            {"name": "odd", "vhost": "imported", "type": "x-odd", "durable": True, "arguments": {}},
        ],
        "queues": [
            {"name": "q", "vhost": "imported", "durable": True, "arguments": {"x-message-ttl": 5000}},
            {"name": "qq", "vhost": "imported", "type": "quorum", "durable": True, "arguments": {}},
        ],
        "bindings": [
            {
                "source": "e",
                "vhost": "imported",
                "destination": "q",
                "destination_type": "queue",
                "routing_key": "a.#",
                "arguments": {},
            },
            {"source": "e", "vhost": "imported", "destination": "no", "routing_key": ""},
        ],
        "surprise": [1],
    }
    file = tmp_path / "rabbit.json"
    file.write_text(json.dumps(given))
    dry = rows(run("definitions", "import", file, "--dry-run", "--json", code=1))
    assert "imported" not in run("namespace", "ls").stdout
    real = rows(run("definitions", "import", file, "--json", code=1))
    assert [row["outcome"].replace("would create", "created") for row in dry] == [
        row["outcome"] for row in real
    ]
    outcome = {(row["what"], row["name"]): row for row in real}
    assert outcome["vhosts", "imported"]["outcome"] == "created"
    assert outcome["users", "old"]["outcome"] == "unsupported"
    assert "ha-mode" in outcome["policies", "p"]["left_out"]
    assert outcome["exchanges", "odd"]["outcome"] == "failed"
    assert outcome["bindings", "e -> no ()"]["why"] == "there is no queue 'no'"
    assert outcome["permissions", "old in imported"]["outcome"] == "created"
    assert {row["what"] for row in real if row["outcome"] == "unsupported"} == {
        "users",
        "parameters",
        "surprise",
    }
    (queue,) = rows(run("queue", "ls", "qq", "-N", "imported", "--json"))
    assert (queue["kind"], queue["policy"]) == ("quorum", "p")
    out = tmp_path / "out.json"
    run("definitions", "export", out, "-N", "imported")
    again = json.loads(out.read_text())
    assert [one["name"] for one in again["queues"]] == ["q", "qq"]
    assert again["bindings"] == given["bindings"][:1]
    assert again["policies"][0]["definition"] == {"max-length": 10}
    assert again["permissions"] == []  # a user that is not there: RabbitMQ would refuse the whole file
    run("namespace", "delete", "imported", "--yes")
    everything = rows(run("definitions", "import", out, "--json"))
    assert {row["outcome"] for row in everything} == {"created"}
    assert {row["outcome"] for row in rows(run("definitions", "import", out, "--json"))} == {"exists"}
    assert "is no JSON" in run("definitions", "import", "-", stdin="{", code=2).stderr


def test_where_people_must_log_in_the_token_is_asked_for(tmp_path):
    token = tmp_path / "token"
    token.write_text("a-long-secret-token\n")
    token.chmod(0o600)
    with Broker({"security.http_token_file": str(token)}) as broker:
        where = ("--http", broker.http)
        result = CliRunner().invoke(cli, ["queue", "ls", *where], prog_name="mainstem")
        assert result.exit_code == 1
        assert "use --token-file" in result.stderr
        result = CliRunner().invoke(
            cli, ["queue", "ls", *where, "--token-file", str(token)], prog_name="mainstem"
        )
        assert result.exit_code == 0
    with Broker({"security.authentication": "required"}) as broker:
        result = CliRunner().invoke(cli, ["queue", "ls", "--http", broker.http], prog_name="mainstem")
        assert result.exit_code == 1
        assert "security.http_token_file" in result.stderr


def test_a_listener_with_tls_is_asked_over_tls(tmp_path):
    files = Files(tmp_path)
    (tmp_path / "token").write_text("a-token\n")
    settings = {"security.http_token_file": str(tmp_path / "token"), **files.settings}
    with Broker(settings, listen={"http+tls": "127.0.0.1:0"}) as broker:
        where = ["--http", broker.listening["http+tls"], "--token-file", str(tmp_path / "token")]
        result = CliRunner().invoke(cli, ["namespace", "ls", *where, "--tls-ca", str(files.ca)])
        assert result.exit_code == 0, result.stderr
        assert "certificate" in CliRunner().invoke(cli, ["namespace", "ls", *where, "--tls"]).stderr
