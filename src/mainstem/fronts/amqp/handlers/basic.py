"""basic.*: consume, cancel, get, qos, recover. Publishes and acknowledgements have ways of their own."""

from __future__ import annotations

from collections.abc import Awaitable

from pamqp import commands

from mainstem.broker.partition import Partition
from mainstem.fronts.amqp.arguments import consumer_priority, stream_offset
from mainstem.fronts.amqp.channel import Channel
from mainstem.fronts.amqp.codes import as_amqp, not_allowed, not_implemented, precondition, refused
from mainstem.fronts.amqp.consumer import Consumer, counts_of
from mainstem.fronts.amqp.handlers.kind import Handler, Reply, expand, stream_of
from mainstem.fronts.amqp.handlers.queue import new_name
from mainstem.fronts.amqp.replies import PREFIX, REPLY_TO
from mainstem.fronts.amqp.stream import StreamConsumer, positions_of
from mainstem.fronts.amqp.unacked import Held
from mainstem.model.errors import MainstemError, QueueInUse
from mainstem.wire.amqp.deliver import GetOk, encode_get_ok
from mainstem.wire.amqp.events import REQUEUE

# Of one connection: a client with a bug asks for ever more.
MAX_CONSUMERS = 16_384


def qos(channel: Channel, method: commands.Basic.Qos) -> Reply:
    """For consumers to come, or (`global_`) for all of the channel together."""
    if method.prefetch_size:
        raise not_implemented(f"prefetch_size!=0 ({method.prefetch_size})")
    if method.global_:
        channel.shared_prefetch = method.prefetch_count
        channel.wake()
    else:
        channel.prefetch = method.prefetch_count
    return commands.Basic.QosOk()


def consume(channel: Channel, method: commands.Basic.Consume) -> Reply | Awaitable[Reply]:
    session = channel.connection.session
    tag = method.consumer_tag
    if tag and channel.has_consumer(tag):
        raise not_allowed(f"attempt to reuse consumer tag '{tag}'")
    if sum(len(one.consumers) for one in channel.connection.channels.values()) >= MAX_CONSUMERS:
        raise not_allowed(f"reached maximum ({MAX_CONSUMERS}) of consumers per connection")
    tag = tag or new_name(session.broker.chance.uuid(), "amq.ctag-")
    answer = None if method.nowait else commands.Basic.ConsumeOk(tag)
    if method.queue == REPLY_TO:
        return _consume_replies(channel, tag, method.no_ack, answer)
    name = expand(channel, method.queue)
    about = session.resource("queue", name)
    session.require("read", "queue", name)
    partitions = stream_of(session, name)
    if partitions is not None:
        return _consume_stream(channel, method, tag, partitions)
    try:
        queue = channel.queue(name)
    except MainstemError as error:
        raise as_amqp(error, about) from error
    priority = consumer_priority(method.arguments or {}, about)
    consumer = Consumer(channel, tag, queue, method.no_ack, priority)
    try:
        queue.subscribe(consumer, method.exclusive)
    except QueueInUse:
        raise refused(f"{about} in exclusive use") from None
    channel.consumers[tag] = consumer
    if answer is not None:
        channel.send(answer)
    consumer.is_open = True  # from here on: deliveries come behind the answer
    queue.wake()
    return None


async def _consume_stream(
    channel: Channel, method: commands.Basic.Consume, tag: str, partitions: list[Partition]
) -> Reply:
    session = channel.connection.session
    name = expand(channel, method.queue)
    about = session.resource("queue", name)
    if method.no_ack:
        raise not_implemented(f"automatic acknowledgement not supported by stream {about}")
    if not channel.prefetch:
        raise precondition(f"consumer prefetch count is not set for stream {about}")
    arguments = method.arguments or {}
    priority = consumer_priority(arguments, about)
    where = stream_offset(arguments, about, session.broker.clock.now_ms())
    positions = await positions_of(channel, partitions, where)
    if not channel.connection.has_open(channel):
        return None
    queue = session.namespace.queues.get(name)
    consumer = StreamConsumer(channel, tag, queue, positions, priority)
    if queue is not None:
        queue.subscribe(consumer)
    channel.consumers[tag] = consumer
    if not method.nowait:
        channel.send(commands.Basic.ConsumeOk(tag))
    consumer.start()
    return None


def _consume_replies(channel: Channel, tag: str, no_ack: bool, answer: Reply) -> Reply:
    if not no_ack:
        raise precondition("reply consumer cannot acknowledge")
    if channel.reply_address:
        raise precondition("reply consumer already set")
    channel.wait_for_replies(tag, new_name(channel.connection.session.broker.chance.uuid(), PREFIX))
    return answer


def cancel(channel: Channel, method: commands.Basic.Cancel) -> Reply:
    """Of one that is not there, too."""
    tag = method.consumer_tag or ""
    if tag and tag == channel.reply_tag:
        channel.stop_replies()
    consumer = channel.consumers.pop(tag, None)
    if consumer is not None:
        consumer.stop()
    return None if method.nowait else commands.Basic.CancelOk(tag)


def cancel_ok(channel: Channel, method: commands.Basic.CancelOk) -> Reply:
    """A client's answer to being told that its queue is gone."""
    return None


async def get(channel: Channel, method: commands.Basic.Get) -> Reply:
    session = channel.connection.session
    name = expand(channel, method.queue)
    about = session.resource("queue", name)
    session.require("read", "queue", name)
    try:
        queue = channel.queue(name)
        if queue.spec.options.kind == "stream":
            raise not_implemented(f"basic.get not supported by stream queues {about}")
        found = await queue.get()
    except MainstemError as error:
        raise as_amqp(error, about) from error
    if found is None:
        return commands.Basic.GetEmpty()
    if channel.is_closing or not channel.connection.has_open(channel):
        queue.put_back(found.lane, found.first, found.first + 1)
        return None
    counted = found.again and queue.spec.options.kind == "quorum"
    extra = counts_of(queue, found.lane, found.first) if counted else {}
    place = GetOk(channel.number, session.frame_max, channel.next_tag, found.again, queue.ready)
    encode_get_ok(channel.connection.outbox.out, place, found.batch, found.at, extra)
    if method.no_ack:
        queue.ack(found.lane, found.first, found.first + 1)
    else:
        tag = channel.next_tag
        channel.unacked.hold(Held(tag, tag + 1, queue, found.lane, found.first, None))
    channel.next_tag += 1
    channel.connection.outbox.flush_soon()
    return None


def recover(channel: Channel, method: commands.Basic.Recover) -> Reply:
    _give_all_back(channel, method.requeue)
    return commands.Basic.RecoverOk()


def recover_async(channel: Channel, method: commands.Basic.RecoverAsync) -> Reply:
    _give_all_back(channel, method.requeue)
    return None


def _give_all_back(channel: Channel, requeue: bool) -> None:
    if not requeue:
        raise not_implemented("requeue=false")
    channel.end(REQUEUE, channel.unacked.take_all())


HANDLERS: dict[type, Handler] = {
    commands.Basic.Qos: qos,
    commands.Basic.Consume: consume,
    commands.Basic.Cancel: cancel,
    commands.Basic.CancelOk: cancel_ok,
    commands.Basic.Get: get,
    commands.Basic.Recover: recover,
    commands.Basic.RecoverAsync: recover_async,
}
