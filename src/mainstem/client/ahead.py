"""Read one partition from one offset to another, with the next request always under way.

While the caller works on one answer, the broker and the network work on the next. A connection that breaks is
made again, for as long as `patience_s` allows: a broker that restarts is not the end of a long read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mainstem.client import codes
from mainstem.client.client import Client
from mainstem.client.cluster import Fetched, FetchLimits, TopicPartition
from mainstem.client.connection import Connection
from mainstem.client.patience import patiently, sit_out
from mainstem.model.errors import BrokerUnreachable
from mainstem.wire.kafka.fetch import FetchResponse

# What lies behind the end is not wanted: of little a little is asked for, by what records took so far.
GUESS_BYTES = 1 << 10  # of a record, before any was seen
LEAST_BYTES = 256 << 10
SLACK = 1.1  # so that the last ones do not cost a request of their own


class Ahead:
    """A reader of one partition. Nobody else may use the client meanwhile: its answers come in order."""

    def __init__(
        self, client: Client, place: TopicPartition, limits: FetchLimits, patience_s: float = 30.0
    ) -> None:
        self._client = client
        self._place = place
        self._limits = limits
        self._patience_s = patience_s
        self._asked: Connection | None = None
        self._end = 0
        self._record_bytes: float = GUESS_BYTES

    def read(self, start: int, end: int) -> Iterator[Fetched]:
        """What lies from `start` to below `end`, and perhaps behind it, in whole batches.

        An answer with an error, or with nothing although something should be there, is given too: only the
        caller knows what it means for him. After that, reading is over.
        """
        offset, self._end = start, end
        try:
            while offset < end:
                fetched = self._receive(offset)
                following = fetched.next_offset
                if following == offset and not fetched.error_code:
                    # Ask once more before it is believed that nothing is there.
                    fetched = self._receive(offset)
                    following = fetched.next_offset
                if fetched.error_code or following == offset:
                    yield fetched
                    return
                self._record_bytes = len(fetched.records) / (following - offset)
                offset = following
                if offset < end:
                    self._send(offset)
                yield fetched
        finally:
            if self._asked is not None:  # an answer that nobody reads would be taken for the next one's
                self._asked.close()
                self._asked = None

    def _send(self, offset: int) -> None:
        """If it fails, `_receive` finds nothing asked, and asks again."""
        requests = self._client.fetch_requests({self._place: offset}, self._limits_from(offset))
        ((leader, request),) = requests.items()
        try:
            connection = self._client.connection(leader)
            connection.send(request)
        except BrokerUnreachable:
            return
        self._asked = connection

    def _limits_from(self, offset: int) -> FetchLimits:
        wanted = max(LEAST_BYTES, int((self._end - offset) * self._record_bytes * SLACK))
        if wanted >= self._limits.partition_max_bytes:
            return self._limits
        return replace(self._limits, partition_max_bytes=wanted)

    def _receive(self, offset: int) -> Fetched:
        return patiently(lambda: self._receive_once(offset), self._patience_s)

    def _receive_once(self, offset: int) -> Fetched:
        if self._asked is None:
            self._send(offset)
        if self._asked is None:
            raise BrokerUnreachable(f"no connection to read {self._place} at offset {offset}")
        asked, self._asked = self._asked, None
        answer = asked.receive(FetchResponse, extra_s=self._limits.max_wait_ms / 1000)
        fetched = next(self._client.fetched(answer, {self._place: offset}), None)
        if fetched is None:
            raise sit_out(answer.throttle_time_ms)  # and ask again
        if fetched.error_code in codes.MOVED:
            fetched.check()
        return fetched
