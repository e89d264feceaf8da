"""Publishing, getting, consuming and settling messages, as pika sees it."""

from __future__ import annotations

import struct

import pika
import pytest
from amqp_kit import (
    Inbox,
    confirming,
    connected,
    consumers,
    declare,
    everything,
    get,
    must_get,
    new_name,
    pump,
    put,
    ready,
    until,
)
from amqp_raw import HEADER, Raw
from pamqp import commands


def test_a_message_comes_back_with_where_it_went_and_how_many_are_left(channel):
    queue = declare(channel)
    put(channel, queue, "one", "two", "three")
    method, _, body = channel.basic_get(queue, auto_ack=True)
    assert body == b"one"
    assert (method.exchange, method.routing_key, method.redelivered) == ("", queue, False)
    assert (method.delivery_tag, method.message_count) == (1, 2)


def test_an_empty_queue_gives_nothing(channel):
    assert channel.basic_get(declare(channel)) == (None, None, None)


@pytest.mark.parametrize("size", [0, 1, 4096 - 8, 4096 - 7, 131072 - 8, 131072 - 7, 131073, 400_000])
def test_a_body_of_any_size_comes_back_whole(channel, size):
    queue = declare(channel)
    data = bytes(range(256)) * (size // 256 + 1)
    channel.basic_publish("", queue, data[:size])
    assert must_get(channel, queue).data == data[:size]


def test_bodies_are_cut_into_frames_no_larger_than_agreed(address):
    with Raw(address) as raw:
        raw.open(frame_max=8192)
        raw.open_channel(1)
        queue = raw.ask(commands.Queue.Declare(queue="", exclusive=True)).queue
        raw.send(commands.Basic.Publish(routing_key=queue))
        raw.send_frame(HEADER, struct.pack(">HHQH", 60, 0, 20_000, 0))
        for size in (8184, 8184, 3632):
            raw.send_frame(3, b"x" * size)
        raw.send(commands.Basic.Get(queue=queue, no_ack=True))
        assert isinstance(raw.receive(), commands.Basic.GetOk)
        assert raw.receive().body_size == 20_000
        pieces = [raw.receive_frame()[2] for _ in range(3)]
        assert [len(piece) for piece in pieces] == [8184, 8184, 3632]


def test_every_property_comes_back(channel):
    queue = declare(channel)
    sent = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"text": "äö", "number": 7, "big": 1 << 40, "yes": True, "none": None, "list": [1, "a"]},
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
        cluster_id="x",
    )
    channel.basic_publish("", queue, b"", sent)
    assert must_get(channel, queue).properties == sent


# Every type of table value under its letter. In the order of their names, because RabbitMQ 4 sorts a table.
EVERY_TYPE = b"".join(
    [
        b"\x01A" + b"A\x00\x00\x00\x03t\x00V",
        b"\x01B" + b"B\xff",
        b"\x01D" + b"D\x02\x00\x00\x00\x07",
        b"\x01F" + b"F\x00\x00\x00\x03\x01aV",
        b"\x01I" + b"I\xff\xff\xff\xfe",
        b"\x01S" + b"S\x00\x00\x00\x03\xff\x00a",
        b"\x01T" + b"T\x00\x00\x00\x00\x65\x00\x00\x00",
        b"\x01V" + b"V",
        b"\x01b" + b"b\xff",
        b"\x01d" + b"d" + struct.pack(">d", -2.25),
        b"\x01f" + b"f" + struct.pack(">f", 1.5),
        b"\x01i" + b"i\xff\xff\xff\xfe",
        b"\x01l" + b"l\xff\xff\xff\xff\xff\xff\xff\xfe",
        b"\x01s" + b"s\xff\xfe",
        b"\x01t" + b"t\x01",
        b"\x01u" + b"u\xff\xfe",
        b"\x01x" + b"x\x00\x00\x00\x02\x00\x01",
    ]
)


def test_property_bytes_come_back_untouched(raw):
    queue = raw.ask(commands.Queue.Declare(queue="", exclusive=True)).queue
    flags = struct.pack(">H", 0x2000 | 0x0800)  # headers and priority
    properties = flags + struct.pack(">I", len(EVERY_TYPE)) + EVERY_TYPE + b"\x09"
    raw.send(commands.Basic.Publish(routing_key=queue))
    raw.send_frame(HEADER, struct.pack(">HHQ", 60, 0, 0) + properties)
    raw.send(commands.Basic.Get(queue=queue, no_ack=True))
    assert isinstance(raw.receive(), commands.Basic.GetOk)
    assert raw.receive_frame() == (HEADER, 1, struct.pack(">HHQ", 60, 0, 0) + properties)


def test_messages_come_in_the_order_they_were_published(connection, channel):
    queue = declare(channel)
    bodies = [str(number) for number in range(500)]
    publisher = connection.channel()
    put(publisher, queue, *bodies)
    assert Inbox(channel, queue, auto_ack=True).bodies(500) == bodies


def test_a_consumer_gets_what_is_published_later(channel):
    queue = declare(channel)
    inbox = Inbox(channel, queue, auto_ack=True)
    put(channel, queue, "later")
    (delivery,) = inbox.wait(1)
    assert (delivery.body, delivery.again, delivery.tag) == ("later", False, 1)
    assert delivery.method.consumer_tag == inbox.tag


def test_a_consumer_keeps_the_tag_it_asked_for_and_is_given_one_otherwise(channel):
    queue = declare(channel)
    assert Inbox(channel, queue, consumer_tag="mine").tag == "mine"


def test_the_broker_makes_up_consumer_tags(raw):
    queue = raw.ask(commands.Queue.Declare(queue="", exclusive=True)).queue
    one, two = (raw.ask(commands.Basic.Consume(queue=queue)).consumer_tag for _ in range(2))
    assert one != two
    assert one.startswith("amq.ctag-")


def test_methods_without_wait_get_no_answer(raw):
    queue = new_name()
    raw.send(
        commands.Queue.Declare(queue=queue, exclusive=True, nowait=True),
        commands.Queue.Bind(queue=queue, exchange="amq.direct", routing_key=queue, nowait=True),
        commands.Basic.Consume(queue=queue, consumer_tag="c", nowait=True),
        commands.Confirm.Select(nowait=True),
        commands.Basic.Cancel(consumer_tag="c", nowait=True),
        commands.Queue.Purge(queue=queue, nowait=True),
    )
    assert raw.ask(commands.Queue.Delete(queue=queue)).message_count == 0


def test_acked_messages_are_gone(connection, channel):
    queue = declare(channel)
    put(channel, queue, "a", "b")
    consumer = connection.channel()
    for delivery in Inbox(consumer, queue).take(2):
        consumer.basic_ack(delivery.tag)
    consumer.close()
    assert ready(channel, queue) == 0


def test_unacked_messages_come_back_in_order_and_flagged_when_the_channel_closes(connection, channel):
    queue = declare(channel)
    put(channel, queue, "a", "b", "c")
    consumer = connection.channel()
    Inbox(consumer, queue).wait(3)
    consumer.close()
    put(channel, queue, "d")
    until(lambda: ready(channel, queue) == 4)
    found = [must_get(channel, queue) for _ in range(4)]
    assert [(each.body, each.again) for each in found] == [
        ("a", True),
        ("b", True),
        ("c", True),
        ("d", False),
    ]


def test_unacked_messages_come_back_when_the_connection_breaks(address, channel):
    queue = declare(channel)
    put(channel, queue, "a", "b")
    with Raw(address) as raw:
        raw.open()
        raw.open_channel(1)
        raw.ask(commands.Basic.Consume(queue=queue))
        assert [raw.receive_message()[2] for _ in range(2)] == [b"a", b"b"]
    until(lambda: ready(channel, queue) == 2)
    assert [must_get(channel, queue).again for _ in range(2)] == [True, True]


def test_messages_taken_without_acks_do_not_come_back(connection, channel):
    queue = declare(channel)
    put(channel, queue, "a", "b")
    consumer = connection.channel()
    Inbox(consumer, queue, auto_ack=True).wait(2)
    consumer.close()
    assert (ready(channel, queue), consumers(channel, queue)) == (0, 0)


@pytest.mark.parametrize("how", ["nack", "reject", "recover", "close"])
def test_requeued_messages_go_back_to_their_old_place(connection, channel, how):
    queue = declare(channel)
    put(channel, queue, "a", "b", "c")
    taker = connection.channel()
    first, second = (must_get(taker, queue, ack=False) for _ in range(2))
    assert (first.body, second.body) == ("a", "b")
    if how == "nack":
        taker.basic_nack(second.tag, multiple=True, requeue=True)
    elif how == "reject":
        taker.basic_reject(second.tag, requeue=True)
        taker.basic_reject(first.tag, requeue=True)
    elif how == "recover":
        taker.basic_recover(requeue=True)
    else:
        taker.close()
    until(lambda: ready(channel, queue) == 3)
    found = [must_get(channel, queue) for _ in range(3)]
    assert [(each.body, each.again) for each in found] == [("a", True), ("b", True), ("c", False)]


def test_one_requeued_message_overtakes_newer_ones_but_not_older_ones(channel):
    queue = declare(channel)
    put(channel, queue, "a", "b", "c", "d")
    held = [must_get(channel, queue, ack=False) for _ in range(3)]
    channel.basic_nack(held[2].tag, requeue=True)
    until(lambda: ready(channel, queue) == 2)
    channel.basic_nack(held[0].tag, requeue=True)
    until(lambda: ready(channel, queue) == 3)
    assert everything(channel, queue) == ["a", "c", "d"]


def test_a_consumer_gets_its_own_nacked_message_again(channel):
    queue = declare(channel)
    put(channel, queue, "a")
    inbox = Inbox(channel, queue)
    (first,) = inbox.take(1)
    channel.basic_nack(first.tag, requeue=True)
    (second,) = inbox.take(1)
    assert (second.body, second.again, second.tag) == ("a", True, first.tag + 1)


def test_rejected_messages_without_a_dead_letter_exchange_are_dropped(connection, channel):
    queue = declare(channel)
    put(channel, queue, "a", "b", "c")
    taker = connection.channel()
    one, two, three = (must_get(taker, queue, ack=False) for _ in range(3))
    taker.basic_reject(one.tag, requeue=False)
    taker.basic_nack(three.tag, multiple=True, requeue=False)
    assert two.tag == one.tag + 1
    taker.close()
    assert ready(channel, queue) == 0


def test_one_ack_settles_all_before_it(connection, channel):
    queue = declare(channel)
    put(channel, queue, *"abcde")
    taker = connection.channel()
    held = [must_get(taker, queue, ack=False) for _ in range(5)]
    taker.basic_ack(held[2].tag, multiple=True)
    taker.close()
    until(lambda: ready(channel, queue) == 2)
    assert everything(channel, queue) == ["d", "e"]


def test_tag_zero_settles_everything(connection, channel):
    queue = declare(channel)
    put(channel, queue, *"abc")
    taker = connection.channel()
    for _ in range(3):
        must_get(taker, queue, ack=False)
    taker.basic_ack(0, multiple=True)
    taker.close()
    assert ready(channel, queue) == 0


def test_acks_may_come_in_any_order(connection, channel):
    queue = declare(channel)
    put(channel, queue, *"abcd")
    taker = connection.channel()
    held = {each.body: each.tag for each in Inbox(taker, queue).take(4)}
    for body in "dbc":
        taker.basic_ack(held[body])
    taker.close()
    until(lambda: ready(channel, queue) == 1)
    assert everything(channel, queue) == ["a"]


def test_recover_gives_unacked_messages_again(channel):
    queue = declare(channel)
    put(channel, queue, "a", "b")
    inbox = Inbox(channel, queue)
    inbox.take(2)
    channel.basic_recover(requeue=True)
    assert [(each.body, each.again) for each in inbox.take(2)] == [("a", True), ("b", True)]


def test_prefetch_holds_messages_back_until_acks_come(channel):
    queue = declare(channel)
    put(channel, queue, *"abcde")
    channel.basic_qos(prefetch_count=2)
    inbox = Inbox(channel, queue)
    one, _ = inbox.wait(2)
    until(lambda: ready(channel, queue) == 3)
    assert len(inbox.got) == 2
    channel.basic_ack(one.tag)
    assert inbox.bodies(3) == ["a", "b", "c"]
    assert ready(channel, queue) == 2


def test_prefetch_holds_back_neither_consumers_without_acks_nor_get(channel):
    queue = declare(channel)
    put(channel, queue, *"abcde")
    channel.basic_qos(prefetch_count=1)
    assert [must_get(channel, queue, ack=False).body for _ in range(2)] == ["a", "b"]
    assert Inbox(channel, queue, auto_ack=True).bodies(3) == ["c", "d", "e"]


def test_consumers_take_turns(connection, other_connection, channel):
    queue = declare(channel)
    inboxes = [Inbox(each.channel(), queue, auto_ack=True) for each in (connection, other_connection)]
    until(lambda: consumers(channel, queue) == 2)
    put(channel, queue, *map(str, range(10)))
    assert [len(inbox.wait(5)) for inbox in inboxes] == [5, 5]


def test_after_cancel_nothing_more_comes_and_what_came_can_still_be_acked(connection, channel):
    queue = declare(channel)
    put(channel, queue, "a")
    consumer = connection.channel()
    inbox = Inbox(consumer, queue)
    (delivery,) = inbox.wait(1)
    consumer.basic_cancel(inbox.tag)
    assert consumers(channel, queue) == 0
    put(channel, queue, "b")
    pump(connection)
    assert (ready(channel, queue), len(inbox.got)) == (1, 1)
    consumer.basic_ack(delivery.tag)
    consumer.close()
    assert everything(channel, queue) == ["b"]


def test_cancelling_an_unknown_consumer_is_answered_all_the_same(raw):
    answer = raw.ask(commands.Basic.Cancel(consumer_tag="nobody"))
    assert (answer.name, answer.consumer_tag) == ("Basic.CancelOk", "nobody")


def test_a_declare_tells_how_many_messages_and_consumers_there_are(channel):
    queue = declare(channel)
    put(channel, queue, "a", "b")
    answer = channel.queue_declare(queue, durable=True).method
    assert (answer.queue, answer.message_count, answer.consumer_count) == (queue, 2, 0)
    Inbox(channel, queue).wait(2)
    answer = channel.queue_declare(queue, durable=True).method
    assert (answer.message_count, answer.consumer_count) == (0, 1)


def test_delivery_tags_count_per_channel_for_get_and_consume_together(connection, channel):
    queue = declare(channel)
    put(channel, queue, *"abc")
    assert must_get(channel, queue, ack=False).tag == 1
    (delivery,) = Inbox(connection.channel(), queue, auto_ack=True).wait(2)[:1]
    assert delivery.tag == 1
    put(channel, queue, "d")
    until(lambda: ready(channel, queue) == 0)


def test_many_channels_of_one_connection_work_side_by_side(connection, channel):
    queues = [declare(channel) for _ in range(20)]
    channels = [confirming(connection) for _ in queues]
    for each, queue in zip(channels, queues, strict=True):
        put(each, queue, queue)
    found = [must_get(each, queue).body for each, queue in zip(channels, queues, strict=True)]
    assert found == queues


def test_a_transient_message_and_a_persistent_one_wait_in_one_queue(channel):
    queue = declare(channel)
    put(channel, queue, "transient", delivery_mode=1)
    put(channel, queue, "persistent", delivery_mode=2)
    assert [must_get(channel, queue).properties.delivery_mode for _ in range(2)] == [1, 2]


def test_messages_of_a_closed_connection_stay(address, channel):
    queue = declare(channel)
    with connected(address) as connection:
        put(connection.channel(), queue, "a")
    until(lambda: ready(channel, queue) == 1)
    assert get(channel, queue).body == "a"
