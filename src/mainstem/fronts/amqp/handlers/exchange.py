"""exchange.*: declare, delete, and bindings between exchanges."""

from __future__ import annotations

from pamqp import commands

from mainstem.broker.queues import ExchangeSpec, Target
from mainstem.fronts.amqp.arguments import alternate_exchange
from mainstem.fronts.amqp.channel import Channel
from mainstem.fronts.amqp.codes import as_amqp, precondition, refused
from mainstem.fronts.amqp.handlers.kind import (
    RESERVED,
    Handler,
    Reply,
    check_name,
    check_not_default,
    clean,
)
from mainstem.model.errors import MainstemError, UnknownExchange

KINDS = frozenset(
    {"direct", "fanout", "topic", "headers", "x-consistent-hash", "x-local-random", "x-delayed-message"}
)


async def declare(channel: Channel, method: commands.Exchange.Declare) -> Reply:
    session = channel.connection.session
    name = clean(method.exchange)
    about = session.resource("exchange", name)
    check_not_default(name)
    answer = None if method.nowait else commands.Exchange.DeclareOk()
    if method.passive:
        session.require_any("exchange", name)
        if name not in session.namespace.exchanges:
            raise as_amqp(UnknownExchange(name), about)
        return answer
    kind = method.exchange_type
    if kind not in KINDS:
        raise precondition(f"unknown exchange type '{kind}'")
    session.require("configure", "exchange", name)
    arguments = dict(method.arguments or {})
    alternate = alternate_exchange(arguments, about)
    if name not in session.namespace.exchanges:
        check_name("exchange", name)
        if kind == "x-delayed-message" and arguments.get("x-delayed-type") not in KINDS - {kind}:
            raise precondition("Invalid argument, 'x-delayed-type' must be an existing exchange type")
        if alternate is not None:
            session.require("read", "exchange", name)
            session.require("write", "exchange", alternate)
    spec = ExchangeSpec(name, kind, method.durable, method.auto_delete, method.internal, alternate, arguments)
    try:
        await session.topology.declare_exchange(session.namespace, spec)
    except MainstemError as error:
        raise as_amqp(error, about) from error
    return answer


async def delete(channel: Channel, method: commands.Exchange.Delete) -> Reply:
    session = channel.connection.session
    name = clean(method.exchange)
    about = session.resource("exchange", name)
    check_not_default(name)
    if name.startswith(RESERVED):
        raise refused(f"deletion of system {about} not allowed")
    session.require("configure", "exchange", name)
    try:
        await session.topology.delete_exchange(session.namespace, name, method.if_unused)
    except MainstemError as error:
        raise as_amqp(error, about) from error
    return None if method.nowait else commands.Exchange.DeleteOk()


async def bind(channel: Channel, method: commands.Exchange.Bind) -> Reply:
    await _change(channel, method, True)
    return None if method.nowait else commands.Exchange.BindOk()


async def unbind(channel: Channel, method: commands.Exchange.Unbind) -> Reply:
    await _change(channel, method, False)
    return None if method.nowait else commands.Exchange.UnbindOk()


async def _change(
    channel: Channel, method: commands.Exchange.Bind | commands.Exchange.Unbind, binds: bool
) -> None:
    session = channel.connection.session
    target, source = clean(method.destination), clean(method.source)
    check_not_default(source)
    check_not_default(target)
    session.require("write", "exchange", target)
    session.require("read", "exchange", source)
    change = session.topology.bind if binds else session.topology.unbind
    for name in (source, target):
        if name not in session.namespace.exchanges:
            if not binds:
                return  # nothing is bound that is not there
            raise as_amqp(UnknownExchange(name), session.resource("exchange", name))
    try:
        await change(
            session.namespace,
            source,
            Target("exchange", target),
            method.routing_key,
            dict(method.arguments or {}),
        )
    except MainstemError as error:
        raise as_amqp(error, session.resource("exchange", source)) from error


HANDLERS: dict[type, Handler] = {
    commands.Exchange.Declare: declare,
    commands.Exchange.Delete: delete,
    commands.Exchange.Bind: bind,
    commands.Exchange.Unbind: unbind,
}
