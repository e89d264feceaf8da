"""What the owner of a log asks of the mill, and what it gets back.

Plain values: they cross a pipe to another process. Files are named by id; nothing here holds a place or a
body, so that a job stays small however large the files are.
"""

from __future__ import annotations

import msgspec

BodyId = tuple[int, int]  # file id, position
# The floor of a partition that is gone: everything lies below it.
DELETED = 1 << 62


class Input(msgspec.Struct, frozen=True, array_like=True):
    """A finished file; `kind` is FileKind.JOURNAL or FileKind.RUN."""

    file_id: int
    kind: int
    size: int


class CompactOrder(msgspec.Struct, frozen=True, array_like=True):
    """How one partition is compacted by this merge."""

    stable_offset: int  # records at or above stay as they are
    delete_retention_ms: int
    min_lag_ms: int
    # No older file outside the merge holds this partition: what a tombstone deletes cannot come back.
    oldest: bool


class SealJob(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Check every frame of a finished file and write its sidecar."""

    folder: str
    input: Input


class MergeJob(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Turn finished files, oldest first, into runs that hold what of them still lives."""

    folder: str
    inputs: list[Input]
    # Files that went out of use while links to their bodies were on the way: bodies only, no places.
    retired: list[Input]
    # All other finished files: their links keep bodies of the inputs alive.
    outside: list[Input]
    # Bodies that links in unfinished files, or state, name.
    targets: list[BodyId]
    floors: dict[int, int]
    compact: dict[int, CompactOrder]
    output_ids: list[int]
    now_ms: int
    keep_cached: bool = False  # the inputs count as in memory, and so shall what is made of them
    run_bytes: int = 1 << 30
    run_rows: int = 2_000_000
    max_keys: int = 1_000_000


class Sealed(msgspec.Struct, frozen=True, array_like=True, tag=1):
    places: int
    read_bytes: int


class NewRun(msgspec.Struct, frozen=True, array_like=True):
    file_id: int
    size: int
    keyed: bool
    body_bytes: int


class Merged(msgspec.Struct, frozen=True, array_like=True, tag=2):
    runs: list[NewRun]
    read_bytes: int
    written_bytes: int
    places_kept: int
    places_dropped: int
    records_removed: int
    # Links of compacted partitions whose bodies could not be read: compaction stops at the first.
    unread_links: int = 0
    why_unread: str = ""


class Failed(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The job was given up and left nothing behind. `corrupt`: a file is damaged, trying again is vain."""

    error: str
    corrupt: bool = False
    path: str = ""  # of the damaged file, if it is known


Job = SealJob | MergeJob
Outcome = Sealed | Merged | Failed
