"""Who gets in over AMQP, and what they may do there: users, certificates and rules of the broker.

RabbitMQ keeps users and permissions in its own way, so this is for Mainstem alone; codes and texts of the
refusals are those that RabbitMQ 4.3 gives for the same use.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pika
import pytest
from amqp_kit import OTHER, Inbox, channel_refused, connected, declare, declare_exchange, must_get, put
from amqp_raw import Raw
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from pika.adapters.blocking_connection import BlockingConnection
from pika.credentials import ExternalCredentials
from security_house import PASSWORDS, Files, librdkafka

from mainstem.testing.broker import Broker

pytestmark = pytest.mark.skipif(OTHER is not None, reason="another broker has other users and rules")
# Alice may do everything under names that begin so, and nothing else.
OWN = "mine"
# Who has the certificate may make this queue.
SUBJECT, CERTIFIED = "CN=orders,OU=Shop,O=Example", "by-certificate"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("doors"))


@pytest.fixture(scope="module")
def broker(files: Files) -> Iterator[Broker]:
    anywhere = "127.0.0.1:0"
    listen = {"kafka+tls": anywhere, "amqp": anywhere, "amqp+tls": anywhere}
    with Broker(files.settings, listen=listen) as broker:
        admin = AdminClient(librdkafka(broker, files))
        rules = [
            AclBinding(
                ResourceType.TOPIC,
                OWN,
                ResourcePatternType.PREFIXED,
                "User:alice",
                "*",
                getattr(AclOperation, operation),
                AclPermissionType.ALLOW,
            )
            for operation in ("CREATE", "WRITE", "READ", "DELETE", "DESCRIBE")
        ]
        literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
        rules.append(
            AclBinding(
                ResourceType.TOPIC, CERTIFIED, literal, f"User:{SUBJECT}", "*", AclOperation.CREATE, allow
            )
        )
        for done in admin.create_acls(rules, request_timeout=30).values():
            done.result()
        yield broker


def known(name: str, password: str | None = None) -> pika.PlainCredentials:
    return pika.PlainCredentials(name, password or PASSWORDS[name])


@pytest.fixture
def admin(broker: Broker) -> Iterator[BlockingConnection]:
    with connected(broker.amqp, credentials=known("admin")) as connection:
        yield connection


@pytest.fixture
def alice(broker: Broker) -> Iterator[BlockingConnection]:
    with connected(broker.amqp, credentials=known("alice")) as connection:
        yield connection


# --- doors ---------------------------------------------------------------------------------------


def test_a_user_with_the_right_password_gets_in(admin):
    channel = admin.channel()
    queue = declare(channel)
    put(channel, queue, "m")
    assert must_get(channel, queue).body == "m"


@pytest.mark.parametrize(("name", "password"), [("admin", "wrong"), ("stranger", "x"), ("guest", "guest")])
def test_others_do_not(broker, name, password):
    with Raw(broker.amqp) as raw:
        raw.greet()
        closed = raw.login(name, password, authentication_failure_close=True)
        assert (closed.name, closed.reply_code) == ("Connection.Close", 403)
        assert closed.reply_text.startswith(
            "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN."
        )


def test_the_user_id_of_a_message_has_to_be_that_of_the_login(admin):
    channel = admin.channel()
    queue = declare(channel)
    put(channel, queue, "m", user_id="admin")
    assert must_get(channel, queue).properties.user_id == "admin"
    put(channel, queue, "m", user_id="alice")
    with channel_refused(406, "PRECONDITION_FAILED - user_id property set to 'alice' but authenticated user"):
        channel.basic_qos()


def test_tls_with_a_password(broker, files):
    context = ssl.create_default_context(cafile=str(files.ca))
    options = pika.SSLOptions(context, "localhost")
    with connected(
        broker.listening["amqp+tls"], credentials=known("admin"), ssl_options=options
    ) as connection:
        channel = connection.channel()
        queue = declare(channel)
        channel.basic_publish("", queue, b"x" * 300_000)
        assert len(must_get(channel, queue).data) == 300_000


def test_a_certificate_alone_gets_in_by_external(broker, files):
    context = ssl.create_default_context(cafile=str(files.ca))
    context.load_cert_chain(files.client_cert, files.client_key)
    options = pika.SSLOptions(context, "localhost")
    where = broker.listening["amqp+tls"]
    with connected(where, credentials=ExternalCredentials(), ssl_options=options) as connection:
        channel = connection.channel()
        channel.queue_declare(CERTIFIED)
        text = "ACCESS_REFUSED - configure access to queue 'any' in vhost '/' refused for user"
        with channel_refused(403, f"{text} '{SUBJECT}'"):
            channel.queue_declare("any")


def test_a_tls_listener_hangs_up_on_who_does_not_speak_tls(broker):
    with Raw(broker.listening["amqp+tls"]) as raw:
        raw.write(b"AMQP\x00\x00\x09\x01")
        assert raw.hangs_up()


# --- rules ---------------------------------------------------------------------------------------


def test_a_user_does_everything_under_names_of_her_own(alice):
    channel = alice.channel()
    channel.queue_declare(f"{OWN}-queue", durable=True)
    channel.exchange_declare(f"{OWN}-exchange", "topic", durable=True)
    channel.queue_bind(f"{OWN}-queue", f"{OWN}-exchange", "#")
    channel.basic_publish(f"{OWN}-exchange", "k", b"m")
    (delivery,) = Inbox(channel, f"{OWN}-queue", auto_ack=True).wait(1)
    assert delivery.body == "m"
    channel.queue_delete(f"{OWN}-queue")
    channel.exchange_delete(f"{OWN}-exchange")


def send(channel, exchange, key):
    channel.basic_publish(exchange, key, b"m")
    channel.basic_qos()


@pytest.mark.parametrize(
    ("permission", "kind", "use"),
    [
        ("configure", "queue", lambda channel, queue, _: channel.queue_declare(queue, durable=True)),
        ("configure", "queue", lambda channel, queue, _: channel.queue_delete(queue)),
        ("configure", "exchange", lambda channel, _, exchange: channel.exchange_delete(exchange)),
        ("read", "queue", lambda channel, queue, _: channel.basic_get(queue)),
        ("read", "queue", lambda channel, queue, _: Inbox(channel, queue)),
        ("read", "queue", lambda channel, queue, _: channel.queue_purge(queue)),
        ("write", "exchange", lambda channel, _, exchange: send(channel, exchange, "k")),
        ("write", "queue", lambda channel, queue, _: channel.queue_bind(queue, "amq.direct", "k")),
        (
            "write",
            "exchange",
            lambda channel, _, exchange: channel.queue_declare(
                f"{OWN}-dying", arguments={"x-dead-letter-exchange": exchange}
            ),
        ),
        (
            "write",
            "exchange",
            lambda channel, _, exchange: channel.exchange_declare(
                f"{OWN}-routing", arguments={"alternate-exchange": exchange}
            ),
        ),
    ],
)
def test_what_is_not_allowed_is_403(admin, alice, permission, kind, use):
    queue, exchange = declare(admin.channel()), declare_exchange(admin.channel())
    name = queue if kind == "queue" else exchange
    text = f"ACCESS_REFUSED - {permission} access to {kind} '{name}' in vhost '/' refused for user 'alice'"
    with channel_refused(403, text):
        use(alice.channel(), queue, exchange)


def test_the_default_exchange_is_an_exchange_too(alice):
    with channel_refused(
        403, "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'alice'"
    ):
        send(alice.channel(), "", f"{OWN}-queue")


def test_binding_needs_the_right_to_read_the_exchange(admin, alice):
    exchange = declare_exchange(admin.channel())
    channel = alice.channel()
    channel.queue_declare(f"{OWN}-bound")
    with channel_refused(
        403, f"ACCESS_REFUSED - read access to exchange '{exchange}' in vhost '/' refused for user 'alice'"
    ):
        channel.queue_bind(f"{OWN}-bound", exchange, "k")
