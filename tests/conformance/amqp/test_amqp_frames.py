"""Frames as they may come: in pieces, interleaved between channels, by the thousand."""

from __future__ import annotations

import struct

import pytest
from amqp_kit import Inbox, confirming, declare, everything, must_get, new_name, ready, until
from amqp_raw import BODY, HEADER, Raw
from pamqp import commands, frame, header


def head(size):
    return struct.pack(">HHQH", 60, 0, size, 0)


@pytest.fixture
def queue(channel):
    return declare(channel)


def test_contents_of_several_channels_may_be_interleaved(raw, channel, queue):
    raw.open_channel(2)
    for number in (1, 2):
        raw.send(commands.Basic.Publish(routing_key=queue), channel=number)
    for number in (2, 1):
        raw.send_frame(HEADER, head(6), channel=number)
    raw.send_frame(BODY, b"one", channel=1)
    raw.send_frame(BODY, b"two", channel=2)
    raw.send_frame(BODY, b"ONE", channel=1)
    raw.send_frame(BODY, b"TWO", channel=2)
    until(lambda: ready(channel, queue) == 2)
    assert sorted(everything(channel, queue)) == ["oneONE", "twoTWO"]


def test_a_heartbeat_and_work_of_another_channel_may_come_amid_content(raw, channel, queue):
    raw.open_channel(2)
    raw.send(commands.Basic.Publish(routing_key=queue))
    raw.beat()
    raw.send_frame(HEADER, head(4))
    assert raw.ask(commands.Basic.Qos(prefetch_count=1), channel=2).name == "Basic.QosOk"
    raw.send_frame(BODY, b"bo")
    raw.beat()
    raw.send_frame(BODY, b"dy")
    assert must_get(channel, queue).body == "body"


def test_frames_may_come_byte_by_byte(raw, channel, queue):
    publish = frame.marshal(commands.Basic.Publish(routing_key=queue), 1)
    properties = commands.Basic.Properties(message_id="id", headers={"a": 1})
    content = frame.marshal(header.ContentHeader(0, 4, properties), 1)
    body = struct.pack(">BHI", 3, 1, 4) + b"body" + b"\xce"
    for byte in publish + content + body:
        raw.write(bytes([byte]))
    found = must_get(channel, queue)
    assert (found.body, found.properties.message_id, found.properties.headers) == ("body", "id", {"a": 1})


def test_a_body_may_come_in_frames_of_any_size_even_none(raw, channel, queue):
    raw.send(commands.Basic.Publish(routing_key=queue))
    raw.send_frame(HEADER, head(10))
    for piece in (b"0", b"", b"12", b"345", b"6789"):
        raw.send_frame(BODY, piece)
    assert must_get(channel, queue).body == "0123456789"


def test_thousands_of_messages_in_one_go_come_back_in_order_and_once(address, raw, channel, queue):
    count = 5000
    raw.ask(commands.Confirm.Select())
    one = frame.marshal(commands.Basic.Publish(routing_key=queue), 1) + frame.marshal(
        header.ContentHeader(0, 8, commands.Basic.Properties(delivery_mode=2)), 1
    )
    whole = bytearray()
    for number in range(count):
        whole += one + struct.pack(">BHI", 3, 1, 8) + struct.pack(">Q", number) + b"\xce"
    raw.write(bytes(whole))
    last = 0
    while last < count:
        answer = raw.receive()
        assert answer.name == "Basic.Ack"
        last = max(last, answer.delivery_tag)
    with Raw(address) as reader:
        reader.open()
        reader.open_channel(1)
        reader.ask(commands.Basic.Qos(prefetch_count=300))
        reader.ask(commands.Basic.Consume(queue=queue, consumer_tag="c"))
        for number in range(count):
            method, _, data = reader.receive_message()
            assert (method.delivery_tag, struct.unpack(">Q", data)[0]) == (number + 1, number)
            if number % 100 == 99:
                reader.send(commands.Basic.Ack(delivery_tag=number + 1, multiple=True))
        assert reader.ask(commands.Basic.Cancel(consumer_tag="c")).name == "Basic.CancelOk"
        reader.ask(commands.Channel.Close(200, "", 0, 0))
    until(lambda: ready(channel, queue) == 0)


def test_answers_come_in_the_order_of_questions(raw):
    names = [new_name() for _ in range(50)]
    raw.send(*(commands.Queue.Declare(queue=name, exclusive=True) for name in names))
    assert [raw.receive().queue for _ in names] == names
    raw.send(*(commands.Queue.Delete(queue=name) for name in names), commands.Basic.Qos(prefetch_count=1))
    assert [raw.receive().name for _ in names] == ["Queue.DeleteOk"] * 50
    assert raw.receive().name == "Basic.QosOk"


def test_a_get_behind_a_publish_sees_it(raw, queue):
    for number in range(30):
        raw.publish("", queue, str(number).encode())
        raw.send(commands.Basic.Get(queue=queue, no_ack=True))
    assert [raw.receive_message()[2] for _ in range(30)] == [str(number).encode() for number in range(30)]


def test_a_failure_without_wait_closes_the_channel_all_the_same(raw):
    raw.send(commands.Queue.Bind(queue="not-there", exchange="amq.direct", nowait=True))
    closed = raw.receive()
    assert (closed.name, closed.reply_code) == ("Channel.Close", 404)


def test_the_older_recover_is_understood_and_not_answered(raw, channel, queue):
    raw.publish("", queue, b"m")
    raw.ask(commands.Basic.Consume(queue=queue))
    assert raw.receive_message()[0].redelivered is False
    raw.send_frame(1, b"\x00\x3c\x00\x64\x01")  # basic.recover-async, requeue
    assert raw.receive_message()[0].redelivered is True


def test_a_large_message_does_not_hold_up_another_channels_small_one(connection, channel):
    large, small = declare(channel), declare(channel)
    other = confirming(connection)
    for _ in range(5):
        channel.basic_publish("", large, b"x" * 1_000_000)
    one, two = Inbox(channel, large, auto_ack=True), Inbox(other, small, auto_ack=True)
    other.basic_publish("", small, b"quick")
    assert two.bodies(1) == ["quick"]
    assert [len(delivery.data) for delivery in one.wait(5)] == [1_000_000] * 5
