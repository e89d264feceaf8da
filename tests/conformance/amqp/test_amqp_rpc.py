"""Direct reply-to: answers without a queue."""

from __future__ import annotations

import pika
import pytest
from amqp_kit import (
    Inbox,
    channel_refused,
    confirming,
    connected,
    declare,
    must_get,
    pump,
    until,
)

REPLY_TO = "amq.rabbitmq.reply-to"


def ask(channel, queue, body="question", **more):
    properties = pika.BasicProperties(reply_to=REPLY_TO, **more)
    channel.basic_publish("", queue, body.encode(), properties)


def test_an_answer_comes_back_to_the_one_who_asked(channel, other_connection):
    queue = declare(channel)
    inbox = Inbox(channel, REPLY_TO, auto_ack=True)
    ask(channel, queue, correlation_id="7")
    server = confirming(other_connection)
    question = must_get(server, queue)
    address = question.properties.reply_to
    assert address.startswith(f"{REPLY_TO}.")
    server.basic_publish("", address, b"answer", pika.BasicProperties(correlation_id="7"))
    (answer,) = inbox.wait(1)
    assert (answer.body, answer.properties.correlation_id, answer.again) == ("answer", "7", False)
    assert (answer.method.exchange, answer.method.consumer_tag) == ("", inbox.tag)
    assert answer.method.routing_key == address


def test_a_question_may_have_several_answers(channel, other_connection):
    queue = declare(channel)
    inbox = Inbox(channel, REPLY_TO, auto_ack=True)
    ask(channel, queue)
    server = other_connection.channel()
    address = must_get(server, queue).properties.reply_to
    for number in range(5):
        server.basic_publish("", address, str(number).encode())
    pump(other_connection)
    assert inbox.bodies(5) == ["0", "1", "2", "3", "4"]


def test_two_channels_each_get_their_own_answers(connection, other_connection, channel):
    queue = declare(channel)
    askers = [connection.channel() for _ in range(2)]
    inboxes = [Inbox(asker, REPLY_TO, auto_ack=True) for asker in askers]
    for name, asker in zip("ab", askers, strict=True):
        ask(asker, queue, name)
    server = confirming(other_connection)
    for _ in range(2):
        question = must_get(server, queue)
        server.basic_publish("", question.properties.reply_to, question.body.upper().encode())
    assert [inbox.bodies(1) for inbox in inboxes] == [["A"], ["B"]]


def test_a_passive_declare_tells_whether_the_one_who_asked_is_still_there(address, channel):
    queue = declare(channel)
    with connected(address) as asker:
        asking = asker.channel()
        Inbox(asking, REPLY_TO, auto_ack=True)
        ask(asking, queue)
        reply_to = must_get(channel, queue).properties.reply_to
        assert channel.queue_declare(reply_to, passive=True).method.queue == reply_to

    def gone():
        looking = channel.connection.channel()
        try:
            looking.queue_declare(reply_to, passive=True)
        except pika.exceptions.ChannelClosedByBroker as refused:
            return refused.reply_code == 404
        return False

    until(gone)
    channel.basic_publish("", reply_to, b"an answer that is too late is dropped")


def test_an_answer_after_cancel_is_dropped(channel, other_connection):
    queue = declare(channel)
    inbox = Inbox(channel, REPLY_TO, auto_ack=True)
    ask(channel, queue)
    channel.basic_cancel(inbox.tag)
    server = confirming(other_connection)
    server.basic_publish("", must_get(server, queue).properties.reply_to, b"late")
    assert inbox.settled() == []


def test_the_reply_consumer_takes_no_acks(channel):
    with channel_refused(406, "PRECONDITION_FAILED - reply consumer cannot acknowledge"):
        Inbox(channel, REPLY_TO, auto_ack=False)


def test_a_channel_has_one_reply_consumer(channel):
    Inbox(channel, REPLY_TO, auto_ack=True)
    with channel_refused(406, "PRECONDITION_FAILED - reply consumer already set"):
        Inbox(channel, REPLY_TO, auto_ack=True)


def test_asking_needs_a_reply_consumer_first(channel):
    queue = declare(channel)
    with channel_refused(406, "PRECONDITION_FAILED - fast reply consumer does not exist"):
        ask(channel, queue)


def test_an_ordinary_reply_queue_works_as_ever(connection, other_connection, channel):
    requests = declare(channel)
    replies = channel.queue_declare("", exclusive=True).method.queue
    inbox = Inbox(channel, replies, auto_ack=True)
    properties = pika.BasicProperties(reply_to=replies, correlation_id="9")
    channel.basic_publish("", requests, b"6*7", properties)
    server = other_connection.channel()
    question = must_get(server, requests)
    assert question.properties.reply_to == replies
    server.basic_publish("", replies, b"42", pika.BasicProperties(correlation_id="9"))
    pump(other_connection)
    assert [(each.body, each.properties.correlation_id) for each in inbox.wait(1)] == [("42", "9")]


@pytest.mark.parametrize("reply_to", ["somewhere", "amq.rabbitmq.other"])
def test_other_reply_addresses_are_left_alone(channel, reply_to):
    queue = declare(channel)
    channel.basic_publish("", queue, b"m", pika.BasicProperties(reply_to=reply_to))
    assert must_get(channel, queue).properties.reply_to == reply_to
