"""Declaring, locking, emptying and losing queues."""

from __future__ import annotations

import pytest
from amqp_kit import (
    Inbox,
    channel_refused,
    connected,
    consumers,
    declare,
    everything,
    must_get,
    new_name,
    put,
    ready,
    until,
)
from amqp_raw import Raw
from pamqp import commands
from pika.exceptions import ChannelClosedByBroker


def exists(connection, queue):
    """Ask on a channel of its own, because a no closes it."""
    channel = connection.channel()
    try:
        channel.queue_declare(queue, passive=True)
    except ChannelClosedByBroker as refused:
        if refused.reply_code == 404:
            return False
        raise
    channel.close()
    return True


# --- names ---------------------------------------------------------------------------------------


def test_a_queue_without_a_name_gets_one(channel):
    one = channel.queue_declare("", exclusive=True).method.queue
    two = channel.queue_declare("", exclusive=True).method.queue
    assert one.startswith("amq.gen-")
    assert one != two
    channel.queue_declare(one, passive=True)


def test_no_name_means_the_queue_last_declared_on_the_channel(channel):
    declare(channel)
    queue = declare(channel)
    channel.queue_bind("", "amq.direct", queue)
    channel.basic_publish("amq.direct", queue, b"m")
    assert must_get(channel, "").body == "m"
    put(channel, queue, "n")
    assert Inbox(channel, "", auto_ack=True).bodies(1) == ["n"]
    assert channel.queue_purge("").method.message_count == 0
    channel.queue_delete("")
    assert not exists(channel.connection, queue)


def test_no_name_and_no_queue_declared_before_is_refused(channel):
    with channel_refused(404, "NOT_FOUND - no previously declared queue"):
        channel.basic_get("")


def test_an_empty_key_and_no_name_bind_the_last_queue_by_its_name(raw):
    # Only if both are empty does the queue's name become the key.
    queue = raw.ask(commands.Queue.Declare(queue=new_name(), exclusive=True)).queue
    raw.ask(commands.Queue.Bind(queue="", exchange="amq.direct", routing_key=""))
    raw.publish("amq.direct", queue, b"m")
    raw.send(commands.Basic.Get(queue=queue, no_ack=True))
    assert raw.receive_message()[2] == b"m"


@pytest.mark.parametrize("name", ["ä ö/☃", "x" * 255, "a b\tc", "with.dots.and#stars*"])
def test_names_may_be_any_text_of_255_bytes(channel, name):
    channel.queue_declare(name, exclusive=True)
    put(channel, name, "m")
    assert everything(channel, name) == ["m"]
    channel.queue_delete(name)


def test_names_with_the_reserved_prefix_are_refused_unless_passive(connection, channel):
    made = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_declare(made, passive=True)
    text = "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"
    with channel_refused(403, text):
        channel.queue_declare("amq.mine")


def test_a_passive_declare_of_nothing_is_refused_and_closes_the_channel_only(connection, channel):
    name = new_name()
    with channel_refused(404, f"NOT_FOUND - no queue '{name}' in vhost '/'"):
        channel.queue_declare(name, passive=True)
    assert channel.is_closed
    assert exists(connection, name) is False


# --- declaring again -----------------------------------------------------------------------------


def test_declaring_again_alike_changes_nothing(channel):
    queue = declare(channel, x_max_length=5, x_message_ttl=60_000)
    put(channel, queue, "m")
    again = channel.queue_declare(queue, durable=True, arguments={"x-message-ttl": 60_000, "x-max-length": 5})
    assert again.method.message_count == 1


def test_numbers_are_alike_whatever_their_width(raw):
    queue = new_name().encode()
    for width in (b"I\x00\x00\xea\x60", b"l\x00\x00\x00\x00\x00\x00\xea\x60", b"u\xea\x60"):
        table = b"\x0dx-message-ttl" + width
        declare = b"\x00\x32\x00\x0a\x00\x00" + bytes([len(queue)]) + queue + b"\x04"
        raw.send_frame(1, declare + len(table).to_bytes(4, "big") + table)
        assert raw.receive().name == "Queue.DeclareOk"


@pytest.mark.parametrize(
    ("other", "argument", "received", "current"),
    [
        ({"durable": False}, "durable", "'false'", "'true'"),
        ({"auto_delete": True}, "auto_delete", "'true'", "'false'"),
    ],
)
def test_a_queue_cannot_be_declared_differently(channel, other, argument, received, current):
    queue = declare(channel)
    with channel_refused(
        406,
        f"PRECONDITION_FAILED - inequivalent arg '{argument}' for queue '{queue}' in vhost '/': "
        f"received {received} but current is {current}",
    ):
        channel.queue_declare(queue, **{"durable": True, **other})


def test_a_shared_queue_cannot_be_made_exclusive(channel):
    queue = declare(channel)
    with channel_refused(405, f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}'"):
        channel.queue_declare(queue, durable=True, exclusive=True)


@pytest.mark.parametrize(
    ("argument", "value", "other"),
    [
        ("x-message-ttl", 1000, 2000),
        ("x-message-ttl", 1000, None),
        ("x-message-ttl", None, 1000),
        ("x-expires", 60_000, 70_000),
        ("x-max-length", 5, 6),
        ("x-max-length-bytes", 5, None),
        ("x-dead-letter-exchange", "a", "b"),
        ("x-max-priority", 3, 4),
        ("x-single-active-consumer", True, None),
        ("x-overflow", "reject-publish", None),
    ],
)
def test_arguments_that_matter_have_to_be_the_same(channel, argument, value, other):
    queue = new_name()
    channel.queue_declare(queue, exclusive=True, arguments={} if value is None else {argument: value})
    with channel_refused(
        406, f"PRECONDITION_FAILED - inequivalent arg '{argument}' for queue '{queue}' in vhost '/': "
    ):
        channel.queue_declare(queue, exclusive=True, arguments={} if other is None else {argument: other})


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-message-ttl", -1),
        ("x-message-ttl", "soon"),
        ("x-expires", 0),
        ("x-expires", -1),
        ("x-expires", "soon"),
        ("x-max-length", -1),
        ("x-max-length", "many"),
        ("x-max-length-bytes", -1),
        ("x-max-priority", -1),
        ("x-max-priority", 256),
        ("x-overflow", "explode"),
        ("x-dead-letter-routing-key", "no-exchange-given"),
        ("x-single-active-consumer", "yes"),
        ("x-queue-type", "nonsense"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(channel, argument, value):
    with channel_refused(406, "PRECONDITION_FAILED - invalid arg "):
        channel.queue_declare(new_name(), durable=True, arguments={argument: value})


def test_a_dead_letter_exchange_that_is_no_text_is_refused(channel):
    with channel_refused(406, "PRECONDITION_FAILED - invalid "):
        channel.queue_declare(new_name(), durable=True, arguments={"x-dead-letter-exchange": 7})


def test_an_argument_that_nobody_knows_is_kept_and_ignored(channel):
    queue = new_name()
    channel.queue_declare(queue, durable=True, arguments={"colour": "blue", "x-colour": 3})
    channel.queue_declare(queue, durable=True, arguments={})


# --- exclusive -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda channel, queue: channel.queue_declare(queue, passive=True),
        lambda channel, queue: channel.queue_declare(queue, exclusive=True),
        lambda channel, queue: channel.basic_get(queue),
        lambda channel, queue: Inbox(channel, queue),
        lambda channel, queue: channel.queue_bind(queue, "amq.direct", "k"),
        lambda channel, queue: channel.queue_purge(queue),
        lambda channel, queue: channel.queue_delete(queue),
    ],
    ids=["passive", "declare", "get", "consume", "bind", "purge", "delete"],
)
def test_an_exclusive_queue_is_locked_for_other_connections(connection, other_connection, channel, use):
    queue = declare(channel, exclusive=True, durable=False)
    text = f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'"
    with channel_refused(405, text):
        use(other_connection.channel(), queue)
    assert exists(connection, queue)


def test_anyone_may_publish_to_an_exclusive_queue(other_connection, channel):
    queue = declare(channel, exclusive=True, durable=False)
    other = other_connection.channel()
    other.confirm_delivery()
    other.basic_publish("", queue, b"m", mandatory=True)
    assert everything(channel, queue) == ["m"]


def test_an_exclusive_queue_serves_all_channels_of_its_connection(connection, channel):
    queue = declare(channel, exclusive=True, durable=False)
    channel.close()
    put(connection.channel(), queue, "m")
    assert must_get(connection.channel(), queue).body == "m"


def test_an_exclusive_queue_goes_with_its_connection(address, connection):
    with connected(address) as owner:
        queue = declare(owner.channel(), exclusive=True, durable=False)
    until(lambda: not exists(connection, queue))


def test_an_exclusive_queue_goes_with_a_connection_that_breaks(address, connection):
    with Raw(address) as raw:
        raw.open()
        raw.open_channel(1)
        queue = raw.ask(commands.Queue.Declare(queue="", exclusive=True)).queue

    def gone():
        try:
            return not exists(connection, queue)
        except ChannelClosedByBroker:  # 405: the broker has not seen the end yet
            return False

    until(gone)


# --- auto-delete and expiry ----------------------------------------------------------------------


def test_an_auto_delete_queue_goes_with_its_last_consumer(connection, channel):
    queue = declare(channel, auto_delete=True)
    one, two = (Inbox(connection.channel(), queue) for _ in range(2))
    one.channel.basic_cancel(one.tag)
    assert exists(connection, queue)
    two.channel.close()
    until(lambda: not exists(connection, queue))


def test_an_auto_delete_queue_that_never_had_a_consumer_stays(address, connection, channel):
    with connected(address) as other:
        queue = declare(other.channel(), auto_delete=True)
        must_not = other.channel().basic_get(queue)
    assert must_not == (None, None, None)
    assert exists(connection, queue)


def test_a_queue_expires_when_nobody_uses_it_and_stays_while_there_is_a_consumer(connection, channel):
    used = declare(channel, x_expires=400)
    Inbox(channel, used)
    unused = [declare(channel, x_expires=400) for _ in range(2)]
    put(channel, unused[0], "a message is no use")
    until(lambda: not any(exists_quietly(connection, queue) for queue in unused))
    assert exists(connection, used)


def exists_quietly(connection, queue):
    """Whether it exists, told by publishing: a declare would count as use."""
    channel = connection.channel()
    returned = []
    channel.add_on_return_callback(lambda *_: returned.append(True))
    channel.basic_publish("", queue, b"", mandatory=True)
    channel.basic_qos(prefetch_count=1)
    connection.process_data_events(time_limit=0.005)
    channel.close()
    return not returned


# --- purge and delete ----------------------------------------------------------------------------


def test_purge_drops_what_waits_and_spares_what_is_held(connection, channel):
    queue = declare(channel)
    put(channel, queue, *"abcd")
    taker = connection.channel()
    must_get(taker, queue, ack=False)
    assert channel.queue_purge(queue).method.message_count == 3
    assert ready(channel, queue) == 0
    taker.close()
    until(lambda: ready(channel, queue) == 1)
    assert everything(channel, queue) == ["a"]


def test_delete_tells_how_many_messages_went(connection, channel):
    queue = declare(channel)
    put(channel, queue, *"abc")
    assert channel.queue_delete(queue).method.message_count == 3
    assert not exists(connection, queue)


def test_a_deleted_queue_declared_again_is_empty(channel):
    queue = declare(channel)
    put(channel, queue, *"abc")
    channel.queue_delete(queue)
    channel.queue_declare(queue, durable=True)
    assert everything(channel, queue) == []


def test_delete_if_empty_spares_a_queue_with_messages(connection, channel):
    queue = declare(channel)
    put(channel, queue, "a")
    with channel_refused(406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty"):
        connection.channel().queue_delete(queue, if_empty=True)
    assert everything(channel, queue) == ["a"]
    channel.queue_delete(queue, if_empty=True)
    assert not exists(connection, queue)


def test_delete_if_unused_spares_a_queue_with_consumers(connection, channel):
    queue = declare(channel)
    inbox = Inbox(channel, queue)
    with channel_refused(406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use"):
        connection.channel().queue_delete(queue, if_unused=True)
    channel.basic_cancel(inbox.tag)
    channel.queue_delete(queue, if_unused=True)
    assert not exists(connection, queue)


def test_deleting_a_queue_that_is_not_there_is_fine(channel):
    assert channel.queue_delete(new_name()).method.message_count == 0


# --- other types ---------------------------------------------------------------------------------


def test_a_quorum_queue_counts_failed_deliveries(connection, channel):
    queue = declare(channel, x_queue_type="quorum")
    put(channel, queue, "a", "b")
    taker = connection.channel()
    first, second = must_get(taker, queue, ack=False), must_get(taker, queue, ack=False)
    assert (first.properties.headers or {}).get("x-delivery-count", 0) == 0
    taker.basic_ack(second.tag)
    taker.basic_reject(first.tag, requeue=True)
    again = must_get(taker, queue, ack=False)
    assert (again.body, again.again, again.properties.headers["x-delivery-count"]) == ("a", True, 1)
    taker.close()
    again = must_get(channel, queue)
    assert (again.body, again.again, again.properties.headers["x-delivery-count"]) == ("a", True, 2)


def counts(delivery):
    """How often it came back, and how often it failed; None: it is not told."""
    headers = delivery.properties.headers or {}
    return headers.get("x-acquired-count"), headers.get("x-delivery-count")


def test_a_quorum_queue_tells_messages_given_back_from_messages_that_failed(channel):
    queue = declare(channel, x_queue_type="quorum")
    put(channel, queue, "m")
    first = must_get(channel, queue, ack=False)
    assert (first.again, counts(first)) == (False, (None, None))
    channel.basic_nack(first.tag, requeue=True)
    second = must_get(channel, queue, ack=False)
    assert (second.again, counts(second)) == (True, (1, None))
    channel.basic_reject(second.tag, requeue=True)
    third = must_get(channel, queue, ack=False)
    assert (third.again, counts(third)) == (True, (2, 1))
    channel.basic_recover(requeue=True)
    fourth = must_get(channel, queue, ack=False)
    assert (fourth.again, counts(fourth)) == (True, (3, 1))
    channel.basic_ack(fourth.tag)


def test_a_quorum_queue_tells_consumers_how_often_each_message_came_back(connection, channel):
    queue = declare(channel, x_queue_type="quorum")
    put(channel, queue, "a", "b", "c")
    inbox = Inbox(connection.channel(), queue)
    a, b, _ = inbox.take(3)
    inbox.channel.basic_reject(a.tag, requeue=True)
    (again,) = inbox.take(1)
    assert (again.body, counts(again)) == ("a", (1, 1))
    inbox.channel.basic_nack(b.tag, requeue=True)
    (again,) = inbox.take(1)
    assert (again.body, counts(again)) == ("b", (1, None))
    inbox.channel.close()  # with all three in its hands: for each of them a failure
    found = {one.body: counts(one) for one in (must_get(channel, queue) for _ in range(3))}
    assert found == {"a": (2, 2), "b": (2, 1), "c": (1, 1)}


def test_a_lost_connection_is_a_failed_delivery_for_a_quorum_queue(address, channel):
    queue = declare(channel, x_queue_type="quorum")
    put(channel, queue, "m")
    with Raw(address) as raw:
        raw.open()
        raw.open_channel(1)
        assert isinstance(raw.ask(commands.Basic.Get(queue=queue, no_ack=False)), commands.Basic.GetOk)
    again = must_get(channel, queue)
    assert (again.again, counts(again)) == (True, (1, 1))


def test_a_quorum_queue_takes_messages_back_for_ever_unless_they_fail(channel):
    queue = declare(channel, x_queue_type="quorum", x_delivery_limit=2)
    put(channel, queue, "m")
    for times in range(6):
        found = must_get(channel, queue, ack=False)
        assert counts(found) == (times or None, None)
        channel.basic_nack(found.tag, requeue=True)
    for _ in range(3):
        channel.basic_reject(must_get(channel, queue, ack=False).tag, requeue=True)
    assert ready(channel, queue) == 0


def test_a_transaction_counts_what_failed_when_it_is_committed(connection, channel):
    queue = declare(channel, x_queue_type="quorum")
    put(channel, queue, "m")
    taker = connection.channel()
    taker.tx_select()
    taker.basic_reject(must_get(taker, queue, ack=False).tag, requeue=True)
    taker.tx_commit()
    again = must_get(channel, queue, ack=False)
    assert counts(again) == (1, 1)
    channel.basic_ack(again.tag)


def test_a_classic_queue_counts_nothing(channel):
    queue = declare(channel)
    put(channel, queue, "m")
    channel.basic_reject(must_get(channel, queue, ack=False).tag, requeue=True)
    again = must_get(channel, queue)
    assert (again.again, counts(again)) == (True, (None, None))


@pytest.mark.parametrize("flags", [{"durable": False}, {"durable": True, "exclusive": True}])
def test_a_quorum_queue_is_durable_and_shared(channel, flags):
    with channel_refused(406, "PRECONDITION_FAILED - invalid property "):
        channel.queue_declare(new_name(), **flags, arguments={"x-queue-type": "quorum"})


def test_classic_is_what_a_queue_is_unless_it_says_otherwise(channel):
    queue = declare(channel)
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "classic"})


def test_a_queue_cannot_change_its_type(channel):
    queue = declare(channel)
    with channel_refused(406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue"):
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})


def test_consumers_are_counted(connection, channel):
    queue = declare(channel)
    inboxes = [Inbox(connection.channel(), queue) for _ in range(3)]
    assert consumers(channel, queue) == 3
    inboxes[0].channel.basic_cancel(inboxes[0].tag)
    inboxes[1].channel.close()
    until(lambda: consumers(channel, queue) == 1)
