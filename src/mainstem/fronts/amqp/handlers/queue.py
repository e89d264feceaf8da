"""queue.*: declare, bind, unbind, purge, delete."""

from __future__ import annotations

import base64

from pamqp import commands

from mainstem.broker.queues import QueueSpec, Target
from mainstem.fronts.amqp.arguments import check_kind, meaningful, queue_options
from mainstem.fronts.amqp.channel import Channel
from mainstem.fronts.amqp.codes import as_amqp, not_implemented, precondition, refused
from mainstem.fronts.amqp.handlers.kind import (
    Handler,
    Reply,
    check_name,
    check_not_default,
    clean,
    expand,
    expand_key,
    stream_of,
)
from mainstem.fronts.amqp.replies import PREFIX, REPLY_TO
from mainstem.model.errors import MainstemError, UnknownExchange, UnknownQueue
from mainstem.wire.amqp.methods import declare_ok

GENERATED = "amq.gen-"
_MOST = (1 << 32) - 1  # that a count can say


async def declare(channel: Channel, method: commands.Queue.Declare) -> Reply:
    name = clean(method.queue)
    if name.startswith(REPLY_TO):
        return _declare_replies(channel, name, method.nowait)
    session = channel.connection.session
    about = session.resource("queue", name)
    if method.passive:
        name = name or expand(channel, name)
        session.require_any("queue", name)
        partitions = stream_of(session, name)
        if partitions is not None and name not in session.namespace.queues:
            count = sum(partition.high_watermark - partition.log_start for partition in partitions)
            return None if method.nowait else declare_ok(name, min(count, _MOST), 0)
        try:
            queue = channel.queue(name)
        except MainstemError as error:
            raise as_amqp(error, session.resource("queue", name)) from error
    else:
        arguments = dict(method.arguments or {})
        options = queue_options(arguments, about)
        if arguments.get("x-queue-type") == "classic":
            del arguments["x-queue-type"]  # what it is without it, too
        check_kind(options.kind, method.durable, method.exclusive, method.auto_delete, about)
        if not name:
            if options.kind != "classic":
                raise precondition(
                    f"Cannot declare a server-named queue for type rabbit_{options.kind}_queue"
                )
            name = new_name(session.broker.chance.uuid(), GENERATED)
        else:
            check_name("queue", name)
        about = session.resource("queue", name)
        session.require("configure", "queue", name)
        if options.dead_letter_exchange is not None and name not in session.namespace.queues:
            session.require("read", "queue", name, is_new=True)
            session.require("write", "exchange", options.dead_letter_exchange)
        durable = method.durable and not method.exclusive
        kept = meaningful(arguments)
        spec = QueueSpec(name, durable, method.auto_delete, method.exclusive, options, kept)
        owner = channel.connection
        try:
            queue = await session.topology.declare_queue(session.namespace, spec, owner)
        except MainstemError as error:
            raise as_amqp(error, about) from error
    channel.last_queue = name
    return None if method.nowait else declare_ok(name, queue.ready, queue.consumers)


def _declare_replies(channel: Channel, name: str, nowait: bool) -> Reply:
    """There is nothing to declare; a client may ask whether somebody still waits for an answer."""
    session = channel.connection.session
    if name != REPLY_TO and session.listener.replies.find(name) is None:
        raise as_amqp(UnknownQueue(name), session.resource("queue", name))
    return None if nowait else declare_ok(name, 0, 1)


async def bind(channel: Channel, method: commands.Queue.Bind) -> Reply:
    await _change(channel, method, True)
    return None if method.nowait else commands.Queue.BindOk()


async def unbind(channel: Channel, method: commands.Queue.Unbind) -> Reply:
    await _change(channel, method, False)
    return commands.Queue.UnbindOk()


async def _change(channel: Channel, method: commands.Queue.Bind | commands.Queue.Unbind, binds: bool) -> None:
    session = channel.connection.session
    key = expand_key(channel, method.queue, method.routing_key)
    name, source = expand(channel, method.queue), clean(method.exchange)
    check_not_default(source)
    if name.startswith(PREFIX):
        raise refused("cannot bind or unbind to a volatile (direct reply-to) queue")
    session.require("write", "queue", name)
    session.require("read", "exchange", source)
    change = session.topology.bind if binds else session.topology.unbind
    if not binds and (source not in session.namespace.exchanges or name not in session.namespace.queues):
        return  # nothing is bound that is not there
    try:
        if source not in session.namespace.exchanges:
            raise UnknownExchange(source)
        channel.queue(name)
        target = Target("queue", name)
        await change(session.namespace, source, target, key, dict(method.arguments or {}))
    except MainstemError as error:
        raise as_amqp(error, session.resource("queue", name)) from error


async def purge(channel: Channel, method: commands.Queue.Purge) -> Reply:
    session = channel.connection.session
    name = expand(channel, method.queue)
    about = session.resource("queue", name)
    session.require("read", "queue", name)
    try:
        queue = channel.queue(name)
        if queue.spec.options.kind == "stream":
            raise not_implemented(f"queue.purge not supported by stream queues {about}")
        count = queue.purge()
        await session.queues.acks.on_disk()
    except MainstemError as error:
        raise as_amqp(error, about) from error
    return None if method.nowait else commands.Queue.PurgeOk(count)


async def delete(channel: Channel, method: commands.Queue.Delete) -> Reply:
    """One that is not there is as good as deleted."""
    session = channel.connection.session
    name = expand(channel, method.queue)
    session.require("configure", "queue", name)
    count = 0
    try:
        if name in session.namespace.queues:
            queue = channel.queue(name)
            count = await session.topology.delete_queue(queue, method.if_unused, method.if_empty)
    except MainstemError as error:
        raise as_amqp(error, session.resource("queue", name)) from error
    return None if method.nowait else commands.Queue.DeleteOk(count)


def new_name(uuid: bytes, prefix: str) -> str:
    return prefix + base64.urlsafe_b64encode(uuid).decode().rstrip("=")


HANDLERS: dict[type, Handler] = {
    commands.Queue.Declare: declare,
    commands.Queue.Bind: bind,
    commands.Queue.Unbind: unbind,
    commands.Queue.Purge: purge,
    commands.Queue.Delete: delete,
}
