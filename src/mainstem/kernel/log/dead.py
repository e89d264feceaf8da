"""Groups that are dead, in whole or for the most part: found by a survey, rewritten one at a time.

Each is tried once between two surveys at most, those first that were never tried, then the one whose last
try is longest ago: one that fails, or that finds no room, keeps no other waiting.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import NamedTuple

from mainstem.kernel.log.jobs import NewRun
from mainstem.kernel.log.manifest import Manifest
from mainstem.kernel.log.plan import (
    DEAD_SPACE,
    NOTHING_ALIVE,
    Choice,
    Group,
    Ready,
    UpkeepOptions,
    groups_of,
    is_ready,
    rewrite_choice,
)
from mainstem.kernel.log.survey import Floor, count_live

# A group of which only bodies live, named by links elsewhere, is rewritten every so many surveys.
_SURVEYS_PER_BODY_CHECK = 10


class _Try(NamedTuple):
    number: int  # of all tries
    live: int  # bytes of places, by the survey before


_NEVER = _Try(0, 0)


class DeadGroups:
    """Groups are told apart by the ids of their first files."""

    def __init__(self, options: UpkeepOptions) -> None:
        self._options = options
        self._surveys = 0
        self._live: dict[int, int] = {}  # bytes of places, by the last survey
        self._found: dict[int, str] = {}  # why it is to be rewritten, until it is tried
        self._tries = 0
        self._last_try: dict[int, _Try] = {}
        # To be rewritten once nothing but bodies is left in them, until they are gone.
        self._check_bodies: set[int] = set()
        # What lived by the estimate in groups that a rewrite left as large as they were, because a batch
        # stays whole for one record. Rewriting them again is vain until less does.
        self._as_small_as_can_be: dict[int, int] = {}

    def survey(self, manifest: Manifest, ready: Ready, floor: Floor) -> Generator[None, None, None]:
        self._surveys += 1
        groups = groups_of(manifest)
        self._forget_all_but({group.first_id for group in groups})
        if self._surveys % _SURVEYS_PER_BODY_CHECK == 0:
            self._check_bodies.update(group.first_id for group in groups)
        live: dict[int, int] = {}
        why: dict[int, str] = {}
        for group in groups:
            if not is_ready(group, ready):
                continue  # nobody knows what lives in it
            sidecars = [ready[run.file_id] for run in group.runs]
            live[group.first_id] = yield from count_live(sidecars, floor, self._options.slice_steps)
            why[group.first_id] = self._why(group, live[group.first_id])
        self._live = live
        self._found = {first_id: found for first_id, found in why.items() if found}

    def _forget_all_but(self, first_ids: set[int]) -> None:
        self._check_bodies &= first_ids
        self._last_try = {id_: last for id_, last in self._last_try.items() if id_ in first_ids}
        vain = self._as_small_as_can_be.items()
        self._as_small_as_can_be = {id_: live for id_, live in vain if id_ in first_ids}

    def _why(self, group: Group, live: int) -> str:
        """What to rewrite it for, or nothing."""
        bodies = sum(run.body_bytes for run in group.runs)
        if not live and not bodies:
            return NOTHING_ALIVE
        if not live and group.first_id in self._check_bodies:
            return DEAD_SPACE
        keep = group.size * (1 - self._options.dead_ratio)
        is_vain = self._as_small_as_can_be.get(group.first_id) == live
        return DEAD_SPACE if live + bodies < keep and not is_vain else ""

    def choice(self, why: str, manifest: Manifest, ready: Ready) -> Choice | None:
        """The same one until it is tried; those that are gone by now, or damaged, are passed over."""
        found = [first_id for first_id, found in self._found.items() if found == why]
        for first_id in sorted(found, key=lambda first_id: self._last_try.get(first_id, _NEVER).number):
            choice = rewrite_choice(manifest, ready, first_id, why, self._options)
            if choice is not None:
                return choice
        return None

    def tried(self, choice: Choice) -> None:
        """A choice of any kind."""
        first_id = choice.inputs[0].file_id
        if choice.why in (NOTHING_ALIVE, DEAD_SPACE):
            self._tries += 1
            self._last_try[first_id] = _Try(self._tries, self._live.get(first_id, 0))
            self._found.pop(first_id, None)

    def came_off(self, choice: Choice, runs: Iterable[NewRun]) -> None:
        """A choice of any kind; these runs are what it left."""
        sizes = {run.file_id: run.size for run in runs}
        if choice.why == DEAD_SPACE and sum(sizes.values()) >= sum(entry.size for entry in choice.inputs):
            live = self._last_try.get(choice.inputs[0].file_id, _NEVER).live
            self._as_small_as_can_be |= dict.fromkeys(sizes, live)
