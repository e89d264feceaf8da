"""Consumer groups of the source are set to the same place in the mirror, while nobody is in them here."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

import msgspec

from mainstem.client import groups
from mainstem.client.client import EARLIEST, Client
from mainstem.client.cluster import TopicPartition
from mainstem.model.errors import BrokerRefused, GroupNotFound, UnknownTopic
from mainstem.model.logs import get_log
from mainstem.pipeline.jobs.mirror_mapping import Mapping, Stretch
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
                    stretch = msgspec.json.decode(record.value, type=Stretch)
                    self.mapping.apply(record.key.decode(), stretch)
            if fetched.next_offset == self._next:
                return self.mapping
            self._next = fetched.next_offset


def move_groups(
    source: Client, here: Client, mapping: Mapping, selection: Selection, wanted: Wanted
) -> dict[str, dict[TopicPartition, int]]:
    """One round over all groups of the source; which were moved, and where to."""
    moved = {}
    for group in groups.list_groups(source):
        if group.kind.lower() not in KINDS or not wanted.selects(group.id):
            continue
        committed = groups.committed_offsets(source, group.id)
        places = {place: at for place, at in committed.items() if selection.selects(place.topic)}
        if not places or _is_live(here, group.id):
            continue
        targets = _translated(here, mapping, selection, places)
        known = groups.committed_offsets(here, group.id)
        targets = {
            place: at
            for place, at in targets.items()
            if at != known.get(place) and (wanted.backwards or at > known.get(place, -1))
        }
        if targets and _commit(here, group.id, targets):
            moved[group.id] = targets
    return moved


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
    """By partition here. Never before its beginning: a reader sent there would be asked where to begin."""
    wanted: dict[TopicPartition, int] = {}
    for place, offset in places.items():
        target = TopicPartition(selection.target(place.topic), place.partition)
        wanted[target] = mapping.translate(place.topic, place.partition, offset) or 0
    firsts: dict[TopicPartition, int] = {}
    for target in wanted:
        try:
            firsts[target] = here.offsets({target: EARLIEST})[target].offset
        except UnknownTopic:  # not mirrored yet
            continue
    return {target: max(wanted[target], first) for target, first in firsts.items()}
