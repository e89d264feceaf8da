"""Which files to merge next: decisions over the manifest, without touching a file.

Level 0 are finished journal files; a merge of them makes level 1. Runs made by one merge are a group, and
groups of one level are merged into the next once there are `fan_in` of them, so a body is written once per
level and the number of files grows with the logarithm of the data. Groups of partitions that are compacted by
key (`keyed`) have a rule of their own: all of them become one as soon as enough of it is new.

Offsets of a partition only grow along the list of runs. So a merge takes groups that are neighbours, or
between which lies nothing that it touches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from msgspec.structs import replace

from mainstem.kernel.log.jobs import Input, NewRun
from mainstem.kernel.log.layout import FileKind
from mainstem.kernel.log.manifest import JournalEntry, Manifest, RetiredEntry, RunEntry
from mainstem.kernel.log.sidecar import Sidecar


@dataclass(frozen=True, slots=True)
class UpkeepOptions:
    # Level 0 is merged when this many files are finished, or when one has waited for merge_after_ms and less
    # than this is being written (or four times as much read): a merge costs about as much as the writing did,
    # and can be done later, though not for longer than max_put_off_ms.
    level0_files: int = 64
    merge_after_ms: int = 120_000
    quiet_bytes_per_s: int = 16 << 20
    # Of finished files without a sidecar, in memory: 45 bytes each.
    max_waiting_rows: int = 1_000_000
    # Indexes up to this length get their sidecar from this process, others from the child.
    sealed_here_rows: int = 5_000
    fan_in: int = 8
    run_bytes: int = 1 << 30
    run_rows: int = 500_000  # the child holds the index of one run in memory
    # What one merge reads at most: it needs as much space again until it is done.
    max_merge_bytes: int = 32 << 30
    # So long at most do clients keep a merge waiting, or one resting in all: they may never pause, and what
    # is deleted, expired or replaced must leave the disk nevertheless. Peaks are to be over by then.
    max_put_off_ms: int = 600_000
    # Share of a compacted group that must be new, and share of any group that must be dead, to rewrite it.
    dirty_ratio: float = 0.5
    dead_ratio: float = 0.5
    survey_every_ms: int = 60_000
    # Look-ups per slice of the owner's time: two or three milliseconds.
    slice_steps: int = 1024
    # After a failure: twice as long each time. A full disk is often the reason, and is to be emptied soon;
    # damage does not go away by itself.
    retry_ms: int = 2_000
    max_retry_ms: int = 30_000
    damage_wait_ms: int = 3_600_000
    no_space_wait_ms: int = 2_000
    max_keys: int = 1_000_000


# What a group is rewritten for: nothing lives in it, and hardly anything is written; or less than it should.
NOTHING_ALIVE, DEAD_SPACE = "nothing alive", "dead space"


class Choice(NamedTuple):
    """What to merge, oldest first, and the level of what comes out."""

    inputs: list[Input]
    level: int
    why: str
    due_ms: int | None = None  # since when, if the files tell


class Group(NamedTuple):
    """Runs that one merge made."""

    number: int
    level: int
    keyed: bool
    runs: tuple[RunEntry, ...]

    @property
    def first_id(self) -> int:
        return self.runs[0].file_id

    @property
    def size(self) -> int:
        return sum(run.size for run in self.runs)


Ready = Mapping[int, Sidecar]  # file id -> its sidecar in use


def groups_of(manifest: Manifest) -> list[Group]:
    """Oldest first."""
    keyed = groupby(manifest.runs, key=lambda run: (run.group, run.keyed, run.level))
    return [Group(number, level, is_keyed, tuple(runs)) for (number, is_keyed, level), runs in keyed]


def finished_files(manifest: Manifest) -> dict[int, Input]:
    """All that may be read of, by id; retired ones too."""
    entries = [Input(e.file_id, FileKind.JOURNAL, e.size) for e in manifest.journals if e.size]
    entries += [Input(e.file_id, FileKind.RUN, e.size) for e in manifest.runs]
    entries += [Input(e.file_id, e.kind, e.size) for e in manifest.retired]
    return {entry.file_id: entry for entry in entries}


def older_than(manifest: Manifest, choice: Choice) -> set[int]:
    """Runs before the first input, and between the inputs, that are not part of the merge."""
    runs = [run.file_id for run in manifest.runs]
    if choice.inputs[-1].file_id in runs:
        runs = runs[: runs.index(choice.inputs[-1].file_id)]
    return set(runs) - {entry.file_id for entry in choice.inputs}


def level0_choice(
    manifest: Manifest,
    journals: Sequence[JournalEntry],
    ready: Ready,
    seen_ms: Mapping[int, int],
    now_ms: int,
    pressed: bool,
    options: UpkeepOptions,
) -> Choice | None:
    """The oldest finished journal files: if it presses, or once the first has waited for long enough.

    `journals` are those of the manifest that no damage holds up. Their deltas are not copied: they must lie
    before both snapshots that recovery may start from.
    """
    if len(manifest.snapshots) < 2:
        return None
    replay_from = min(snapshot.file_id for snapshot in manifest.snapshots)
    found: list[JournalEntry] = []
    total = 0
    for entry in journals:
        if not entry.size or entry.file_id >= replay_from or entry.file_id not in ready:
            break
        if found and total + entry.size > options.max_merge_bytes:
            break
        found.append(entry)
        total += entry.size
        if len(found) == options.level0_files:
            break
    if not found:
        return None
    due_ms = seen_ms.get(found[0].file_id, now_ms) + options.merge_after_ms
    if not pressed and now_ms < due_ms:
        return None
    inputs = [Input(entry.file_id, FileKind.JOURNAL, entry.size) for entry in found]
    return Choice(inputs, 1, "level 0", due_ms)


def tier_choice(manifest: Manifest, ready: Ready, options: UpkeepOptions) -> Choice | None:
    """Groups of one level, once there are enough of them."""
    groups = groups_of(manifest)
    for level in sorted({group.level for group in groups if not group.keyed}):
        chosen = [group for group in groups if group.level == level and not group.keyed]
        parts = _unbroken(chosen, ready)
        if sum(map(len, parts)) < options.fan_in:
            continue
        for part in parts:
            for some in _neighbours(part, options.max_merge_bytes):
                choice = _choice(groups, some, level + 1, "level full", ready, options)
                if choice is not None:
                    return choice
    return None


def _unbroken(groups: Sequence[Group], ready: Ready) -> list[list[Group]]:
    """Neighbours that can be merged, between those that cannot: they are damaged, or have no sidecar yet."""
    parts = groupby(groups, key=lambda group: is_ready(group, ready))
    return [list(part) for can_be, part in parts if can_be]


def is_ready(group: Group, ready: Ready) -> bool:
    return all(run.file_id in ready for run in group.runs)


def _neighbours(groups: Sequence[Group], max_bytes: int) -> Iterator[Sequence[Group]]:
    """Oldest first, as many as one merge may hold. No large group is written again for a few small ones."""
    sizes = [group.size for group in groups]
    for first in range(len(groups) - 1):
        last, total = first, 0
        while last < len(groups) and total + sizes[last] <= max_bytes:
            total += sizes[last]
            last += 1
        if last - first > 1 and 2 * max(sizes[first:last]) <= total:
            yield groups[first:last]


def keyed_choice(manifest: Manifest, ready: Ready, options: UpkeepOptions) -> Choice | None:
    """All groups of compacted partitions, once enough of them was never compacted together.

    Level 2 and up is what such a merge left; level 1 came since.
    """
    groups = groups_of(manifest)
    parts = _unbroken([group for group in groups if group.keyed], ready)
    keyed = parts[-1] if parts else []  # what is new is in the last
    new = [group for group in keyed if group.level == 1]
    if len(keyed) < 2 or not new:
        return None
    new_bytes, total = sum(group.size for group in new), sum(group.size for group in keyed)
    if new_bytes < total * options.dirty_ratio and len(new) < options.fan_in:
        return None
    choice = _choice(groups, keyed, 2, "compaction", ready, options)
    if choice is None and len(new) >= options.fan_in:
        choice = _choice(groups, new, 1, "level of compacted topics full", ready, options)
    return choice


def rewrite_choice(
    manifest: Manifest, ready: Ready, first_id: int, why: str, options: UpkeepOptions
) -> Choice | None:
    """One group alone, to give back the space of what is dead in it."""
    groups = groups_of(manifest)
    chosen = [group for group in groups if group.first_id == first_id]
    return _choice(groups, chosen, chosen[0].level, why, ready, options) if chosen else None


def _choice(
    groups: list[Group], chosen: Sequence[Group], level: int, why: str, ready: Ready, options: UpkeepOptions
) -> Choice | None:
    taken = _with_between(groups, chosen, ready)
    runs = [run for group in taken for run in group.runs]
    too_large = len(taken) > 1 and sum(run.size for run in runs) > options.max_merge_bytes
    if too_large or any(run.file_id not in ready for run in runs):
        return None
    return Choice([Input(run.file_id, FileKind.RUN, run.size) for run in runs], level, why)


def _with_between(groups: list[Group], chosen: Sequence[Group], ready: Ready) -> list[Group]:
    """The chosen groups and those between them that hold some of the same partitions.

    Only a topic that was switched between compacted and not has both kinds of groups.
    """
    first, last = groups.index(chosen[0]), groups.index(chosen[-1])
    between = groups[first : last + 1]
    taken = set(chosen)
    grown = True
    while grown:
        grown = False
        for group in between:
            if group not in taken and any(_share(group, other, ready) for other in taken):
                taken.add(group)
                grown = True
    return [group for group in between if group in taken]


def _share(one: Group, other: Group, ready: Ready) -> bool:
    if not (is_ready(one, ready) and is_ready(other, ready)):
        return True  # for all that is known
    few, many = sorted(
        ([ready[run.file_id] for run in group.runs] for group in (one, other)),
        key=lambda sidecars: sum(sidecar.partition_count for sidecar in sidecars),
    )
    return any(
        sidecar.span(partition) is not None
        for own in few
        for partition in own.partitions()
        for sidecar in many
    )


def swap_in(manifest: Manifest, choice: Choice, runs: Sequence[NewRun]) -> Manifest:
    """The manifest in which `runs` hold what the inputs of a merge held, and the inputs are retired."""
    gone = {entry.file_id for entry in choice.inputs}
    first = {keyed: next((run.file_id for run in runs if run.keyed == keyed), 0) for keyed in (False, True)}
    entries = [
        RunEntry(run.file_id, run.size, choice.level, first[run.keyed], run.keyed, run.body_bytes)
        for run in runs
    ]
    at = next((i for i, run in enumerate(manifest.runs) if run.file_id in gone), len(manifest.runs))
    after = [run for run in manifest.runs[at:] if run.file_id not in gone]
    return replace(
        manifest,
        runs=(*manifest.runs[:at], *entries, *after),
        journals=tuple(entry for entry in manifest.journals if entry.file_id not in gone),
        retired=(
            *manifest.retired,
            *(RetiredEntry(entry.file_id, entry.size, entry.kind) for entry in choice.inputs),
        ),
    )
