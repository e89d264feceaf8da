"""How many dead letters came since a run began, told by where their topics end.

Tasks in executors send them, and have no way to tell the driver how many. But it can ask the broker, after
every batch, with two small requests. So the figure is the topic's: what another pipeline sent there is in it,
and what a repeated task sent twice counts twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from mainstem.client import admin, codes
from mainstem.client.client import LATEST, Client
from mainstem.client.cluster import TopicPartition
from mainstem.client.settings import ClientSettings
from mainstem.model.errors import MainstemError
from mainstem.model.logs import get_log
from mainstem.pipeline.dead_topics import DeadTopics
from mainstem.pipeline.progress import DeadLetters, QueryProgress

events = get_log(__name__)
T = TypeVar("T")

# A run must not stand still for a figure.
CONNECT_S, REQUEST_S = 2.0, 5.0
UNKNOWN = -1


class DeadWatch:
    """For one thread, that which follows the run. Keeps its connection until it is closed."""

    def __init__(self, settings: ClientSettings, topics: DeadTopics) -> None:
        self._settings = replace(
            settings,
            attempts=1,
            connect_timeout_s=min(settings.connect_timeout_s, CONNECT_S),
            request_timeout_s=min(settings.request_timeout_s, REQUEST_S),
        )
        self._topics = topics
        self._begun: dict[str, int] = {}  # what was there before; of a topic that was not, nothing
        self.seen: dict[str, int] = {}  # at the last look at each topic
        self._client: Client | None = None

    def begin(self) -> None:
        """Before the first query runs. A topic that cannot be looked at now stays unknown."""
        self._begun = self._ends(self.found(self._topics))

    def found(self, topics: DeadTopics) -> frozenset[str]:
        """By name, also those for topics that a pattern fits."""
        if not topics.patterns:
            return topics.names
        try:
            return topics.left_by(self._ask(admin.topic_names))
        except MainstemError as error:
            events.warning("topics of dead letters cannot be looked for", why=str(error))
            return topics.names

    def look(self, topics: Iterable[str]) -> dict[str, int]:
        """Records that came since the beginning, by topic."""
        found = {}
        for topic, end in self._ends(topics).items():
            begun = self._begun.get(topic, 0)
            if begun > end >= 0:  # made anew
                begun = self._begun[topic] = 0
            found[topic] = UNKNOWN if UNKNOWN in (begun, end) else end - begun
        self.seen |= found
        return found

    def _ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Offsets behind the last record, of all partitions together; 0 for a topic that is not there."""
        wanted = sorted(topics)
        if not wanted:
            return {}
        try:
            return self._ask(lambda client: _ends(client, wanted))
        except MainstemError as error:
            events.debug("topics of dead letters cannot be looked at", why=str(error))
            return dict.fromkeys(wanted, UNKNOWN)

    def _ask(self, work: Callable[[Client], T]) -> T:
        if self._client is None:
            self._client = Client(self._settings)
        try:
            return work(self._client)
        except MainstemError:
            self.close()
            raise

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _ends(client: Client, topics: Iterable[str]) -> dict[str, int]:
    told = client.cluster(topics).topics
    found = {name: 0 if one.error_code == codes.UNKNOWN_TOPIC else UNKNOWN for name, one in told.items()}
    known = [one for one in told.values() if not one.error_code]
    places = [TopicPartition(one.name, partition.index) for one in known for partition in one.partitions]
    found |= dict.fromkeys((one.name for one in known), 0)
    for place, at in client.offsets(dict.fromkeys(places, LATEST)).items() if places else ():
        found[place.topic] += at.offset
    return found


def letters(records: Mapping[str, int], before: Mapping[str, int]) -> tuple[DeadLetters, ...]:
    """Of topics that got some, or about which nothing is known. `before` is as of the batch before."""
    found = []
    for topic, count in sorted(records.items()):
        last = UNKNOWN if UNKNOWN in (count, before.get(topic, 0)) else max(0, count - before.get(topic, 0))
        if count:
            found.append(DeadLetters(topic=topic, records=count, last=last))
    return tuple(found)


def together(batches: Iterable[QueryProgress]) -> tuple[DeadLetters, ...]:
    """Each topic once: where several queries read the same, as the newest of their batches tells it."""
    found: dict[str, DeadLetters] = {}
    for batch in sorted(batches, key=lambda one: one.at_ms):
        found |= {one.topic: one for one in batch.dead}
    return tuple(found[topic] for topic in sorted(found))
