"""What changes how a channel works: confirm.*, tx.*, channel.flow."""

from __future__ import annotations

from pamqp import commands

from mainstem.fronts.amqp.channel import Channel
from mainstem.fronts.amqp.codes import as_amqp, not_implemented, precondition
from mainstem.fronts.amqp.handlers.kind import Handler, Reply
from mainstem.fronts.amqp.transaction import Transaction
from mainstem.model.errors import MainstemError


def confirm_select(channel: Channel, method: commands.Confirm.Select) -> Reply:
    if channel.transaction is not None:
        raise precondition("cannot switch from tx to confirm mode")
    channel.confirming = True
    return None if method.nowait else commands.Confirm.SelectOk()


def tx_select(channel: Channel, method: commands.Tx.Select) -> Reply:
    if channel.confirming:
        raise precondition("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction(channel)
    return commands.Tx.SelectOk()


async def tx_commit(channel: Channel, method: commands.Tx.Commit) -> Reply:
    transaction = _transaction(channel)
    try:
        await transaction.commit()
    except MainstemError as error:
        raise as_amqp(error) from error
    if channel.transaction is transaction:  # the channel is still there
        channel.transaction = Transaction(channel)
    return commands.Tx.CommitOk()


def tx_rollback(channel: Channel, method: commands.Tx.Rollback) -> Reply:
    channel.unacked.put_back(_transaction(channel).drop())
    channel.transaction = Transaction(channel)
    return commands.Tx.RollbackOk()


def _transaction(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise precondition("channel is not transactional")
    return channel.transaction


def flow(channel: Channel, method: commands.Channel.Flow) -> Reply:
    if not method.active:
        raise not_implemented("active=false")
    return commands.Channel.FlowOk(True)


HANDLERS: dict[type, Handler] = {
    commands.Confirm.Select: confirm_select,
    commands.Tx.Select: tx_select,
    commands.Tx.Commit: tx_commit,
    commands.Tx.Rollback: tx_rollback,
    commands.Channel.Flow: flow,
}
