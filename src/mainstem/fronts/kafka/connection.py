"""One client's connection: frames in, answers out, in order.

Kafka answers the requests of a connection in the order they came. Produce requests may be under way
together (their bytes share a round); any other request waits until those before it are answered, and later
ones wait for it, so a handler never sees a connection's requests overtake each other.

Backpressure: at most MAX_IN_FLIGHT requests, or MAX_IN_FLIGHT_BYTES, are under way; a client that does not
read its answers, or that sends while it must wait, is not read from.

Memory: a frame beyond COUNTED_FRAME that does not come whole in one read is received only while the server's
budget has room for it, and keeps that room until it is answered, wherever its bytes are by then. One that
does come whole costs no more than the read, unless it may be parked: any but Produce counts in any case.
While others wait for room, one that is parked for long is answered early, or given up.

A client that has left gets no answers. What it sent before, wanting none (acks=0), is taken all the same.

Types for the compiler are in connection.pxd.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from mainstem.fronts.kafka.answer import Answer
from mainstem.fronts.kafka.budget import Budget
from mainstem.fronts.kafka.dispatch import Dispatcher
from mainstem.fronts.kafka.inbox import Inbox, Slab
from mainstem.fronts.kafka.sending import plain_socket, send
from mainstem.fronts.kafka.session import Session
from mainstem.model.big_endian import int16_at
from mainstem.model.errors import MainstemError
from mainstem.model.logs import get_log
from mainstem.model.slices import Chunk
from mainstem.net.pacing import stop_pacing
from mainstem.wire.kafka.apis import ApiKey

events = get_log(__name__)

PRODUCE, FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)
MAX_IN_FLIGHT = 128
MAX_IN_FLIGHT_BYTES = 16 << 20
# Smaller ones are what every connection has memory for. As much as a stranger may send: who has not logged in
# takes nothing from the budget.
COUNTED_FRAME = 64 << 10
# Who sends less in a second needs no large buffer, and does not keep others waiting for the budget.
LIVELY_BYTES = 16 << 10
# One connection's requests are taken for so long, then it is the others' turn.
TURN_S = 0.005
# Of peers that are gone: so many may still have a batch that has to be looked into.
MAX_LEAVING = 32
# Bytes of later requests that may wait in memory while an earlier one is being answered.
MAX_WAITING_BYTES = 64 << 10


class Host(Protocol):
    """What a connection needs of the server that accepted it."""

    budget: Budget
    leaving: set[Connection]  # whose peers are gone, while there is something left to do

    def now(self) -> float: ...

    def opened(self, connection: Connection) -> str | None: ...

    def lost(self, connection: Connection) -> None: ...

    def soon(self, call: Callable[[], None]) -> None:
        """Run it after this turn of the loop."""


class Connection:
    """One per client; asyncio gets a `ConnectionProtocol`."""

    def __init__(self, server: Host, dispatcher: Dispatcher) -> None:
        self._server = server
        self._dispatcher = dispatcher
        self.session: Session = None  # type: ignore[assignment]  # set before anything else
        self._inbox = Inbox(dispatcher.max_bytes_before_authentication)
        self._answers: deque[Answer] = deque()
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # set before anything else
        self._plain_socket = -1
        self._paused_reading = False
        self._paused_writing = False
        self._reserved = 0
        self._reserved_rest = 0  # for requests of a peer that has left
        self._closed = False
        self._draining = False
        self._left = False  # the peer is gone, and not all that it sent has been looked at
        self._send_planned = False
        self._work_planned = False
        self._taking = False  # requests; what becomes ready meanwhile is sent after it
        self._in_flight_bytes = 0  # of the requests that the answers in line belong to
        self._repeated = 0  # requests that were taken as such and are not counted yet
        self._when_ready = self._on_ready  # made once: every answer has it
        self._answered = 0  # requests
        self._front = -1  # the number of the request that was waited for at the last look
        self._front_since = 0.0
        self._unsent = 0  # of answers handed to the transport, as far as it was counted
        self._sending_since = 0.0  # the peer took something at that time or had nothing to take
        self.opened_at = 0.0
        self.last_active = 0.0
        self.lively_at = 0.0  # LIVELY_BYTES came in the second before
        self._received = 0  # bytes since then
        self.peer = "unknown"

    # --- the transport's calls -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._plain_socket = plain_socket(transport)
        peername = transport.get_extra_info("peername") or ("local", 0)
        sockname = transport.get_extra_info("sockname") or ("127.0.0.1", 0)
        self.peer = f"{peername[0]}:{peername[1]}"
        dialled = (str(sockname[0]), int(sockname[1]))
        if peername[0] == sockname[0]:
            stop_pacing(transport)
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        self.session = self._dispatcher.new_session(str(peername[0]), dialled, certificate)
        self.session.peer = self.peer
        self._inbox.max_bytes = self._dispatcher.max_bytes(self.session)
        refused = self._server.opened(self)
        if refused:
            self.fail(refused)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.budget.leave(self)
        self.session.listener.answers.held -= self._unsent
        self._unsent = 0
        self._server.lost(self)
        self.session.has_left = True
        self._left = not self._closed
        self._drop_answers(silent_too=self._closed)
        self._paused_writing = False
        buffered = self._inbox.buffered
        if buffered and not self._reserved and self._left:
            if self._server.budget.take_if_free(buffered):
                self._reserved_rest = buffered
            elif self._inbox.wanted <= buffered:
                self.session.listener.complaints.tell(
                    self.session, "requests of a client that has left are dropped", received_bytes=buffered
                )
                self._end()
                return
        if self._left:
            self._server.leaving.add(self)
        self._work_off()

    def _drop_answers(self, silent_too: bool) -> None:
        """Nobody waits for them, though what wants none is still taken."""
        kept = deque[Answer]()
        for answer in self._answers:
            if answer.silent and not silent_too and self._may_linger(answer):
                kept.append(answer)
                continue
            self._in_flight_bytes -= answer.request_bytes
            answer.cancel()
            self._settle(answer)
        self._answers = kept

    def _may_linger(self, answer: Answer) -> bool:
        """Counted, like all that has to wait, and not many of those that are still to be looked into."""
        waits_for_a_look = answer.on_cancel is not None
        if waits_for_a_look and len(self._server.leaving) >= MAX_LEAVING:
            return False
        if not answer.reserved and self._server.budget.take_if_free(answer.request_bytes):
            answer.reserved = answer.request_bytes
        return bool(answer.reserved)

    def _work_off(self) -> None:
        """Of a peer that is gone: take what came whole, in turns like anybody's."""
        until = self._server.now() + TURN_S
        try:
            while True:
                if self._send_planned:
                    self._send()
                taken = self._take_rest(until)
                if self._server.now() >= until and taken:
                    self._work_later()
                    return
                if not taken:
                    break
        except MainstemError as error:
            self.fail(str(error))
        except Exception as error:  # a bug, see `_work`
            events.error("a request failed", peer=self.peer, error=error)
            self.fail("internal error")
        if self._closed or not self._answers:
            self._end()

    def _take_rest(self, until: float) -> int:
        """How many requests."""
        inbox = self._inbox
        taken = 0
        self._taking = True
        try:
            while self._left and not self._closed and self._may_take() and inbox.take_frame():
                taken += 1
                if int16_at(inbox.slab.data, inbox.frame_start) == PRODUCE:
                    self._take(inbox.slab, inbox.frame_start, inbox.frame_end)
                if self._server.now() >= until:
                    break
        finally:
            self._taking = False
        return taken

    def _end(self) -> None:
        """Nothing is left to do for it."""
        if self._left and not self._closed and self._inbox.buffered:
            self.session.listener.complaints.tell(
                self.session, "connection ended within a request", received_bytes=self._inbox.buffered
            )
        self._left, self._closed = False, True
        self._server.leaving.discard(self)
        self._server.budget.release(self._reserved + self._reserved_rest)
        self._reserved = self._reserved_rest = 0
        self._drop_answers(silent_too=True)
        self.session.repeats = None  # they know each other
        self._when_ready = _nothing

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.room()

    def buffer_updated(self, nbytes: int) -> None:
        self._inbox.received(nbytes)
        self._received += nbytes
        self.last_active = self._server.now()
        self._work()

    def pause_writing(self) -> None:
        self._paused_writing = True

    def resume_writing(self) -> None:
        self._paused_writing = False
        self._count_unsent()
        # Not within the transport's own writing: if what is written here fails, it would close twice.
        self._server.soon(self._work)

    # --- requests --------------------------------------------------------------------------------

    def _work(self) -> None:
        """Take as many requests as may be under way; then decide whether to go on reading."""
        if self._left:
            self._work_off()
            return
        inbox = self._inbox
        planned_before = self._send_planned
        until = self._server.now() + TURN_S
        repeats = self.session.repeats
        if repeats is not None:
            repeats.refresh()
        self._taking = True
        try:
            while not self._closed and self._may_take() and inbox.take_frame():
                self._take(inbox.slab, inbox.frame_start, inbox.frame_end)
                if self._server.now() >= until:
                    self._work_later()
                    break
        except MainstemError as error:
            self.fail(str(error))
            return
        except Exception as error:  # a bug: this connection ends, the broker goes on
            events.error("a request failed", peer=self.peer, error=error)
            self.fail("internal error")
            return
        finally:
            self._taking = False
            if self._repeated:
                self._dispatcher.count_repeated(self._repeated)
                self._repeated = 0
        if self._send_planned and not planned_before and self._send() and self._inbox.buffered:
            # One answer that was ready at once is sent at once. Then it is the others' turn.
            self._work_later()
        self._adjust_reading()

    def _work_later(self) -> None:
        if not self._work_planned:
            self._work_planned = True
            self._server.soon(self._work_again)

    def _work_again(self) -> None:
        self._work_planned = False
        self._work()

    def _may_take(self) -> bool:
        answers = self._answers
        if self._draining:
            return False
        if not answers:
            return not self._paused_writing
        last = answers[-1]
        if self._paused_writing or not last.may_be_followed:
            return False
        if len(answers) >= MAX_IN_FLIGHT or self._in_flight_bytes >= MAX_IN_FLIGHT_BYTES:
            return False
        return self._inbox.peek_int16() == PRODUCE

    def _take(self, slab: Slab, start: int, end: int) -> None:
        reserved = self._reserved
        if reserved:
            self._reserved = 0
        try:
            answer = self._start(slab, start, end)
        except BaseException:
            self._server.budget.release(reserved)
            raise
        if answer is None:
            self._server.budget.release(reserved)
            return
        if not answer.may_be_followed and not reserved and end - start > COUNTED_FRAME:
            reserved = end - start
            self._server.budget.take(reserved)
        answer.request_bytes = end - start
        answer.reserved = reserved
        if answer.copied:
            self._inbox.give_back(slab)
        else:
            answer.slab = slab
        self._in_flight_bytes += end - start
        self._answers.append(answer)
        if answer.chunks is not None:
            self._on_ready()

    def _start(self, slab: Slab, start: int, end: int) -> Answer | None:
        session = self.session
        repeats = session.repeats
        if repeats is not None and not session.takes_raw_tokens and not self._left:
            if end - start >= 2 and int16_at(slab.data, start) == FETCH:
                answer = repeats.start_fetch(slab, start, end, self._when_ready)
                if answer is not None:
                    self._dispatcher.count_fetch()
                    return answer
            else:
                answer = repeats.start(slab, start, end, self._when_ready)
                if answer is not None:
                    self._repeated += 1
                    return answer
        return self._dispatcher.start(session, slab.view[start:end], self._when_ready)

    def _on_ready(self) -> None:
        """An answer is there. Several become ready in one turn: they are sent together after it."""
        if not self._send_planned:
            self._send_planned = True
            if not self._taking:
                self._server.soon(self._send_ready)

    def _send_ready(self) -> None:
        if self._left:
            self._send()
            self._work_off()
        elif self._send() and (self._inbox.buffered or self._paused_reading):
            self._work()

    def _send(self) -> bool:
        """Send from the front of the line what can be sent, in one write if it is small; whether it was."""
        self._send_planned = False
        answers = self._answers
        chunks: list[Chunk] = []
        before = len(answers)
        inbox = self._inbox
        while answers:
            answer = answers[0]
            ready = answer.chunks
            if ready is None:
                break
            answers.popleft()
            self._answered += 1
            self._in_flight_bytes -= answer.request_bytes
            if answer.reserved or answer.held:
                self._settle(answer)
            if answer.may_be_followed and answer.slab is not None:
                # Only Produce is known to keep no view of its request once it is answered.
                inbox.give_back(answer.slab)
            if answer.failure is not None:
                self._write(chunks)
                self.fail(answer.failure)
                return False
            chunks += ready
        # An answer may be silent: it only held its place in line.
        if len(answers) == before or self._closed:
            return False
        self._write(chunks)
        if self.session.ending:
            self.fail(self.session.ending)
            return False
        inbox.max_bytes = self._dispatcher.max_bytes(self.session)
        return True

    def _settle(self, answer: Answer) -> None:
        """It is about to be sent, or never will be: give back what was held for it."""
        if answer.reserved:
            self._server.budget.release(answer.reserved)
        if answer.held:
            self.session.listener.answers.held -= answer.held

    def _write(self, chunks: list[Chunk]) -> None:
        if self._closed or self._left:
            return
        try:
            send(self._transport, self._plain_socket, chunks)
        except (MainstemError, OSError) as error:
            # Of a file. Its head is on the way already: all that is left is not to send wrong bytes after it.
            events.error("an answer could not be sent whole", peer=self.peer, error=error)
            self.fail("internal error")
            return
        if self._paused_writing:
            self._count_unsent()

    def _count_unsent(self) -> None:
        """What the transport still holds counts for the listener's room, until the peer takes it."""
        unsent = self._transport.get_write_buffer_size()
        if unsent < self._unsent or not self._unsent:
            self._sending_since = self._server.now()
        self.session.listener.answers.held += unsent - self._unsent
        self._unsent = unsent

    def stalled_s(self) -> float:
        """How long the peer has not taken what it asked for; 0 if there is nothing to take."""
        if not self._unsent:
            return 0.0
        self._count_unsent()
        return self._server.now() - self._sending_since

    # --- reading ---------------------------------------------------------------------------------

    def _adjust_reading(self) -> None:
        if self._closed:
            return
        blocked = not self._may_take() and self._inbox.buffered >= MAX_WAITING_BYTES
        wanted = self._inbox.wanted
        if not blocked and wanted > COUNTED_FRAME and not self._reserved:
            if self._server.budget.reserve(self, wanted):
                self._reserved = wanted
                self.lively_at = self.last_active
            else:
                blocked = True
        if blocked != self._paused_reading:
            self._paused_reading = blocked
            if blocked:
                self._transport.pause_reading()
            else:
                self.last_active = self.lively_at = self._server.now()  # it was not its fault
                self._transport.resume_reading()

    def granted(self, size: int) -> None:
        """The budget has room for the frame that this connection waits to receive."""
        self._reserved = size
        self._adjust_reading()

    # --- ends ------------------------------------------------------------------------------------

    @property
    def holds_memory(self) -> bool:
        """In the middle of a counted request, whose bytes may have stopped coming: not because they are not
        read while earlier ones are on their way to the disk."""
        return self._reserved > 0 and (self._paused_writing or not self._paused_reading)

    @property
    def is_answering(self) -> bool:
        return bool(self._answers)

    def fail(self, why: str) -> None:
        """Close because of something the peer did; the log says who and what."""
        if not self._closed:
            self.session.listener.complaints.closed(self.session, why)
            self.close()

    def end_idle(self) -> None:
        """Close what has been silent for too long. The peer did nothing wrong: nobody need look at it."""
        if not self._closed:
            events.event(
                "connection closed", peer=self.peer, principal=self.session.principal, why="idle for too long"
            )
            self.close()

    def drain(self) -> None:
        """Take no more requests: those under way are answered, then the connection is closed."""
        self._draining = True

    def close(self) -> None:
        """Once the peer has taken its answers; a peer that takes none is cut off."""
        self._closed = True
        if self._unsent:
            self._transport.abort()
        else:
            self._transport.close()

    def look(self, now: float) -> None:
        """Once a second: whether much comes. Who is slow gets by with the memory of a new connection."""
        if self._received >= LIVELY_BYTES:
            self.lively_at = now
        elif now - self.lively_at > 1:
            self._inbox.rest()
        self._received = 0
        if self._front != self._answered or not self._answers:
            self._front, self._front_since = self._answered, now

    def parked(self) -> tuple[bool, float, int] | None:
        """Of the request in front, if it can be ended early: whether that closes the connection, since when
        it is in front, and the memory that it holds."""
        front = self._answers[0] if self._answers else None
        if front is None or not front.reserved or front.hurry is None:
            return None
        return front.hurry_closes, self._front_since, front.reserved

    def hurry(self) -> None:
        """End the wait of the request in front."""
        if self._answers and self._answers[0].hurry is not None:
            self._answers[0].hurry()


class ConnectionProtocol(Connection, asyncio.BufferedProtocol):
    """Apart, because a class that is compiled cannot have asyncio's for a base."""

    __slots__ = ()


def _nothing() -> None:
    """For answers to who is gone."""
