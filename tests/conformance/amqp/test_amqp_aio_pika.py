"""aio-pika, on asyncio."""

from __future__ import annotations

import asyncio

import aio_pika
import pytest
from aio_pika.abc import DeliveryMode
from aio_pika.exceptions import (
    ChannelInvalidStateError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
    PublishError,
    QueueEmpty,
)
from aio_pika.patterns import RPC, Master
from amqp_kit import PATIENCE_S, new_name


@pytest.fixture
def scene(address):
    """Run a coroutine function with an open connection and a channel."""

    def run(act):
        async def main():
            connection = await aio_pika.connect(f"amqp://guest:guest@{address}/")
            async with connection:
                return await asyncio.wait_for(act(connection, await connection.channel()), PATIENCE_S)

        return asyncio.run(main())

    return run


async def send(channel, queue, *bodies, **more):
    for body in bodies:
        await channel.default_exchange.publish(aio_pika.Message(body.encode(), **more), queue.name)


def test_publish_and_get(scene):
    async def act(_connection, channel):
        queue = await channel.declare_queue(new_name(), durable=True)
        await send(
            channel,
            queue,
            "m",
            headers={"a": 1, "b": "x"},
            delivery_mode=DeliveryMode.PERSISTENT,
            message_id="id",
            priority=3,
        )
        message = await queue.get()
        await message.ack()
        assert (message.body, message.message_id, message.priority) == (b"m", "id", 3)
        assert message.headers == {"a": 1, "b": "x"}
        with pytest.raises(QueueEmpty):
            await queue.get()

    scene(act)


def test_an_iterator_takes_messages_in_order(scene):
    async def act(_connection, channel):
        await channel.set_qos(prefetch_count=5)
        queue = await channel.declare_queue(new_name(), durable=True)
        await send(channel, queue, *map(str, range(50)))
        seen = []
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    seen.append(message.body.decode())
                if len(seen) == 50:
                    break
        assert seen == [str(number) for number in range(50)]

    scene(act)


def test_an_exception_while_processing_requeues(scene):
    async def act(_connection, channel):
        queue = await channel.declare_queue(new_name(), durable=True)
        await send(channel, queue, "m")
        message = await queue.get()
        with pytest.raises(ValueError, match="no"):
            async with message.process(requeue=True):
                raise ValueError("no")
        again = await queue.get()
        assert (again.body, again.redelivered) == (b"m", True)
        await again.ack()

    scene(act)


def test_many_publishes_at_once_are_all_confirmed(scene):
    async def act(_connection, channel):
        queue = await channel.declare_queue(new_name(), durable=True)
        await asyncio.gather(*(send(channel, queue, str(number)) for number in range(300)))
        answer = await channel.declare_queue(queue.name, passive=True)
        assert answer.declaration_result.message_count == 300

    scene(act)


def test_an_unroutable_message_raises(scene):
    async def act(connection, _channel):
        channel = await connection.channel(on_return_raises=True)
        with pytest.raises(PublishError):
            await channel.default_exchange.publish(aio_pika.Message(b"m"), new_name(), mandatory=True)

    scene(act)


def test_a_refused_message_raises(scene):
    async def act(_connection, channel):
        arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
        queue = await channel.declare_queue(new_name(), durable=True, arguments=arguments)
        await send(channel, queue, "a")
        with pytest.raises(DeliveryError):
            await send(channel, queue, "b")

    scene(act)


def test_topic_exchanges_and_exchange_bindings(scene):
    async def act(_connection, channel):
        source = await channel.declare_exchange(new_name("topic"), aio_pika.ExchangeType.TOPIC)
        target = await channel.declare_exchange(new_name("fanout"), aio_pika.ExchangeType.FANOUT)
        await target.bind(source, "a.*")
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(target)
        for key in ("a.b", "b.a"):
            await source.publish(aio_pika.Message(key.encode()), key, mandatory=False)
        message = await queue.get(no_ack=True)
        assert message.body == b"a.b"
        assert await queue.get(no_ack=True, fail=False) is None

    scene(act)


def test_transactions(scene):
    async def act(connection, channel):
        queue = await channel.declare_queue(new_name(), durable=True)
        tx = await connection.channel(publisher_confirms=False)
        async with tx.transaction():
            await send(tx, queue, "yes")
            answer = await channel.declare_queue(queue.name, passive=True)
            assert answer.declaration_result.message_count == 0
        assert (await queue.get(no_ack=True)).body == b"yes"
        undone = tx.transaction()
        await undone.select()
        await send(tx, queue, "never")
        await undone.rollback()
        assert await queue.get(no_ack=True, fail=False) is None

    scene(act)


def test_errors_close_the_channel_only(scene):
    async def act(connection, channel):
        with pytest.raises(ChannelNotFoundEntity):
            await channel.declare_queue(new_name(), passive=True)
        with pytest.raises(ChannelInvalidStateError):
            await channel.declare_queue(new_name())
        fresh = await connection.channel()
        queue = await fresh.declare_queue(new_name(), durable=True)
        with pytest.raises(ChannelPreconditionFailed):
            await fresh.declare_queue(queue.name, durable=True, auto_delete=True)
        assert not connection.is_closed

    scene(act)


def test_the_rpc_pattern_over_its_own_dead_letter_exchange(scene):
    async def act(connection, channel):
        async def multiply(*, x, y):
            return x * y

        name = new_name("multiply")
        rpc = await RPC.create(channel)
        await rpc.register(name, multiply, auto_delete=True)
        other = await RPC.create(await connection.channel())
        assert await asyncio.gather(*(other.call(name, {"x": n, "y": n}) for n in range(20))) == [
            n * n for n in range(20)
        ]
        await rpc.close()
        await other.close()

    scene(act)


def test_the_master_pattern_hands_out_work(scene):
    async def act(_connection, channel):
        done = []
        name = new_name("work")

        async def work(*, task):
            done.append(task)

        master = Master(channel)
        worker = await master.create_worker(name, work, auto_delete=True)
        for number in range(10):
            await master.create_task(name, {"task": number})
        while len(done) < 10:
            await asyncio.sleep(0.005)
        await worker.close()
        assert done == list(range(10))

    scene(act)


def test_a_robust_connection_comes_back_with_its_queues_and_consumers(address):
    async def main():
        connection = await aio_pika.connect_robust(f"amqp://guest:guest@{address}/", reconnect_interval=0.05)
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(new_name(), auto_delete=False, durable=True)
            got = asyncio.Queue()
            await queue.consume(got.put, no_ack=True)
            restored = asyncio.Event()
            connection.reconnect_callbacks.add(lambda *_: restored.set())
            await connection.transport.connection.close(ConnectionResetError("the network is gone"))
            await asyncio.wait_for(restored.wait(), PATIENCE_S)
            await send(channel, queue, "after")
            assert (await asyncio.wait_for(got.get(), PATIENCE_S)).body == b"after"

    asyncio.run(main())


def test_direct_reply_to(scene):
    async def act(connection, channel):
        questions = await channel.declare_queue(new_name(), durable=True)
        replies = await channel.get_queue("amq.rabbitmq.reply-to", ensure=False)
        answered = asyncio.get_running_loop().create_future()

        async def keep(message):
            answered.set_result(message.body)

        await replies.consume(keep, no_ack=True)
        await send(channel, questions, "ping", reply_to="amq.rabbitmq.reply-to")
        server = await connection.channel()
        question = await (await server.get_queue(questions.name)).get(no_ack=True)
        await server.default_exchange.publish(aio_pika.Message(b"pong"), question.reply_to, mandatory=False)
        assert await asyncio.wait_for(answered, PATIENCE_S) == b"pong"

    scene(act)
