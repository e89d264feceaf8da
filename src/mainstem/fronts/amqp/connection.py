"""One client's connection: what it sends is scanned a read at a time, and handled in order.

While a method waits for the disk, whatever the client sent after it waits too. What is for the client goes
into one buffer and is written once a turn: answers, deliveries of all its consumers, confirms.

Backpressure: a client that does not read gets no more deliveries, its confirms are merged, and its methods
wait; it may still publish and acknowledge, because it may be doing just that while it is too busy to read. A
client that publishes while the broker is short of disk or memory is not read from until that is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from pamqp import base, commands

from mainstem.fronts.amqp import negotiation
from mainstem.fronts.amqp.channel import Channel
from mainstem.fronts.amqp.codes import CHANNEL_ERROR, COMMAND_INVALID, INTERNAL_ERROR, as_amqp, not_allowed
from mainstem.fronts.amqp.confirms import Confirms
from mainstem.fronts.amqp.handlers import HANDLERS
from mainstem.fronts.amqp.inbox import Inbox
from mainstem.fronts.amqp.outbox import Outbox
from mainstem.fronts.amqp.publishing import publish
from mainstem.fronts.amqp.session import Listener, Session
from mainstem.fronts.amqp.ways import Ways
from mainstem.model.errors import MainstemError
from mainstem.model.logs import get_log
from mainstem.net.pacing import stop_pacing
from mainstem.wire.amqp.errors import AmqpError
from mainstem.wire.amqp.events import Acks, Event, Method, Publishes, Refused
from mainstem.wire.amqp.methods import HEARTBEAT, PROTOCOL_HEADER, append, decode
from mainstem.wire.amqp.scan import Scanner

events = get_log(__name__)

# Bytes that may wait in memory while what came before is not handled.
MAX_WAITING_BYTES = 64 << 10
# Bodies that have not come whole: beyond this a connection asks for room before it receives more.
LARGE_BODY = 1 << 20
_NO_CHANNEL_MAX = 65_535  # numbers are judged when a channel is opened
_ACCESS_REQUEST = b"\0\x1e\0\x0a"  # left over from older versions of the protocol, answered with a ticket
_CLOSE_OK = b"\x01\0\0\0\0\0\x04\0\x0a\0\x33\xce"  # a whole frame
_ACCESS_OK = b"\0\x1e\0\x0b\0\x01"


class Budget(Protocol):
    """Memory for large messages, over all connections: first come, first served."""

    def reserve(self, claimant: Connection, size: int) -> bool:
        """True: receive it. False: `granted` will be called when there is room."""

    def leave(self, claimant: Connection) -> None: ...

    def release(self, size: int) -> None: ...


class Host(Protocol):
    """What a connection needs of the server that accepted it."""

    listener: Listener
    budget: Budget
    max_bytes_before_authentication: int

    def now(self) -> float: ...

    def opened(self, connection: Connection) -> str | None: ...

    def lost(self, connection: Connection) -> None: ...

    def soon(self, call: Callable[[], None]) -> object:
        """Run it after this turn of the loop."""

    def spawn(self, work: Awaitable[None]) -> None: ...


class Connection(asyncio.BufferedProtocol):
    session: Session

    def __init__(self, server: Host) -> None:
        self._server = server
        listener = server.listener
        self._inbox = Inbox()
        self._scanner = Scanner(
            min(server.max_bytes_before_authentication, listener.frame_max),
            _NO_CHANNEL_MAX,
            listener.max_message_bytes,
        )
        self._events: list[Event] = []
        self._at = 0  # the first event that was not handled
        self._waiting = False  # a method waits for its answer
        self._behind = bytearray()  # frames that come behind that answer
        self._alarmed = False  # it wanted to publish while the broker was short of something
        self._told_blocked = False
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # set before anything else
        self._paused_reading = False
        self._reserved = 0
        self._draining = False
        self._is_deaf = False  # it is the end, or where a frame begins cannot be told any more
        self.outbox = Outbox(server, listener.unsent)
        self.queues = listener.broker.queues
        self.ways = Ways(self.queues, listener.access)
        self.confirms = Confirms(self.outbox, self.queues)
        self.outbox.before_flush = self.confirms.tell
        self.outbox.on_room = self._feed_consumers
        self.channels: dict[int, Channel] = {}
        self.state = "header"  # starting, tuning, opening, running, closing
        self.is_closed = False
        self.opened_at = 0.0
        self.last_received = 0.0
        self.peer = "unknown"

    # --- the transport's calls -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peername = transport.get_extra_info("peername") or ("local", 0)
        self.peer = f"{peername[0]}:{peername[1]}"
        if peername[0] == (transport.get_extra_info("sockname") or ("", 0))[0]:
            stop_pacing(transport)
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        self.session = Session(self._server.listener, str(peername[0]), certificate)
        self.outbox.attach(transport)
        refused = self._server.opened(self)
        if refused:
            self.abort(refused)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._server.budget.leave(self)
        self._server.budget.release(self._reserved)
        self._reserved = 0
        self.outbox.close()
        self._events, self._at = [], 0
        self._close_channels()
        self._server.spawn(self.session.topology.owner_gone(self))
        self._server.lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.room(self._at < len(self._events))

    def buffer_updated(self, nbytes: int) -> None:
        self._inbox.received(nbytes)
        self.last_received = self._server.now()
        if self.state == "header" and not self._take_header():
            return
        self._work()

    def pause_writing(self) -> None:
        self.outbox.pause()

    def resume_writing(self) -> None:
        self.outbox.resume()
        self._work()

    # --- what the client sends -------------------------------------------------------------------

    def _take_header(self) -> bool:
        inbox = self._inbox
        if inbox.buffered < len(PROTOCOL_HEADER):
            return False
        first = bytes(inbox.data[inbox.start : inbox.start + len(PROTOCOL_HEADER)])
        if not negotiation.is_header(first):
            self._transport.write(PROTOCOL_HEADER)  # what is spoken here
            self.abort(f"not AMQP 0-9-1: {first!r}")
            return False
        inbox.start += len(PROTOCOL_HEADER)
        self.state = "starting"
        append(self.outbox.out, 0, negotiation.start(self))
        return True

    def _work(self) -> None:
        """Handle what came, as far as it may be handled; then decide whether to go on reading."""
        try:
            while not self.is_closed and self._handle_events():
                inbox = self._inbox
                if self._is_deaf:
                    self._listen_for_goodbye()
                    break
                inbox.start, self._events = self._scanner.scan(inbox.data, inbox.start, inbox.end)
                self._at = 0
                if not self._events:
                    break
        except Exception as error:  # a bug: this connection ends, the broker goes on
            events.error("a connection failed", peer=self.peer, error=error)
            self.close_with(AmqpError(INTERNAL_ERROR, "see the broker's log"))
        self.confirms.end_turn()
        self.outbox.flush_unless_planned()
        self._adjust_reading()

    def _handle_events(self) -> bool:
        """Whether all of them are handled."""
        found = self._events
        while self._at < len(found):
            event = found[self._at]
            if not self._may_handle(event):
                return False
            self._at += 1
            number = event.channel
            try:
                self._handle(event, number)
            except MainstemError as error:
                self._refuse(number, _caused_by(as_amqp(error), event))
        self._events, self._at = [], 0
        return True

    def _may_handle(self, event: Event) -> bool:
        if self._waiting or self._draining:
            return False
        if isinstance(event, Publishes):
            if event.mandatory and self.outbox.is_paused:
                return False  # it may come back
            why = self.queues.blocked
            if why is not None and self.state == "running":
                self._block(why)
                return False
            return True
        return not self.outbox.is_paused or not isinstance(event, Method)

    def _handle(self, event: Event, number: int) -> None:
        if isinstance(event, Publishes):
            channel = self._channel(number)
            if channel is not None:
                publish(channel, event)
        elif isinstance(event, Acks):
            channel = self._channel(number)
            if channel is not None:
                channel.settle(event)
        elif isinstance(event, Method):
            self._handle_method(number, event.payload)
        else:
            self._is_deaf = event.error.closes_connection
            raise event.error

    def _channel(self, number: int) -> Channel | None:
        """None: it is being closed, and what comes for it is ignored."""
        if self.state == "closing":
            return None
        channel = self.channels.get(number)
        if channel is None:
            raise AmqpError(CHANNEL_ERROR, "expected 'channel.open'")
        return None if channel.is_closing else channel

    def _handle_method(self, number: int, payload: bytes) -> None:
        if payload[:4] == _ACCESS_REQUEST and number:
            if self._channel(number) is not None:
                self.outbox.out += b"\x01%b%b%b\xce" % (
                    number.to_bytes(2, "big"),
                    len(_ACCESS_OK).to_bytes(4, "big"),
                    _ACCESS_OK,
                )
            return
        method = decode(payload)
        if number == 0:
            if self.state == "closing":
                self._handle_farewell(method)
            else:
                self._wait_for(negotiation.handle(self, method), method, None)
            return
        if isinstance(method, commands.Channel.Open):
            self._open_channel(number)
            return
        if isinstance(method, commands.Channel.Close | commands.Channel.CloseOk):
            self._close_channel(number, method)
            return
        channel = self._channel(number)
        if channel is None:
            return
        handler = HANDLERS.get(type(method))
        if handler is None:
            raise AmqpError(COMMAND_INVALID, "unimplemented method")
        if channel.is_ahead and method.synchronous:
            self._wait_for(self._after_disk(channel, method), method, channel)
            return
        answer = handler(channel, method)
        if isinstance(answer, Awaitable):
            self._wait_for(answer, method, channel)
        elif answer is not None:
            append(self.outbox.out, number, answer)

    async def _after_disk(self, channel: Channel, method: base.Frame) -> base.Frame | None:
        """What a channel published and acknowledged is on disk, and seen, before its next answer."""
        await self._disk(channel)
        if not self.has_open(channel):
            return None
        answer = HANDLERS[type(method)](channel, method)
        return await answer if isinstance(answer, Awaitable) else answer

    def has_open(self, channel: Channel) -> bool:
        """For who has waited: what is begun on a channel that was closed meanwhile would never be ended."""
        is_open = not self.is_closed and self.state != "closing"
        return is_open and self.channels.get(channel.number) is channel

    async def _disk(self, channel: Channel) -> None:
        channel.is_ahead = False
        there: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.session.queues.after_disk(lambda: None if there.done() else there.set_result(None))
        await there

    # --- methods that wait -----------------------------------------------------------------------

    def _wait_for(
        self, work: Awaitable[base.Frame | None], method: base.Frame, channel: Channel | None
    ) -> None:
        self._waiting = True
        self._server.spawn(self._answer(work, method, channel))

    async def _answer(
        self, work: Awaitable[base.Frame | None], method: base.Frame, channel: Channel | None
    ) -> None:
        number = channel.number if channel is not None else 0
        try:
            answer = await work
            if answer is not None and not self.is_closed and self.state != "closing":
                append(self.outbox.out, number, answer)
        except MainstemError as error:
            self._refuse(number, _of_method(as_amqp(error), method))
        except Exception as error:  # a bug: this connection ends, the broker goes on
            events.error("a method failed", peer=self.peer, method=method.name, error=error)
            self._refuse(number, _of_method(AmqpError(INTERNAL_ERROR, "see the broker's log"), method))
        self._waiting = False
        if self._behind and self.state != "closing":
            self.outbox.out += self._behind
            self._behind.clear()
        if self.is_closed:
            # What it made after the connection was lost goes, too.
            await self.session.topology.owner_gone(self)
            return
        if isinstance(method, commands.Connection.Close):
            self._part()
        self._work()

    # --- channels --------------------------------------------------------------------------------

    def _open_channel(self, number: int) -> None:
        session = self.session
        if self.state == "closing":
            return
        if self.state != "running":
            raise AmqpError(CHANNEL_ERROR, f"unexpected method in connection state {self.state}")
        if number in self.channels:
            raise AmqpError(CHANNEL_ERROR, "second 'channel.open' seen")
        if len(self.channels) >= session.channel_max or number > session.channel_max:
            raise not_allowed(
                f"number of channels opened ({len(self.channels)}) has reached the"
                f" negotiated channel_max ({session.channel_max})"
            )
        self.channels[number] = Channel(self, number)
        append(self.outbox.out, number, commands.Channel.OpenOk())

    def _close_channel(self, number: int, method: base.Frame) -> None:
        if self.state == "closing":
            return
        channel = self.channels.get(number)
        if channel is None:
            raise AmqpError(CHANNEL_ERROR, "expected 'channel.open'")
        if isinstance(method, commands.Channel.CloseOk):
            if channel.is_closing:
                del self.channels[number]
        elif channel.is_closing:
            append(self.outbox.out, number, commands.Channel.CloseOk())
        else:
            self._wait_for(self._leave_channel(channel), method, channel)

    async def _leave_channel(self, channel: Channel) -> base.Frame:
        channel.close()
        if channel.is_ahead:
            await self._disk(channel)
        self.confirms.tell_of(channel)
        self.channels.pop(channel.number, None)
        return commands.Channel.CloseOk()

    def _close_channels(self) -> None:
        channels, self.channels = list(self.channels.values()), {}
        for channel in channels:
            channel.close()

    # --- errors and ends -------------------------------------------------------------------------

    def _refuse(self, number: int, error: AmqpError) -> None:
        """Close the channel or the connection, as the error asks for."""
        channel = self.channels.get(number)
        if error.closes_connection or channel is None:
            self.close_with(error)
            return
        if channel.is_closing or self.is_closed:
            return
        events.event("channel closed", peer=self.peer, channel=number, why=str(error))
        self.confirms.tell_of(channel)
        channel.close()
        channel.is_closing = True
        self.send(
            number, commands.Channel.Close(error.code, error.reply_text, error.class_id, error.method_id)
        )

    def close_with(self, error: AmqpError) -> None:
        """Tell the client why, and wait for it to say goodbye; the server's watch does not wait for long."""
        if self.is_closed or self.state == "closing":
            return
        if self.state == "header":
            self.abort(str(error))
            return
        events.warning("connection closed", peer=self.peer, principal=self.session.principal, why=str(error))
        self.state = "closing"
        self.opened_at = self._server.now()  # of its end
        self._draining = self._alarmed = False
        self._close_channels()
        self.send(0, commands.Connection.Close(error.code, error.reply_text, error.class_id, error.method_id))
        self.outbox.flush()
        self._server.spawn(self.session.topology.owner_gone(self))

    def _handle_farewell(self, method: base.Frame) -> None:
        if isinstance(method, commands.Connection.CloseOk):
            self.close()
        elif isinstance(method, commands.Connection.Close):
            append(self.outbox.out, 0, commands.Connection.CloseOk())

    def _listen_for_goodbye(self) -> None:
        inbox = self._inbox
        if inbox.data.endswith(_CLOSE_OK, inbox.start, inbox.end):
            self.close()
        inbox.start = inbox.end

    async def leave(self) -> None:
        """The client says goodbye: when it is answered, nothing of it is left."""
        self._close_channels()
        await self.session.topology.owner_gone(self)
        await self.session.queues.acks.on_disk()

    def _part(self) -> None:
        """The goodbye is answered, and nothing else follows: the client hangs up, or the server's watch does.

        Whatever the client has sent after its goodbye is read all the same: to close a socket before would
        break off the connection, and the answer might never arrive.
        """
        self.outbox.flush()
        self.state, self._is_deaf = "closing", True
        self.opened_at = self._server.now()  # of its end
        self._events, self._at = [], 0
        self.outbox.close()
        if self._transport.can_write_eof():  # not through TLS
            self._transport.write_eof()

    def abort(self, why: str) -> None:
        """Without a word to the client."""
        if not self.is_closed:
            events.warning("connection closed", peer=self.peer, principal=self.session.principal, why=why)
            self.close()

    def close(self) -> None:
        """Once the peer has taken what is for it; the server's watch cuts off one that takes nothing."""
        if not self.is_closed:
            self.is_closed = True
            self.opened_at = self._server.now()  # of its end
            self._transport.close()

    def cut_off(self) -> None:
        self.is_closed = True
        self._transport.abort()

    # --- writing ---------------------------------------------------------------------------------

    def _feed_consumers(self) -> None:
        """The client takes again what is made for it."""
        for channel in self.channels.values():
            channel.wake()

    def send(self, number: int, frame: base.Frame) -> None:
        append(self.outbox.out, number, frame)
        self.outbox.flush_soon()

    def send_behind(self, number: int, frame: base.Frame) -> None:
        """Not before the answer that is waited for: this may be a consequence of what was asked."""
        if self._waiting and self.state != "closing":
            append(self._behind, number, frame)
        else:
            self.send(number, frame)

    def spawn(self, work: Awaitable[None]) -> None:
        self._server.spawn(work)

    def beat(self) -> None:
        """A sign of life, when there was nothing else to send."""
        self.outbox.out += HEARTBEAT
        self.outbox.flush()

    # --- reading ---------------------------------------------------------------------------------

    def agreed(self) -> None:
        """Limits are as negotiated from now on."""
        self._scanner.frame_max = self.session.frame_max

    def _adjust_reading(self) -> None:
        if self.is_closed:
            return
        blocked = self._at < len(self._events) and self._inbox.buffered >= MAX_WAITING_BYTES
        blocked = blocked or self._alarmed or not self._has_room()
        if blocked != self._paused_reading:
            self._paused_reading = blocked
            if blocked:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _has_room(self) -> bool:
        """For messages that come in many frames."""
        held = self._scanner.held_bytes
        budget = self._server.budget
        if held <= LARGE_BODY:
            if self._reserved:
                reserved, self._reserved = self._reserved, 0
                budget.release(reserved)
            return True
        if held <= self._reserved:
            return True
        size = self.session.listener.max_message_bytes
        if not budget.reserve(self, size):
            return False
        self._reserved += size
        return True

    def granted(self, size: int) -> None:
        """The budget has room for the large message that this connection waits to receive."""
        self._reserved += size
        self._adjust_reading()

    # --- alarms ----------------------------------------------------------------------------------

    def _block(self, why: str) -> None:
        """Publishers wait until there is room again."""
        self._alarmed = True
        if not self._told_blocked and self.session.can("connection.blocked"):
            self._told_blocked = True
            self.send(0, commands.Connection.Blocked(why[:200]))

    def alarm_over(self) -> None:
        if self._told_blocked:
            self._told_blocked = False
            self.send(0, commands.Connection.Unblocked())
        if self._alarmed:
            self._alarmed = False
            self._work()

    # --- what the server looks at ----------------------------------------------------------------

    @property
    def holds_memory(self) -> bool:
        """In the middle of a large message, whose bytes may have stopped coming."""
        return self._reserved > 0

    @property
    def is_answering(self) -> bool:
        return not self.is_closed and (self._waiting or self.confirms.are_pending)

    @property
    def is_read_from(self) -> bool:
        return not self._paused_reading

    @property
    def is_idle(self) -> bool:
        return not self._inbox.buffered and self._at == len(self._events)

    def drain(self) -> None:
        """Take nothing more: what is under way is answered, then the connection is closed."""
        self._draining = True

    def rest(self) -> None:
        self._inbox.rest()


def _caused_by(error: AmqpError, event: Event) -> AmqpError:
    """With the class and method that the client is told it comes from."""
    if error.class_id or isinstance(event, Refused):
        return error
    if isinstance(event, Method):
        payload = event.payload
        class_id, method_id = int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big")
    else:
        class_id, method_id = 60, 40 if isinstance(event, Publishes) else 80
    return _at(error, class_id, method_id)


def _of_method(error: AmqpError, method: base.Frame) -> AmqpError:
    return error if error.class_id else _at(error, method.index >> 16, method.index & 0xFFFF)


def _at(error: AmqpError, class_id: int, method_id: int) -> AmqpError:
    return AmqpError(error.code, error.text, class_id, method_id, error.closes_connection)
