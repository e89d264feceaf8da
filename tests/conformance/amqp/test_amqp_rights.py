"""Rights in virtual hosts: who may open which, what may be done there, and permissions taken from RabbitMQ.

Codes and texts of the refusals are those of RabbitMQ 4.3; rules are Mainstem's, so it is for Mainstem alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from amqp_kit import OTHER, Inbox, channel_refused, confirming, connected, must_get, parameters, put
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from pika.adapters.blocking_connection import BlockingConnection
from pika.exceptions import ProbableAccessDeniedError, ProbableAuthenticationError
from security_house import PASSWORDS, Files, librdkafka

from mainstem.cli.main import cli
from mainstem.testing.broker import Broker

pytestmark = pytest.mark.skipif(OTHER is not None, reason="another broker has other users and rules")

ALL = {"configure": ".*", "write": ".*", "read": ".*"}
DEFINITIONS = {
    "vhosts": [{"name": name} for name in ("shop", "a", "a.b", "/prod", "closed")],
    "permissions": [
        {"user": "bob", "vhost": "/", **ALL},
        {"user": "alice", "vhost": "shop", **ALL},
        {"user": "alice", "vhost": "a", "configure": "^$", "write": "", "read": r"^b\.c$"},
        {"user": "alice", "vhost": "a.b", "configure": "", "write": "^(out|amq\\.default)$", "read": "^in.*"},
        {"user": "alice", "vhost": "/prod", "configure": "^mine", "write": "", "read": ""},
    ],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("rights"))


@contextmanager
def guarded(files: Files) -> Iterator[Broker]:
    """A broker at which people must log in."""
    token = files.folder / "token"
    token.write_text("a-long-secret-token\n")
    token.chmod(0o600)
    settings = {**files.settings, "security.http_token_file": str(token)}
    with Broker(settings, listen={"kafka+tls": "127.0.0.1:0"}) as broker:
        yield broker


def run(broker: Broker, files: Files, *words: str | Path) -> str:
    arguments = [*map(str, words), "--http", broker.http, "--token-file", str(files.folder / "token")]
    result = CliRunner().invoke(cli, arguments, prog_name="mainstem")
    assert result.exit_code == 0, (result.stdout, result.stderr, result.exception)
    return result.stdout


def manage(broker: Broker, *words: str, code: int = 0, **env: str) -> str:
    """Users and rules, by the commands for them."""
    known = {"MAINSTEM_BOOTSTRAP": broker.kafka, "MAINSTEM_USER": "admin", **env}
    result = CliRunner().invoke(cli, words, env={"MAINSTEM_PASSWORD": PASSWORDS["admin"], **known})
    assert result.exit_code == code, result.output
    return result.output


def take_over(broker: Broker, files: Files, found: dict[str, Any], *flags: str) -> str:
    file = files.folder / "definitions.json"
    file.write_text(json.dumps(found))
    return run(broker, files, "definitions", "import", file, *flags)


@pytest.fixture(scope="module")
def broker(files: Files) -> Iterator[Broker]:
    with guarded(files) as broker:
        assert take_over(broker, files, DEFINITIONS) == ""  # nothing was left out
        with opened(broker, "admin", "a") as connection:
            connection.channel().queue_declare("b.c", durable=True)
        with opened(broker, "admin", "a.b") as connection:
            for name in ("c", "in.box", "secret"):
                connection.channel().queue_declare(name, durable=True)
            connection.channel().exchange_declare("out", "fanout", durable=True)
            connection.channel().exchange_declare("hidden", "fanout", durable=True)
        yield broker


def opened(broker: Broker, user: str, vhost: str, password: str | None = None) -> Any:
    credentials = pika.PlainCredentials(user, password or PASSWORDS[user])
    return connected(broker.amqp, credentials=credentials, virtual_host=vhost)


def may_not_open(broker: Broker, user: str, vhost: str) -> str:
    """What the client is told."""
    credentials = pika.PlainCredentials(user, PASSWORDS[user])
    with pytest.raises(ProbableAccessDeniedError) as refused:
        BlockingConnection(parameters(broker.amqp, credentials=credentials, virtual_host=vhost))
    return str(refused.value.args[0])


@pytest.fixture
def alice(broker: Broker) -> Iterator[BlockingConnection]:
    """In the vhost where she may write `out` and read what begins with `in`."""
    with opened(broker, "alice", "a.b") as connection:
        yield connection


def rule(name: str, operation: AclOperation, user: str = "alice") -> AclBinding:
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    return AclBinding(ResourceType.TOPIC, name, literal, f"User:{user}", "*", operation, allow)


@contextmanager
def holding(broker: Broker, files: Files, *rules: AclBinding) -> Iterator[None]:
    """Rules made as Kafka's tools make them, and taken away in the end."""
    admin = AdminClient(librdkafka(broker, files))
    for done in admin.create_acls(list(rules), request_timeout=30).values():
        done.result()
    yield
    filters = [
        AclBindingFilter(
            one.restype,
            one.name,
            one.resource_pattern_type,
            one.principal,
            one.host,
            one.operation,
            one.permission_type,
        )
        for one in rules
    ]
    for done in admin.delete_acls(filters, request_timeout=30).values():
        assert len(done.result()) == 1


# --- opening a vhost -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "vhost"), [("bob", "shop"), ("bob", "closed"), ("alice", "/"), ("alice", "closed")]
)
def test_who_has_no_right_in_a_vhost_may_not_open_it(broker: Broker, user: str, vhost: str) -> None:
    text = f"(530) \"NOT_ALLOWED - access to vhost '{vhost}' refused for user '{user}'\""
    assert text in may_not_open(broker, user, vhost)


def test_a_vhost_that_is_not_there_is_not_found_by_anybody(broker: Broker) -> None:
    assert "NOT_ALLOWED - vhost nowhere not found" in may_not_open(broker, "bob", "nowhere")


@pytest.mark.parametrize("vhost", ["/", "shop", "a", "a.b", "/prod", "closed"])
def test_a_superuser_opens_every_vhost(broker: Broker, vhost: str) -> None:
    with opened(broker, "admin", vhost) as connection:
        assert connection.channel().queue_declare("", exclusive=True).method.queue


@pytest.mark.parametrize(
    ("user", "vhost"), [("bob", "/"), ("alice", "shop"), ("alice", "a"), ("alice", "a.b"), ("alice", "/prod")]
)
def test_one_right_of_any_kind_opens_a_vhost(broker: Broker, user: str, vhost: str) -> None:
    with opened(broker, user, vhost) as connection:
        assert connection.channel().is_open


def test_where_nobody_has_to_log_in_every_vhost_is_open() -> None:
    with Broker() as free:
        found = CliRunner().invoke(cli, ["namespace", "create", "shop", "--http", free.http])
        assert found.exit_code == 0, found.output
        with connected(free.amqp, virtual_host="shop") as connection:
            assert connection.channel().queue_declare("any").method.queue == "any"


# --- names in rules ------------------------------------------------------------------------------


def test_a_right_in_one_vhost_is_none_in_another_of_a_similar_name(broker: Broker) -> None:
    with opened(broker, "alice", "a") as connection:
        assert connection.channel().basic_get("b.c") == (None, None, None)
    with opened(broker, "alice", "a.b") as connection:
        text = "ACCESS_REFUSED - read access to queue 'c' in vhost 'a.b' refused for user 'alice'"
        with channel_refused(403, text):
            connection.channel().basic_get("c")


def test_a_vhost_with_a_slash_has_rules_of_its_own(broker: Broker) -> None:
    with opened(broker, "alice", "/prod") as connection:
        channel = connection.channel()
        channel.queue_declare("mine-1")
        channel.queue_delete("mine-1")
        text = "ACCESS_REFUSED - configure access to queue 'other' in vhost '/prod' refused for user 'alice'"
        with channel_refused(403, text):
            channel.queue_declare("other")


def test_a_rule_made_by_kafkas_tools_counts_at_once_on_open_connections(broker, files, alice) -> None:
    with channel_refused(403):
        alice.channel().basic_get("secret")
    with holding(broker, files, rule("/a.b/secret", AclOperation.READ)):
        assert alice.channel().basic_get("secret") == (None, None, None)


def test_rules_are_made_for_a_vhost_by_the_command_too(broker: Broker) -> None:
    manage(broker, "acl", "add", "bob", "create", "read", "--topic", "/closed/b", "--prefix")
    manage(broker, "acl", "check", "bob", "create", "--topic", "/closed/bobs")
    manage(broker, "acl", "check", "bob", "create", "--topic", "/closed/other", code=1)
    with opened(broker, "bob", "closed") as connection:
        assert connection.channel().queue_declare("bobs", exclusive=True).method.queue == "bobs"
    manage(broker, "acl", "rm", "--principal", "bob", "--topic", "/closed/b", "--yes")
    assert "nothing has the name" in manage(
        broker, "acl", "add", "bob", "read", "--topic", "/closed/*", code=2
    )
    assert "is a namespace" in manage(broker, "acl", "add", "bob", "read", "--topic", "/closed/", code=2)


def test_everything_in_a_vhost_is_everything(broker: Broker) -> None:
    with opened(broker, "alice", "shop") as connection:
        channel = confirming(connection)
        channel.queue_declare("orders", durable=True)
        channel.exchange_declare("new", "topic", durable=True)
        channel.queue_bind("orders", "new", "#")
        channel.basic_publish("new", "k", b"1")
        put(channel, "orders", "2")
        assert [must_get(channel, "orders").body for _ in "12"] == ["1", "2"]


# --- looking whether something is there -----------------------------------------------------------


def test_any_right_is_enough_to_ask_whether_something_is_there(broker: Broker, alice) -> None:
    channel = alice.channel()
    assert channel.queue_declare("in.box", passive=True).method.message_count == 0
    channel.exchange_declare("out", passive=True)
    with opened(broker, "alice", "/prod") as other, channel_refused(404, "NOT_FOUND - no queue 'mine-2'"):
        other.channel().queue_declare("mine-2", passive=True)


@pytest.mark.parametrize("name", ["secret", "not-there"])
def test_without_a_right_a_queue_cannot_be_asked_for_whether_it_is_there_or_not(alice, name: str) -> None:
    text = f"ACCESS_REFUSED - configure access to queue '{name}' in vhost 'a.b' refused for user 'alice'"
    with channel_refused(403, text):
        alice.channel().queue_declare(name, passive=True)


@pytest.mark.parametrize("name", ["hidden", "not-there", "amq.direct"])
def test_without_a_right_an_exchange_cannot_be_asked_for_either(alice, name: str) -> None:
    text = f"ACCESS_REFUSED - configure access to exchange '{name}' in vhost 'a.b' refused for user 'alice'"
    with channel_refused(403, text):
        alice.channel().exchange_declare(name, passive=True)


@pytest.mark.parametrize("name", ["hidden", "not-there"])
def test_publishing_tells_nobody_which_exchanges_there_are(alice, name: str) -> None:
    channel = alice.channel()
    channel.basic_publish(name, "k", b"m")
    text = f"ACCESS_REFUSED - write access to exchange '{name}' in vhost 'a.b' refused for user 'alice'"
    with channel_refused(403, text):
        channel.basic_qos()


# --- topics of Kafka's clients in a vhost ------------------------------------------------------------


def test_a_topic_has_its_own_rules_from_a_vhost_too(broker: Broker, files: Files) -> None:
    """Alice may do everything in `shop`, where the topic `shop.events` is known as `events`."""
    admin = AdminClient(librdkafka(broker, files))
    for made in admin.create_topics([NewTopic("shop.events", 1)], request_timeout=30).values():
        made.result()
    producer = Producer(librdkafka(broker, files))
    producer.produce("shop.events", b"e")
    assert producer.flush(30) == 0
    refused = "access to queue 'events' in vhost 'shop' refused for user 'alice'"
    with opened(broker, "alice", "shop") as connection:
        with channel_refused(403, f"ACCESS_REFUSED - configure {refused}"):
            connection.channel().queue_declare("events", passive=True)
        channel = connection.channel()
        channel.basic_qos(prefetch_count=10)
        with channel_refused(403, f"ACCESS_REFUSED - read {refused}"):
            channel.basic_consume("events", lambda *_: None)
        channel = connection.channel()
        put(channel, "events", "m")
        with channel_refused(403, f"ACCESS_REFUSED - write {refused}"):
            channel.basic_qos()
        with holding(broker, files, rule("shop.events", AclOperation.READ)):
            channel = connection.channel()
            assert channel.queue_declare("events", passive=True).method.message_count == 1
            channel.basic_qos(prefetch_count=10)
            inbox = Inbox(channel, "events", arguments={"x-stream-offset": "first"})
            assert inbox.bodies(1) == ["e"]


# --- permissions of RabbitMQ's --------------------------------------------------------------------


def test_each_permission_that_rules_cannot_say_gets_a_line(broker: Broker, files: Files) -> None:
    found = {
        "permissions": [
            {"user": "carol", "vhost": "shop", "configure": "^c$", "write": "c", "read": "^c-[0-9]$"},
            {"user": "dan", "vhost": "shop", "configure": "", "write": "^a.b$", "read": ""},
            {"user": "eve", "vhost": "shop", "configure": "", "write": "^$", "read": ""},
        ]
    }
    lines = take_over(broker, files, found, "--dry-run").splitlines()
    assert lines == [
        "permissions carol in shop: would create: write 'c' cannot be said by rules: without a ^ in front it"
        " matches anywhere in a name; read '^c-[0-9]$' cannot be said by rules: it has a set of characters in"
        " [ ]",
        "permissions dan in shop: unsupported: write '^a.b$' cannot be said by rules: it has a . that is any"
        " character; the character itself is \\.",
        "permissions eve in shop: unsupported: nothing is allowed by it, not even to open the vhost as in"
        " RabbitMQ",
    ]


def frida(password: str, vhost: str) -> tuple[dict[str, Any], bytes]:
    """She and all rights in a vhost, as in a file of RabbitMQ's; and the digest of her password."""
    digest = hashlib.sha256(b"salt" + password.encode()).digest()
    user = {
        "name": "frida",
        "password_hash": base64.b64encode(b"salt" + digest).decode(),
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": [],
    }
    return {"users": [user], "permissions": [{"user": "frida", "vhost": vhost, **ALL}]}, digest


def test_a_user_of_rabbitmqs_outlives_a_restart_and_the_hash_is_nowhere_on_disk(files: Files) -> None:
    found, digest = frida("as it was", "/")
    with guarded(files) as broker:
        take_over(broker, files, found)
        broker.restart()
        with opened(broker, "frida", "/", "as it was") as connection:
            assert connection.is_open
        broker.stop()
        kept = [file.read_bytes() for file in broker.data.rglob("*") if file.is_file()]
        assert any(b"frida" in one for one in kept)
        assert not any(digest in one or digest.hex().encode() in one for one in kept)


def test_a_user_of_rabbitmqs_comes_with_her_password(broker: Broker, files: Files) -> None:
    password = "as it was"
    found, digest = frida(password, "shop")
    assert take_over(broker, files, found) == ""
    with opened(broker, "frida", "shop", password) as connection:
        assert connection.channel().queue_declare("fridas", exclusive=True).method.queue == "fridas"
    with pytest.raises(ProbableAuthenticationError), opened(broker, "frida", "shop", digest.hex()):
        pass
    assert '{"user": "frida", "mechanisms": ["PLAIN"]}' in manage(broker, "user", "ls", "--json")
    assert "already" in manage(broker, "user", "add", "frida", code=1, MAINSTEM_NEW_PASSWORD="x")
    manage(broker, "user", "passwd", "frida", MAINSTEM_NEW_PASSWORD="another")
    with pytest.raises(ProbableAuthenticationError), opened(broker, "frida", "shop", password):
        pass
    with opened(broker, "frida", "shop", "another") as connection:
        assert connection.is_open
    manage(broker, "user", "rm", "frida", "--yes")
    assert take_over(broker, files, found) == ""
    manage(broker, "user", "rm", "frida", "--yes")
    assert "frida" not in manage(broker, "user", "ls")
    with pytest.raises(ProbableAuthenticationError), opened(broker, "frida", "shop", password):
        pass
    manage(broker, "acl", "rm", "--principal", "frida", "--yes")


def test_rights_are_the_same_behind_an_export_and_an_import(broker: Broker, files: Files) -> None:
    out = files.folder / "out.json"
    run(broker, files, "definitions", "export", out)
    found = json.loads(out.read_text())
    asked = {(one["user"], one["vhost"]): one for one in found["permissions"]}
    assert asked["bob", "/"] == {"user": "bob", "vhost": "/", **ALL}
    assert asked["alice", "a.b"]["write"] == r"^amq\.default$|^out$"
    with guarded(files) as other:
        run(other, files, "definitions", "import", out)
        run(other, files, "definitions", "export", out)
        assert json.loads(out.read_text())["permissions"] == found["permissions"]
        assert "refused for user" in may_not_open(other, "bob", "shop")
        with opened(other, "bob", "/") as connection:
            assert connection.channel().queue_declare("bobs").method.queue == "bobs"
        with opened(other, "alice", "a.b") as connection:
            channel = connection.channel()
            channel.basic_publish("out", "k", b"m")
            assert channel.basic_get("in.box") == (None, None, None)
            with channel_refused(403, "ACCESS_REFUSED - read access to queue 'secret' in vhost 'a.b'"):
                channel.basic_get("secret")


def test_a_user_who_loses_the_last_right_in_a_vhost_may_not_open_it_again(
    broker: Broker, files: Files
) -> None:
    held = holding(broker, files, rule("/closed/x", AclOperation.WRITE, "bob"))
    with held, opened(broker, "bob", "closed") as connection:
        assert connection.is_open
    assert "refused for user 'bob'" in may_not_open(broker, "bob", "closed")
