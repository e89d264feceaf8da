"""Each wrong use gets its code and text, and closes the channel or the connection as RabbitMQ does."""

from __future__ import annotations

import struct

import pika
import pytest
from amqp_kit import (
    Inbox,
    channel_refused,
    connected,
    declare,
    everything,
    must_get,
    new_name,
    put,
)
from amqp_raw import BODY, CAPABILITIES, FRAME_HEAD, HEADER, METHOD, Raw
from pamqp import body, commands, frame, header

NOTHING = struct.pack(">HHQH", 60, 0, 0, 0)


def missing(connection, use, text):
    channel = connection.channel()
    with channel_refused(404, text):
        use(channel)
    assert connection.is_open


# --- what is not there ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda channel, name: channel.queue_declare(name, passive=True),
        lambda channel, name: channel.basic_get(name),
        lambda channel, name: Inbox(channel, name),
        lambda channel, name: channel.queue_purge(name),
        lambda channel, name: channel.queue_bind(name, "amq.direct", "k"),
    ],
    ids=["passive", "get", "consume", "purge", "bind"],
)
def test_an_unknown_queue_is_404_and_the_connection_stays(connection, use):
    name = new_name()
    missing(connection, lambda channel: use(channel, name), f"NOT_FOUND - no queue '{name}' in vhost '/'")


def bind_a_queue(channel, name):
    channel.queue_bind(declare(channel, exclusive=True), name, "k")


@pytest.mark.parametrize(
    "use",
    [
        lambda channel, name: channel.exchange_declare(name, passive=True),
        bind_a_queue,
        lambda channel, name: channel.exchange_bind(name, "amq.direct"),
        lambda channel, name: channel.exchange_bind("amq.direct", name),
        lambda channel, name: (channel.basic_publish(name, "k", b""), channel.basic_qos()),
    ],
    ids=["passive", "bind", "bind-target", "bind-source", "publish"],
)
def test_an_unknown_exchange_is_404_and_the_connection_stays(connection, use):
    name = new_name()
    missing(connection, lambda channel: use(channel, name), f"NOT_FOUND - no exchange '{name}' in vhost '/'")


# --- settling what is not held -------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda channel: channel.basic_ack(7),
        lambda channel: channel.basic_ack(7, multiple=True),
        lambda channel: channel.basic_nack(7),
        lambda channel: channel.basic_reject(7),
    ],
    ids=["ack", "ack-multiple", "nack", "reject"],
)
def test_an_unknown_delivery_tag_is_406(channel, use):
    use(channel)
    with channel_refused(406, "PRECONDITION_FAILED - unknown delivery tag 7"):
        channel.basic_qos()


def test_acking_twice_is_406_and_gives_back_what_else_was_held(connection, channel):
    queue = declare(channel)
    put(channel, queue, "a", "b")
    held = [must_get(channel, queue, ack=False) for _ in range(2)]
    channel.basic_ack(held[0].tag)
    channel.basic_ack(held[0].tag)
    with channel_refused(406, f"PRECONDITION_FAILED - unknown delivery tag {held[0].tag}"):
        channel.basic_qos()
    found = must_get(connection.channel(), queue)
    assert (found.body, found.again) == ("b", True)


def test_a_delivery_without_acks_cannot_be_acked(channel):
    queue = declare(channel)
    put(channel, queue, "a")
    channel.basic_ack(must_get(channel, queue, ack=True).tag)
    with channel_refused(406, "PRECONDITION_FAILED - unknown delivery tag 1"):
        channel.basic_qos()


# --- publishing ----------------------------------------------------------------------------------


def test_a_false_user_id_is_406(channel):
    text = "PRECONDITION_FAILED - user_id property set to 'someone' but authenticated user was 'guest'"
    with channel_refused(406, text):
        channel.basic_publish("", "k", b"", pika.BasicProperties(user_id="someone"))


def test_an_error_among_publishes_spares_those_before_it_and_drops_those_after(raw, connection):
    queue = declare(connection.channel())
    for exchange in ("", "not-there", ""):
        raw.publish(exchange, queue, exchange.encode() or b"good")
    closed = raw.receive()
    assert (closed.name, closed.reply_code) == ("Channel.Close", 404)
    assert (closed.class_id, closed.method_id) == (60, 40)
    assert must_get(connection.channel(), queue).body == "good"
    assert connection.channel().queue_declare(queue, passive=True).method.message_count == 0


# --- the channel's end ---------------------------------------------------------------------------


def test_close_names_the_method_that_was_wrong(raw):
    closed = raw.ask(commands.Queue.Declare(queue="not-there", passive=True))
    assert (closed.name, closed.reply_code, closed.class_id, closed.method_id) == (
        "Channel.Close",
        404,
        50,
        10,
    )


def test_after_an_error_the_channel_is_deaf_until_close_is_answered_and_then_new(raw):
    raw.send(
        commands.Queue.Declare(queue="not-there", passive=True),
        commands.Queue.Declare(queue="not-there-either", passive=True),
        commands.Basic.Qos(prefetch_count=1),
    )
    assert raw.receive().name == "Channel.Close"
    raw.send(commands.Channel.CloseOk())
    raw.open_channel(1)
    assert raw.ask(commands.Basic.Qos(prefetch_count=1)).name == "Basic.QosOk"


def test_a_closed_channel_can_be_opened_again_and_counts_from_one(raw):
    queue = raw.ask(commands.Queue.Declare(queue="", exclusive=True)).queue
    for _ in range(2):
        raw.publish("", queue, b"m")
        raw.send(commands.Basic.Get(queue=queue, no_ack=True))
        method, _, _ = raw.receive_message()
        assert method.delivery_tag == 1
        assert raw.ask(commands.Channel.Close(200, "bye", 0, 0)).name == "Channel.CloseOk"
        raw.open_channel(1)


# --- what closes the connection ------------------------------------------------------------------


def test_a_consumer_tag_used_twice_is_530(raw):
    queue = raw.ask(commands.Queue.Declare(queue="", exclusive=True)).queue
    raw.ask(commands.Basic.Consume(queue=queue, consumer_tag="mine"))
    raw.send(commands.Basic.Consume(queue=queue, consumer_tag="mine"))
    raw.closes(530, "NOT_ALLOWED - attempt to reuse consumer tag 'mine'")


def test_an_immediate_publish_is_540(raw):
    raw.publish("", "k", b"m", immediate=True)
    raw.closes(540, "NOT_IMPLEMENTED - immediate=true")


def test_recover_without_requeue_is_540(raw):
    raw.send(commands.Basic.Recover(requeue=False))
    raw.closes(540, "NOT_IMPLEMENTED - requeue=false")


def test_stopping_the_flow_is_540(raw):
    raw.send(commands.Channel.Flow(active=False))
    raw.closes(540, "NOT_IMPLEMENTED - active=false")


def test_a_method_on_a_channel_that_is_not_open_is_504(raw):
    raw.send(commands.Basic.Qos(prefetch_count=1), channel=2)
    raw.closes(504, "CHANNEL_ERROR - expected 'channel.open'")


def test_opening_a_channel_twice_is_504(raw):
    raw.send(commands.Channel.Open())
    raw.closes(504, "CHANNEL_ERROR - second 'channel.open' seen")


def test_more_channels_than_agreed_are_530(address):
    with Raw(address) as raw:
        raw.open(channel_max=3)
        for number in (1, 2, 3):
            raw.open_channel(number)
        raw.send(commands.Channel.Open(), channel=4)
        raw.closes(530, "NOT_ALLOWED - ")


PUBLISH = (METHOD, b"\x00\x3c\x00\x28" + commands.Basic.Publish().marshal())
QOS = (METHOD, b"\x00\x3c\x00\x0a" + commands.Basic.Qos().marshal())


@pytest.mark.parametrize(
    "frames",
    [
        [(HEADER, NOTHING)],
        [(BODY, b"body")],
        [PUBLISH, (BODY, b"body")],
        [PUBLISH, QOS],
        [PUBLISH, (HEADER, b"\x00\x32" + NOTHING[2:])],
    ],
    ids=["header-alone", "body-alone", "no-header", "method-in-between", "header-of-another-class"],
)
def test_content_out_of_order_is_505(raw, frames):
    for kind, payload in frames:
        raw.send_frame(kind, payload)
    raw.closes(505, "UNEXPECTED_FRAME - ")


def test_a_method_of_a_channel_on_channel_0_is_504(raw):
    raw.send(commands.Basic.Qos(), channel=0)
    raw.closes(504, "CHANNEL_ERROR - unexpected method in connection state running")


def test_more_body_than_announced_is_501(raw):
    # RabbitMQ 3.10 takes no notice.
    raw.send(commands.Basic.Publish(routing_key="k"))
    raw.send(header.ContentHeader(0, 2, commands.Basic.Properties()))
    raw.send_frame(BODY, b"more than two")
    raw.closes(501, "FRAME_ERROR - ")


def test_a_frame_without_its_end_is_501(raw):
    raw.send_frame(METHOD, struct.pack(">I", commands.Basic.Qos.index) + b"\x00" * 7, end=0)
    raw.closes(501, "FRAME_ERROR - ")


def test_a_frame_larger_than_agreed_is_501(raw):
    raw.write(FRAME_HEAD.pack(BODY, 1, 200_000) + b"x" * 1000)
    raw.closes(501, "FRAME_ERROR - ")


def test_an_unknown_kind_of_frame_is_501(raw):
    raw.send_frame(77, b"what")
    raw.closes(501, "FRAME_ERROR - ")


@pytest.mark.parametrize("index", [0x003C00FF, 0x00FF0001], ids=["method", "class"])
def test_an_unknown_method_closes_the_connection(raw, index):
    raw.send_frame(METHOD, struct.pack(">I", index))
    assert raw.ends()


def test_arguments_cut_short_close_the_connection(raw):
    # RabbitMQ says 501, the specification 502.
    raw.send_frame(METHOD, struct.pack(">I", commands.Queue.Declare.index) + b"\x00\x00\x20abc")
    closed = raw.receive(0)
    assert (closed.name, closed.reply_code in (501, 502)) == ("Connection.Close", True)


# --- opening -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hello", [b"AMQP\x07\x07\x07\x07", b"AMQP\x00\x00\x09\x02", b"GET / HTTP/1.0\r\n\r\n", b"\x00" * 8]
)
def test_another_protocol_gets_the_header_of_ours_and_is_closed(address, hello):
    # RabbitMQ 4 answers with the header of AMQP 1.0, which it prefers.
    with Raw(address) as raw:
        raw.write(hello)
        assert raw.exactly(8)[:4] == b"AMQP"
        assert raw.hangs_up()


def test_the_greeting_tells_what_the_broker_can_do(address):
    with Raw(address) as raw:
        start = raw.greet()
        assert (start.version_major, start.version_minor) == (0, 9)
        assert "PLAIN" in start.mechanisms.split()
        assert "en_US" in start.locales.split()
        assert {"product", "version", "platform", "capabilities"} <= set(start.server_properties)
        for name in (
            "publisher_confirms",
            "exchange_exchange_bindings",
            "basic.nack",
            "consumer_cancel_notify",
            "connection.blocked",
            "consumer_priorities",
            "authentication_failure_close",
            "per_consumer_qos",
            "direct_reply_to",
        ):
            assert start.server_properties["capabilities"][name] is True
        tune = raw.login(**CAPABILITIES)
        assert (tune.name, tune.channel_max, tune.frame_max) == ("Connection.Tune", 2047, 131072)
        assert tune.heartbeat == 60


REFUSED = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN."


def test_a_wrong_password_is_403_for_those_who_understand_it(address):
    with Raw(address) as raw:
        raw.greet()
        closed = raw.login("guest", "wrong", authentication_failure_close=True)
        assert (closed.name, closed.reply_code) == ("Connection.Close", 403)
        assert closed.reply_text.startswith(REFUSED)


def test_a_wrong_password_is_hung_up_on_for_those_who_do_not(address):
    with Raw(address) as raw:
        raw.greet()
        start_ok = commands.Connection.StartOk({}, "PLAIN", "\0guest\0wrong", "en_US")
        raw.send(start_ok, channel=0)
        assert raw.hangs_up()


def test_an_unknown_mechanism_is_refused(address):
    with Raw(address) as raw:
        raw.greet()
        raw.send(commands.Connection.StartOk({}, "MAGIC", "", "en_US"), channel=0)
        assert raw.ends()


def test_an_unknown_vhost_is_530(address):
    with Raw(address) as raw:
        closed = raw.open(vhost="nowhere")
        assert (closed.reply_code, closed.reply_text) == (530, "NOT_ALLOWED - vhost nowhere not found")


@pytest.mark.parametrize("wish", [{"frame_max": 200_000}, {"frame_max": 100}, {"channel_max": 60_000}])
def test_wishes_beyond_what_was_offered_end_the_connection(address, wish):
    with Raw(address) as raw:
        raw.greet()
        raw.login(**CAPABILITIES)
        wishes = {"channel_max": 2047, "frame_max": 131072, "heartbeat": 0, **wish}
        raw.send(commands.Connection.TuneOk(**wishes), channel=0)
        assert raw.ends()


def test_a_client_may_ask_for_less_than_was_offered(address):
    with connected(address, channel_max=5, frame_max=8192, heartbeat=0) as connection:
        channel = connection.channel()
        queue = declare(channel, exclusive=True)
        put(channel, queue, "x" * 50_000)
        assert len(must_get(channel, queue).body) == 50_000


def test_heartbeats_come_and_silence_ends_the_connection(address):
    with Raw(address) as raw:
        raw.open(heartbeat_s=1)
        kind, channel, size = FRAME_HEAD.unpack(raw.exactly(FRAME_HEAD.size))
        assert (kind, channel, size) == (8, 0, 0)
        raw.exactly(1)
        assert raw.hangs_up()


def test_a_goodbye_is_answered_though_much_comes_behind_it(address, channel):
    """Clients that write for each channel by itself do that: their goodbye overtakes what they published."""
    queue = declare(channel)
    one = frame.marshal(commands.Basic.Publish(routing_key=queue), 1)
    one += frame.marshal(header.ContentHeader(0, 100, commands.Basic.Properties()), 1)
    one += frame.marshal(body.ContentBody(b"x" * 100), 1)
    with Raw(address) as raw:
        raw.open()
        raw.open_channel(1)
        raw.publish("", queue, b"before")
        raw.send(commands.Connection.Close(200, "bye", 0, 0), channel=0)
        for _ in range(200):
            raw.write(one * 100)
        assert raw.receive(0).name == "Connection.CloseOk"
    assert everything(channel, queue) == ["before"]


def test_a_client_says_goodbye(address):
    with Raw(address) as raw:
        raw.open()
        closed = raw.ask(commands.Connection.Close(200, "bye", 0, 0), channel=0)
        assert closed.name == "Connection.CloseOk"
