"""The book of pipelines: how each of them is and what happened, kept by the broker in two ordinary topics.

A run's driver writes it (`claim`, `say`, `log`, `progressed`) and looks for requests (`stop_asked`); commands
on any machine read it and ask. See book_records.py for what the topics hold. Only the first `say` may fail: a
broker that goes away later must not end a pipeline, whose queries wait for it by themselves.

May be used by many threads: Spark's listeners have their own.
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType

import msgspec

from mainstem.client import admin, codes
from mainstem.client.client import LATEST, Client
from mainstem.client.cluster import TopicPartition
from mainstem.client.settings import ClientSettings
from mainstem.model.errors import BrokerRefused, InvalidRequest, MainstemError, ResourceNotFound, UnknownTopic
from mainstem.model.logs import get_log
from mainstem.model.records import Record, encode_batch
from mainstem.pipeline import book_records as records
from mainstem.pipeline.book_outbox import Load, Outbox
from mainstem.pipeline.book_reading import Table, between, follow, last_of
from mainstem.pipeline.book_records import LOG_TOPIC, STATUS_TOPIC, Event, Level, StopRequest
from mainstem.pipeline.progress import QueryProgress, RunStatus

_events = get_log(__name__)
_STATUS, _LOG = TopicPartition(STATUS_TOPIC, 0), TopicPartition(LOG_TOPIC, 0)
_TOPICS = {STATUS_TOPIC: records.STATUS_CONFIGS, LOG_TOPIC: records.LOG_CONFIGS}
# A running pipeline must not stand still for its book.
HASTY_CONNECT_S, HASTY_REQUEST_S = 2.0, 5.0
PAUSE_MS = 1_000  # after a failure, before the next attempt
GATHER_MS = 200  # lines of a log are sent together


@dataclass(frozen=True, slots=True)
class Wish:
    """Which events: `last` so many, or those since a time, or all; `follow` goes on with new ones."""

    last: int | None = None
    since_ms: int | None = None
    run: str = ""
    kinds: Collection[str] = ("state", "log", "progress")
    follow: bool = False


class Book:
    def __init__(self, settings: ClientSettings, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._patient = Client(settings)  # for people, and for the first word of a run
        self._hasty = Client(
            replace(
                settings,
                attempts=1,
                connect_timeout_s=min(settings.connect_timeout_s, HASTY_CONNECT_S),
                request_timeout_s=min(settings.request_timeout_s, HASTY_REQUEST_S),
            )
        )
        self._table = Table(STATUS_TOPIC)
        self._outbox = Outbox()
        self._said: RunStatus | None = None
        self._tried_ms: int | None = None  # last sent, or tried to
        self._failed = False  # the last attempt did

    def __enter__(self) -> Book:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Send what is still here, if the broker takes it."""
        with self._lock:
            if self._said is not None:
                self._try_to_send()
            self._patient.close()
            self._hasty.close()

    # --- a run writes ------------------------------------------------------------------------------

    def claim(self, status: RunStatus, silent: str = "") -> RunStatus | None:
        """The first word of a run. If another run of that pipeline is alive, that one: then end at once.

        Of two that begin at the same time the one whose status came first in the log has it. `silent` is a
        run that was listened to in vain.
        """
        rival = self.live_run(status.pipeline, self._now_ms())
        if rival is not None and rival.run != silent:
            return rival
        with self._lock:
            self._make_topics(self._patient)
            seen, key = self._table.next_offset, records.status_key(status.pipeline)
            own = self._write(self._patient, Load({key: msgspec.json.encode(status)}, ()))
            rival = self._came_first(status.pipeline, seen, own)
            if rival is not None:
                newest = records.read_status(self._table_now().get(key))
                if newest is not None and newest.run == status.run:  # ours must not hide the one that goes on
                    self._write(self._patient, Load({key: msgspec.json.encode(rival)}, ()))
                return rival
        self.say(status)
        return None

    def say(self, status: RunStatus) -> None:
        """How the run is; a change of its state also goes to the log. Raises only until it worked once.

        A state that is behind what was said is passed over: a heartbeat may come late from its thread.
        """
        status = msgspec.structs.replace(status, error=records.shortened(status.error))
        with self._lock:
            if self._said is not None and records.is_behind(status, self._said):
                return
            first = self._said is None
            if first:
                self._make_topics(self._patient)
            key = records.status_key(status.pipeline)
            self._outbox.put_status(key, msgspec.json.encode(status))
            if self._said is None or (self._said.run, self._said.state) != (status.run, status.state):
                self._put_event(records.state_event(status))
            if first:
                self._send(self._patient)
            elif not self._is_pausing():
                self._try_to_send()
            self._said = status

    def log(self, pipeline: str, run: str, level: Level, text: str, at_ms: int) -> None:
        """A line; never fails. It may wait for the next few, or for `say`."""
        text = records.shortened(text)
        self._note(Event(pipeline=pipeline, run=run, at_ms=at_ms, kind="log", level=level, text=text))

    def progressed(self, pipeline: str, run: str, progress: QueryProgress) -> None:
        """A batch; never fails."""
        at_ms = progress.at_ms
        self._note(Event(pipeline=pipeline, run=run, at_ms=at_ms, kind="progress", progress=progress))

    def stop_asked(self, run: RunStatus, since_ms: int = 0) -> bool:
        """Whether somebody wants this run to end: one small request. No while the broker is away."""
        request = records.read_stop(self._look().get(records.stop_key(run.pipeline)))
        return request is not None and request.run == run.run and request.at_ms >= since_ms

    def taken_over(self, run: RunStatus) -> RunStatus | None:
        """A later run of the same pipeline, which began while this one could not be heard."""
        newest = records.read_status(self._look().get(records.status_key(run.pipeline)))
        is_other = newest is not None and newest.run != run.run
        return newest if is_other and newest is not None and newest.started_ms > run.started_ms else None

    def _look(self) -> dict[bytes, bytes]:
        """What the table holds now, in a hurry; nothing while the broker is away."""
        with self._lock:
            if self._is_pausing():
                return {}
            try:
                return self._table.look(self._hasty)
            except MainstemError as error:
                self._failed, self._tried_ms = True, self._now_ms()
                _events.debug("the book of pipelines cannot be read", why=str(error))
                return {}

    # --- anybody reads -----------------------------------------------------------------------------

    def statuses(self) -> dict[str, RunStatus]:
        """The newest of every pipeline, by name."""
        with self._lock:
            values = dict(self._table_now())
        found = {}
        for key, value in sorted(values.items()):
            if b"/" not in key and (status := records.read_status(value)) is not None:
                found[status.pipeline] = status
        return found

    def status(self, name: str) -> RunStatus:
        known = self.statuses()
        if name in known:
            return known[name]
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise ResourceNotFound(f"no pipeline {name!r} has run with this broker.{hint}")

    def live_run(self, name: str, now_ms: int) -> RunStatus | None:
        """The run of that pipeline that goes on now, if any."""
        status = self.statuses().get(name)
        return status if status is not None and records.is_alive(status, now_ms) else None

    def events(self, name: str, wish: Wish | None = None) -> Iterator[Event]:
        """What happened, oldest first. With `follow` it never ends by itself."""
        wish = wish or Wish()
        with Client(self._settings) as client:
            try:
                end = client.offsets({_LOG: LATEST})[_LOG].offset
            except UnknownTopic:
                return
            matches = partial(_matches, name, wish)
            if wish.last is not None:
                some = iter(last_of(client, _LOG, lambda one: matches(one) is not None, wish.last, end))
            else:
                some = between(client, _LOG, _since(client, wish, end), end)
            for record in some:
                if (event := matches(record)) is not None:
                    yield event
            for record in follow(client, _LOG, end) if wish.follow else ():
                if (event := matches(record)) is not None:
                    yield event

    # --- anybody asks ------------------------------------------------------------------------------

    def ask_to_stop(self, name: str) -> RunStatus:
        """The run that is asked; InvalidRequest where there is nobody to ask."""
        status, now_ms = self.status(name), self._now_ms()
        if records.is_over(status):
            raise InvalidRequest(f"pipeline {name!r} does not run: it is {status.state}")
        if records.is_lost(status, now_ms):
            raise InvalidRequest(
                f"pipeline {name!r} is lost: process {status.pid} on {status.host} said nothing for "
                f"{(now_ms - status.at_ms) / 1000:.0f} s, so nobody would stop. If that process still runs, "
                "end it there"
            )
        request = StopRequest(run=status.run, at_ms=now_ms)
        with self._lock:
            self._write(self._patient, Load({records.stop_key(name): msgspec.json.encode(request)}, ()))
        return status

    # --- helpers, with the lock held ---------------------------------------------------------------

    def _table_now(self) -> dict[bytes, bytes]:
        return self._table.look(self._patient)

    def _came_first(self, name: str, seen: int, own: int) -> RunStatus | None:
        """Another run that said so between our look and our own word."""
        keyed = (one for one in between(self._patient, _STATUS, seen, own) if one.key == name.encode())
        others: dict[str, RunStatus] = {}
        for record in keyed:
            if (status := records.read_status(record.value)) is not None:
                others[status.run] = status  # keeps the order of their first words
        now_ms = self._now_ms()
        return next((status for status in others.values() if records.is_alive(status, now_ms)), None)

    def _note(self, event: Event) -> None:
        with self._lock:
            self._put_event(event)
            if self._said is None or self._is_pausing():
                return
            if self._tried_ms is None or not 0 <= self._now_ms() - self._tried_ms < GATHER_MS:
                self._try_to_send()

    def _put_event(self, event: Event) -> None:
        self._outbox.put_event(records.status_key(event.pipeline), msgspec.json.encode(event))

    def _is_pausing(self) -> bool:
        if not self._failed or self._tried_ms is None:
            return False
        return 0 <= self._now_ms() - self._tried_ms < PAUSE_MS

    def _try_to_send(self) -> None:
        try:
            if self._failed:
                self._make_topics(self._hasty)  # somebody may have deleted them
            self._send(self._hasty)
        except MainstemError as error:
            self._failed = True
            _events.debug("the book of pipelines cannot be written", why=str(error))

    def _send(self, client: Client) -> None:
        self._tried_ms = self._now_ms()
        while self._outbox:
            load = self._outbox.load()
            self._write(client, load)
            self._outbox.sent(load)
            if not self._outbox and self._outbox.lost and self._said is not None:
                self._put_event(_gap(self._said, self._outbox.lost, self._now_ms()))
                self._outbox.lost = 0
        self._failed = False

    def _write(self, client: Client, load: Load) -> int:
        """Offset of the first status in it."""
        now_ms = self._now_ms()
        batches = {}
        for place, pairs in ((_STATUS, load.statuses.items()), (_LOG, load.events)):
            if pairs:
                batches[place] = encode_batch([Record(0, now_ms, key, value) for key, value in pairs])
        return client.produce(batches).get(_STATUS, -1)

    def _make_topics(self, client: Client) -> None:
        for name, configs in _TOPICS.items():
            try:
                client.topic(name)
            except UnknownTopic:
                try:
                    admin.create_topic(client, name, 1, configs)
                except BrokerRefused as refused:
                    if refused.code != codes.TOPIC_EXISTS:
                        raise
                client.topic(name)


def _gap(status: RunStatus, lost: int, at_ms: int) -> Event:
    text = f"{lost} events before this were given up: the broker was away for long"
    return Event(
        pipeline=status.pipeline, run=status.run, at_ms=at_ms, kind="log", level="warning", text=text
    )


def _matches(name: str, wish: Wish, record: Record) -> Event | None:
    if record.key != name.encode():
        return None
    event = records.read_event(record.value)
    if event is None or event.kind not in wish.kinds or (wish.run and event.run != wish.run):
        return None
    return event


def _since(client: Client, wish: Wish, end: int) -> int:
    if wish.since_ms is None:
        return client.bounds([LOG_TOPIC])[_LOG][0]
    found = client.offsets({_LOG: wish.since_ms})[_LOG].offset
    return end if found < 0 else found
