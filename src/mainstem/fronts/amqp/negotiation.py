"""Channel 0: from the protocol header to connection.open-ok, and the connection's end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pamqp import base, commands

from mainstem import __version__
from mainstem.broker.access.sasl import PLAIN
from mainstem.fronts.amqp.codes import ACCESS_REFUSED, CHANNEL_ERROR, not_allowed
from mainstem.fronts.amqp.login import log_in, mechanisms
from mainstem.model.errors import AccessError, UnknownNamespace
from mainstem.model.logs import get_log
from mainstem.wire.amqp.errors import AmqpError
from mainstem.wire.amqp.methods import PROTOCOL_HEADER

if TYPE_CHECKING:
    from mainstem.fronts.amqp.connection import Connection

events = get_log(__name__)

SMALLEST_FRAME_MAX = 4096
# What AMQP 0-9 sends; it is near enough to 0-9-1.
_OLD_HEADER = b"AMQP\x01\x01\x00\x09"
CAPABILITIES = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "consumer_priorities": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
    "direct_reply_to": True,
}


def is_header(first: bytes) -> bool:
    return first in (PROTOCOL_HEADER, _OLD_HEADER)


def start(connection: Connection) -> base.Frame:
    session = connection.session
    properties: dict[str, Any] = {
        "capabilities": CAPABILITIES,
        "cluster_name": session.broker.cluster_id,
        "product": "Mainstem",
        "version": __version__,
        "platform": "Python",
        "information": "Messages of all protocols on one durable log",
    }
    return commands.Connection.Start(0, 9, properties, " ".join(mechanisms(session.certificate)), "en_US")


async def start_ok(connection: Connection, method: commands.Connection.StartOk) -> base.Frame | None:
    """Log in. A wrong password is told only to clients that expect to be told."""
    session = connection.session
    capabilities = (method.client_properties or {}).get("capabilities")
    session.capabilities = capabilities if isinstance(capabilities, dict) else {}
    mechanism = method.mechanism or PLAIN
    response = method.response
    raw = response.encode() if isinstance(response, str) else bytes(response or b"")
    try:
        session.principal = await log_in(session.listener, session.host, session.certificate, mechanism, raw)
    except AccessError as error:
        events.warning("login refused", peer=connection.peer, mechanism=mechanism, why=str(error))
        if not session.can("authentication_failure_close"):
            connection.abort("login refused")
            return None
        raise AmqpError(
            ACCESS_REFUSED,
            f"Login was refused using authentication mechanism {mechanism}."
            " For details see the broker logfile.",
            closes_connection=True,
        ) from None
    connection.state = "tuning"
    listener = session.listener
    return commands.Connection.Tune(listener.channel_max, listener.frame_max, listener.heartbeat_s)


def tune_ok(connection: Connection, method: commands.Connection.TuneOk) -> None:
    session = connection.session
    listener = session.listener
    if 0 < method.frame_max < SMALLEST_FRAME_MAX:
        raise _not_agreed("frame_max", method.frame_max, "lower", "minimum", SMALLEST_FRAME_MAX)
    if method.frame_max == 0 or method.frame_max > listener.frame_max:
        raise _not_agreed("frame_max", method.frame_max, "higher", "maximum", listener.frame_max)
    if method.channel_max == 0 or method.channel_max > listener.channel_max:
        raise _not_agreed("channel_max", method.channel_max, "higher", "maximum", listener.channel_max)
    session.frame_max, session.channel_max = method.frame_max, method.channel_max
    session.heartbeat_s = method.heartbeat
    connection.agreed()
    connection.state = "opening"


def _not_agreed(field: str, value: int, than: str, which: str, limit: int) -> AmqpError:
    detail = " (no limit)" if value == 0 else ""
    return not_allowed(
        f"negotiated {field} = {value}{detail} is {than} than the {which} allowed value ({limit})"
    )


def open_(connection: Connection, method: commands.Connection.Open) -> base.Frame:
    session = connection.session
    vhost = method.virtual_host or "/"
    try:
        namespace = session.topology.namespace(vhost)
    except UnknownNamespace:
        raise not_allowed(f"vhost {vhost} not found") from None
    if not session.may_open(namespace):
        raise not_allowed(f"access to vhost '{vhost}' refused for user '{session.user}'")
    session.namespace = namespace
    connection.state = "running"
    return commands.Connection.OpenOk()


async def handle(connection: Connection, method: base.Frame) -> base.Frame | None:
    """Every method of channel 0 that may have to wait; raises AmqpError, which closes the connection."""
    state = connection.state
    match method:
        case commands.Connection.StartOk() if state == "starting":
            return await start_ok(connection, method)
        case commands.Connection.TuneOk() if state == "tuning":
            tune_ok(connection, method)
            return None
        case commands.Connection.Open() if state == "opening":
            return open_(connection, method)
        case commands.Connection.Close():
            await connection.leave()
            return commands.Connection.CloseOk()
        case commands.Connection.UpdateSecret() if state == "running":
            return commands.Connection.UpdateSecretOk()
    raise AmqpError(CHANNEL_ERROR, f"unexpected method in connection state {state}")
