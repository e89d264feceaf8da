"""Files in which damage was found: merges leave them out, and go on with the rest."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence, Set
from itertools import islice

from mainstem.kernel.log.jobs import Failed
from mainstem.kernel.log.layout import PLACES_SUFFIX, file_id_of
from mainstem.kernel.log.places import Places
from mainstem.kernel.log.sidecar import Sidecar
from mainstem.kernel.log.survey import Floor
from mainstem.model.errors import CorruptFile

LOOK_MS = 60_000


class Damage:
    """What is known of it, by file id; after a long while a file is tried again."""

    def __init__(self, wait_ms: int) -> None:
        self._wait_ms = wait_ms
        self._until_ms: dict[int, int] = {}
        # Of those, files whose index was written here and could not be read back.
        self.unsealable: set[int] = set()
        # Finished journal files that stay where they are: damaged ones, and what must not overtake them.
        self.left_behind: Set[int] = frozenset()
        self._looked_at: tuple[Set[int], Set[int]] = frozenset(), frozenset()
        self._next_look_ms = 0

    def found(self, path: str, job_files: Set[int], tables: Iterable[Places], now_ms: int) -> Set[int]:
        """A job about these files came upon damage in a file. Returns which ones are left out from now on.

        The damaged one, of those in use (`tables`). If it is not known, or was left out before and the job
        needs it nevertheless, then all that the job was about: the next job must be another.
        """
        file_id = file_id_of(path)
        bad = [places for places in tables if places.file_id == file_id]
        known = file_id in self._until_ms
        if path.endswith(PLACES_SUFFIX):
            sidecars = [places for places in bad if isinstance(places, Sidecar)]
            for sidecar in sidecars:
                sidecar.damaged = True  # to be made again, if its file is sound as far as is known
            if sidecars and not known:
                return frozenset()
        left_out = {file_id} if bad else set(job_files)
        if known and file_id not in job_files:
            left_out |= job_files
        self._until_ms.update(dict.fromkeys(left_out, now_ms + self._wait_ms))
        return left_out

    def forget(self, now_ms: int, known: Set[int]) -> None:
        """Of files that are gone, and what is due to be tried again."""
        left = self._until_ms.items()
        self._until_ms = {id_: until_ms for id_, until_ms in left if now_ms < until_ms and id_ in known}
        self.unsealable &= self._until_ms.keys()

    def mind(
        self, finished: Sequence[Places], floor: Floor, now_ms: int, slice_steps: int
    ) -> Generator[None, None, None]:
        """Finds out which of the finished journal files, oldest first, are left behind; in slices."""
        known = frozenset(places.file_id for places in finished)
        damaged = known & self._until_ms.keys()
        # Also what is trimmed may let some of them go. That is seen in time: to look is much work with many
        # partitions.
        if (damaged, known) == self._looked_at and (not damaged or now_ms < self._next_look_ms):
            return
        self._looked_at, self._next_look_ms = (damaged, known), now_ms + LOOK_MS
        self.left_behind = yield from stay_behind(finished, damaged, floor, slice_steps)

    @property
    def file_ids(self) -> Set[int]:
        return self._until_ms.keys()


def failure_of(error: Exception) -> Failed:
    path = error.path if isinstance(error, CorruptFile) else ""
    return Failed(f"{type(error).__name__}: {error}", corrupt=bool(path), path=path)


def bad_index(tables: Iterable[Places], but: Set[int]) -> Sidecar | None:
    """A sidecar of which a part could not be read: it can be made again from its file."""
    found = (places for places in tables if isinstance(places, Sidecar) and places.damaged)
    return next((sidecar for sidecar in found if sidecar.file_id not in but), None)


def stay_behind(
    finished: Iterable[Places], damaged: Set[int], floor: Floor, slice_steps: int
) -> Generator[None, None, Set[int]]:
    """Of finished journal files, oldest first, those that cannot be merged for now.

    What is merged stands before all that is not. So behind a file that stays, whatever holds more of one of
    its partitions has to stay, too; what is deleted of it does not count, since no merge takes that along.
    """
    stay: set[int] = set()
    held: set[int] = set()
    for places in finished:
        if places.file_id not in damaged:
            if not held:
                continue
            yield
            for step, partition in enumerate(places.partitions(), 1):
                if partition in held and _lives(places, partition, floor(partition)):
                    break
                if step % slice_steps == 0:
                    yield
            else:
                continue
        stay.add(places.file_id)
        yield
        partitions = iter(places.partitions())
        while few := list(islice(partitions, slice_steps)):
            held.update(few)
            yield
    return stay


def _lives(places: Places, partition: int, floor: int | None) -> bool:
    span = places.span(partition)
    return floor is not None and span is not None and span.last_offset >= floor
