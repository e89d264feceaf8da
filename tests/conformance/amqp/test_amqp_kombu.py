"""kombu and py-amqp."""

from __future__ import annotations

import socket

import amqp.exceptions
import pytest
from amqp_kit import PATIENCE_S, new_name
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.mixins import ConsumerProducerMixin
from kombu.pools import producers


@pytest.fixture
def kombu(address):
    with Connection(
        f"amqp://guest:guest@{address}//", transport_options={"confirm_publish": True}
    ) as connection:
        yield connection


def take(connection, queues, count, **more):
    """So many messages, acked."""
    got = []

    def keep(_body, message):
        got.append(message)
        message.ack()

    with Consumer(connection, queues, callbacks=[keep], accept=["json", "pickle", "text/plain"], **more):
        while len(got) < count:
            connection.drain_events(timeout=PATIENCE_S)
    return got


def test_a_producer_declares_what_it_needs_and_a_consumer_gets_it(kombu):
    exchange = Exchange(new_name("exchange"), "direct", durable=True)
    queue = Queue(new_name(), exchange, routing_key="k")
    producer = Producer(kombu)
    producer.publish({"n": 1}, exchange=exchange, routing_key="k", declare=[queue], headers={"h": [1, "2"]})
    (message,) = take(kombu, queue, 1)
    assert (message.payload, message.headers["h"]) == ({"n": 1}, [1, "2"])
    assert message.delivery_info["exchange"] == exchange.name
    assert message.delivery_info["redelivered"] is False


@pytest.mark.parametrize(
    ("serializer", "compression"), [("json", None), ("json", "zlib"), ("pickle", None), ("pickle", "bzip2")]
)
def test_serializers_and_compressions_travel(kombu, serializer, compression):
    queue = Queue(new_name(), durable=True)
    thing = {"list": list(range(1000)), "text": "ä"}
    Producer(kombu).publish(
        thing, routing_key=queue.name, declare=[queue], serializer=serializer, compression=compression
    )
    (message,) = take(kombu, queue, 1)
    assert message.payload == thing


def test_a_simple_queue_puts_gets_and_counts(kombu):
    with kombu.SimpleQueue(new_name()) as queue:
        for number in range(3):
            queue.put({"n": number})
        assert queue.qsize() == 3
        for number in range(3):
            message = queue.get(timeout=PATIENCE_S)
            assert message.payload == {"n": number}
            message.ack()
        with pytest.raises(queue.Empty):
            queue.get_nowait()


def test_requeue_and_reject(kombu):
    dead = Queue(new_name("dead"))
    queue = Queue(
        new_name(),
        queue_arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name},
    )
    Producer(kombu).publish("m", routing_key=queue.name, declare=[queue, dead])
    seen = []

    def judge(_body, message):
        seen.append(message.delivery_info["redelivered"])
        if len(seen) == 1:
            message.requeue()
        else:
            message.reject()

    with Consumer(kombu, queue, callbacks=[judge]):
        while len(seen) < 2:
            kombu.drain_events(timeout=PATIENCE_S)
    assert seen == [False, True]
    (message,) = take(kombu, dead, 1)
    assert message.headers["x-death"][0]["reason"] == "rejected"


def test_queue_options_become_arguments(kombu):
    channel = kombu.channel()
    queue = Queue(new_name(), max_priority=5, max_length=10, message_ttl=60, expires=60, channel=channel)
    queue.declare()
    producer = Producer(channel)
    for priority in (0, 5, 3):
        producer.publish(str(priority), routing_key=queue.name, priority=priority)
    found = [queue.get(no_ack=True).payload for _ in range(3)]
    assert found == ["5", "3", "0"]
    with pytest.raises(amqp.exceptions.PreconditionFailed):
        Queue(queue.name, max_priority=4, channel=kombu.channel()).declare()


def test_topics_fanouts_and_exchange_bindings(kombu):
    channel = kombu.channel()
    topic = Exchange(new_name("topic"), "topic", channel=channel)
    fanout = Exchange(new_name("fanout"), "fanout", channel=channel)
    topic.declare()
    fanout.declare()
    fanout.bind_to(topic, routing_key="a.#")
    queues = [Queue(new_name(), fanout, channel=channel) for _ in range(2)]
    for queue in queues:
        queue.declare()
    producer = Producer(channel, exchange=topic)
    producer.publish("yes", routing_key="a.b")
    producer.publish("no", routing_key="b")
    assert [queue.get(no_ack=True).payload for queue in queues] == ["yes", "yes"]
    assert [queue.get() for queue in queues] == [None, None]


def test_prefetch_holds_back(kombu):
    queue = Queue(new_name())
    producer = Producer(kombu)
    for number in range(5):
        producer.publish(number, routing_key=queue.name, declare=[queue])
    held = []
    consumer = Consumer(kombu, queue, callbacks=[lambda _body, message: held.append(message)])
    consumer.qos(prefetch_count=2)
    with consumer:
        while len(held) < 2:
            kombu.drain_events(timeout=PATIENCE_S)
        with pytest.raises(socket.timeout):
            kombu.drain_events(timeout=0.05)
        held[0].ack()
        while len(held) < 3:
            kombu.drain_events(timeout=PATIENCE_S)
    assert [message.payload for message in held] == [0, 1, 2]


def test_a_mandatory_message_without_a_queue_comes_back(kombu):
    returned = []
    channel = kombu.channel()
    producer = Producer(
        channel,
        on_return=lambda _error, exchange, key, message: returned.append((exchange, key, message.body)),
    )
    producer.publish("m", exchange="amq.direct", routing_key="nowhere", mandatory=True)
    while not returned:
        kombu.drain_events(timeout=PATIENCE_S)
    assert returned[0][:2] == ("amq.direct", "nowhere")


def test_errors_become_py_amqps_exceptions(kombu):
    with pytest.raises(amqp.exceptions.NotFound):
        kombu.channel().queue_declare(new_name(), passive=True)
    with pytest.raises(amqp.exceptions.AccessRefused):
        kombu.channel().queue_declare("amq.mine")
    with pytest.raises(amqp.exceptions.NotFound):
        Producer(kombu.channel()).publish("m", exchange=new_name(), routing_key="k")
    assert kombu.connected


def test_a_connection_heals_itself(kombu):
    queue = Queue(new_name())
    producer = Producer(kombu)
    producer.publish("one", routing_key=queue.name, declare=[queue])
    kombu.connection.transport.sock.shutdown(socket.SHUT_RDWR)
    publish = kombu.ensure(producer, producer.publish, max_retries=3, interval_start=0)
    publish("two", routing_key=queue.name)
    assert [message.payload for message in take(kombu, queue, 2)] == ["one", "two"]


def test_pools_of_producers_share_connections(kombu):
    queue = Queue(new_name())
    for number in range(3):
        with producers[kombu].acquire(block=True) as producer:
            producer.publish(number, routing_key=queue.name, declare=[queue])
    assert [message.payload for message in take(kombu, queue, 3)] == [0, 1, 2]


def test_transactions(kombu):
    channel = Connection(kombu.as_uri(include_password=True)).channel()
    queue = Queue(new_name(), channel=channel)
    queue.declare()
    channel.tx_select()
    producer = Producer(channel)
    producer.publish("never", routing_key=queue.name)
    channel.tx_rollback()
    producer.publish("yes", routing_key=queue.name)
    channel.tx_commit()
    assert queue.get(no_ack=True).payload == "yes"
    assert queue.get() is None
    channel.connection.close()


class Server(ConsumerProducerMixin):
    """Answers one question and stops."""

    def __init__(self, connection, queue):
        self.connection = connection
        self.queue = queue

    def get_consumers(self, Consumer, _channel):
        return [Consumer(queues=[self.queue], on_message=self.answer, accept=["json"], prefetch_count=1)]

    def answer(self, message):
        self.producer.publish(
            {"sum": sum(message.payload)},
            routing_key=message.properties["reply_to"],
            correlation_id=message.properties["correlation_id"],
        )
        message.ack()
        self.should_stop = True


def test_a_mixin_serves_questions(kombu, address):
    questions, answers = Queue(new_name("questions")), Queue(new_name("answers"))
    Producer(kombu).publish(
        [1, 2, 3],
        routing_key=questions.name,
        declare=[questions, answers],
        reply_to=answers.name,
        correlation_id="5",
    )
    with Connection(f"amqp://guest:guest@{address}//") as connection:
        Server(connection, questions).run()
    (message,) = take(kombu, answers, 1)
    assert (message.payload, message.properties["correlation_id"]) == ({"sum": 6}, "5")


def test_heartbeats_keep_a_connection_alive(address):
    with Connection(f"amqp://guest:guest@{address}//", heartbeat=4) as connection:
        connection.connect()
        assert connection.get_heartbeat_interval() == 4
        connection.heartbeat_check()
        queue = Queue(new_name(), channel=connection.channel())
        queue.declare()
