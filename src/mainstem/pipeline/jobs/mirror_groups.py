"""Consumer groups of the source are set to the same place in the mirror, while nobody is in them here."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

import msgspec

from mainstem.client import groups
from mainstem.client.client import EARLIEST, LATEST, Client
from mainstem.client.cluster import TopicPartition
from mainstem.model.errors import BrokerRefused, BrokerUnreachable, GroupNotFound, MainstemError, UnknownTopic
from mainstem.model.logs import get_log
from mainstem.pipeline.jobs.mirror_mapping import Mapping, Stretch, Target
from mainstem.pipeline.jobs.mirror_topics import Selection

events = get_log(__name__)

KINDS = ("", "classic", "consumer")  # others have no offsets that are set from outside


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which groups follow: names, where * stands for anything. Backwards only if that is asked for."""

    names: tuple[str, ...] = ("*",)
    backwards: bool = False

    def selects(self, group: str) -> bool:
        return any(fnmatchcase(group, name) for name in self.names)


class MappingReader:
    """Follows the topic that keeps the mapping."""

    def __init__(self, here: Client, place: TopicPartition) -> None:
        self._here = here
        self._place = place
        self._next = -1
        self.mapping = Mapping()

    def catch_up(self) -> Mapping:
        """All that is there now."""
        if self._next < 0:
            self._next = self._here.offsets({self._place: EARLIEST})[self._place].offset
        while True:
            (fetched,) = self._here.fetch({self._place: self._next}, max_wait_ms=0)
            for record in fetched.check().decoded():
                if record.key is not None and record.value is not None:
                    self._apply(record.key, record.value, record.offset)
            if fetched.next_offset == self._next:
                return self.mapping
            self._next = fetched.next_offset

    def _apply(self, key: bytes, value: bytes, offset: int) -> None:
        try:
            self.mapping.apply(key.decode(), msgspec.json.decode(value, type=Stretch))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:  # somebody else's: it tells us nothing
            events.warning("a record of the mapping cannot be read", offset=offset, why=str(error))


def move_groups(
    source: Client, here: Client, mapping: Mapping, selection: Selection, wanted: Wanted
) -> dict[str, dict[TopicPartition, int]]:
    """One round over all groups of the source; which were moved, and where to."""
    moved = {}
    for group in groups.list_groups(source):
        if group.kind.lower() not in KINDS or not wanted.selects(group.id):
            continue
        try:
            targets = _targets(source, here, mapping, selection, wanted, group.id)
            if targets and _commit(here, group.id, targets):
                moved[group.id] = targets
        except BrokerUnreachable:  # so it is for all others
            raise
        except MainstemError as error:  # of this group: a right that is missing, a coordinator that moves
            events.warning("a group was not moved", group=group.id, why=str(error))
    return moved


def _targets(
    source: Client, here: Client, mapping: Mapping, selection: Selection, wanted: Wanted, group: str
) -> dict[TopicPartition, int]:
    """What is to be committed here for a group; nothing while somebody is in it."""
    committed = groups.committed_offsets(source, group)
    places = {place: at for place, at in committed.items() if selection.selects(place.topic)}
    if not places or _is_live(here, group):
        return {}
    known = groups.committed_offsets(here, group)
    return {
        place: at
        for place, at in _translated(here, mapping, selection, places).items()
        if at != known.get(place) and (wanted.backwards or at > known.get(place, -1))
    }


def _is_live(here: Client, group: str) -> bool:
    try:
        return bool(groups.describe_group(here, group).members)
    except GroupNotFound:
        return False


def _commit(here: Client, group: str, targets: dict[TopicPartition, int]) -> bool:
    try:
        groups.commit_offsets(here, group, targets)
    except BrokerRefused as refused:  # somebody has joined it meanwhile: it goes its own way from now on
        events.event("a group was not moved", group=group, why=str(refused))
        return False
    return True


def _translated(
    here: Client, mapping: Mapping, selection: Selection, places: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """By partition here, for topics that are here."""
    found: dict[TopicPartition, int] = {}
    targets: dict[str, Target | None] = {}
    for place, offset in places.items():
        name = selection.target(place.topic)
        if name not in targets:
            targets[name] = target_of(here, name)
        target = targets[name]
        at = TopicPartition(name, place.partition)
        if target is not None and (bounds := _bounds(here, at)) is not None:
            found[at] = within(mapping.translate(place.topic, place.partition, offset, target), *bounds)
    return found


def target_of(here: Client, name: str) -> Target | None:
    """None: not mirrored yet."""
    try:
        return Target(name, here.topic(name).id.hex())
    except UnknownTopic:
        return None


def _bounds(here: Client, place: TopicPartition) -> tuple[int, int] | None:
    try:
        first = here.offsets({place: EARLIEST})[place].offset
        return first, here.offsets({place: LATEST})[place].offset
    except UnknownTopic:  # it has fewer partitions yet, or is gone since
        return None


def within(translated: int | None, first: int, end: int) -> int:
    """Never before the beginning: a reader sent there would be asked where to begin. What is not known, or
    lies where nothing was written yet and so belongs to a topic that is gone, is the beginning too."""
    return first if translated is None or translated > end else max(translated, first)
