"""Care for finished files: sidecars, merges, compaction by key, and dropping what nobody needs.

Everything here runs on the owner's thread, in slices. The work itself is the mill's (another process); files
are opened, named and deleted on the housekeeper's thread. There is one job at a time, which keeps the
bookkeeping of links simple: while a merge runs no other file changes its address, and every link that is
written meanwhile is in a table in memory.

A merge ends like this, and a crash between any two steps leaves the old files or the new ones in use:

1. the mill has synced the runs and their sidecars; no manifest names them
2. one manifest names the runs, and the inputs as retired: bodies may be read there, places are not
3. the owner's tables change over to the runs
4. retired files that no link written meanwhile names are dropped from the manifest, then deleted; the others
   are taken up by the next merge

A merge of which most was deleted meanwhile is given up: what is left is merged anew, and soon done. A job
that fails is reported and tried again later, ever more rarely. Serving never depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Set
from dataclasses import dataclass
from functools import partial

from mainstem.kernel.log.damage import Damage, bad_index, failure_of
from mainstem.kernel.log.dead import DeadGroups
from mainstem.kernel.log.facts import Facts
from mainstem.kernel.log.jobs import (
    DELETED,
    BodyId,
    CompactOrder,
    Failed,
    Input,
    Merged,
    MergeJob,
    Outcome,
    Sealed,
    SealJob,
)
from mainstem.kernel.log.layout import FileKind, file_id_of, places_name
from mainstem.kernel.log.log import Log
from mainstem.kernel.log.miller import Post, Runner
from mainstem.kernel.log.places import PlaceTable
from mainstem.kernel.log.plan import (
    DEAD_SPACE,
    NOTHING_ALIVE,
    Choice,
    Ready,
    UpkeepOptions,
    finished_files,
    keyed_choice,
    level0_choice,
    older_than,
    swap_in,
    tier_choice,
)
from mainstem.kernel.log.seal import seal_table
from mainstem.kernel.log.sidecar import Sidecar, open_sidecar
from mainstem.kernel.log.survey import Watch, count_live, partitions_of, watched
from mainstem.kernel.log.traffic import Traffic
from mainstem.kernel.log.turns import Turns
from mainstem.kernel.log.upkeep_meters import UpkeepMeters
from mainstem.model.errors import CorruptFile
from mainstem.model.logs import get_log
from mainstem.model.meters import Meters

events = get_log(__name__)

_SEALS_AT_ONCE = 64
Slices = Generator[None, None, None]


@dataclass(frozen=True, slots=True)
class _Merge:
    """A merge that is on its way."""

    job: MergeJob
    choice: Choice
    # How many appends there were when floors were read: they must be on disk before anything goes for good.
    mark: int
    # What it read, or might have, that must stay: nobody knows which bodies in there are still named.
    stay: Set[int]


class Upkeep:
    """Made by the owner of the log, which calls `tick` about once a second and `close` at the end."""

    def __init__(
        self,
        log: Log,
        facts: Facts,
        runner: Runner,
        post: Post,
        options: UpkeepOptions | None = None,
        meters: Meters | None = None,
    ) -> None:
        self._log = log
        self._files = log.files
        self._facts = facts
        self._runner = runner
        self._post = post
        self._options = options or UpkeepOptions()
        self._meters = UpkeepMeters(meters or Meters(), log)
        self._now_ms = 0
        self._traffic = Traffic(log, self._options.quiet_bytes_per_s)
        self._damage = Damage(self._options.damage_wait_ms)
        self._turns = Turns(self._options.max_put_off_ms)
        self._dead = DeadGroups(self._options)
        self._busy = False
        self._watch: Watch | None = None  # of the merge in hand
        self._given_up = False  # that merge
        self._let_be: set[int] = set()  # files of merges that were given up: the next is not
        self._sealing: frozenset[int] = (
            frozenset()
        )  # files whose index the housekeeper writes, beside any job
        self._closed = False
        self._once_settled: list[tuple[int, Callable[[], object]]] = []
        self._slices: Slices | None = None
        self._next_survey_ms = 0
        self._seen_ms: dict[int, int] = {}  # finished journal file -> when it was first seen here
        self._failures = 0
        self._not_before_ms = 0
        self._sealed_last = False
        self._undropped: set[int] = set()
        if log.retired:
            self._settle_retired(links_on_disk=True)

    @property
    def busy(self) -> bool:
        """A job is running, or what it made is being put in place."""
        return self._busy or bool(self._sealing)

    def tick(self, now_ms: int) -> bool:
        """One slice of work. True: there is more to do right away, call again soon.

        `now_ms` is of a clock that is never set back.
        """
        self._now_ms = now_ms
        self._traffic.note(now_ms)
        rests = self._turns.rests(self._is_busy(), now_ms)
        self._runner.hold(rests)
        self._act_on_settled()
        if self._closed:
            return False
        # Also while something that failed has to wait: the merge does not.
        watching = self._watch is not None and next(self._watch, False)
        if now_ms < self._not_before_ms:
            return watching
        self._seal_short()
        if self._slices is None:
            # Also while a merge rests, for what is late: that ends its rest.
            if self._busy and not (rests and now_ms >= self._next_survey_ms):
                return watching
            self._slices = self._look_around()
        try:
            next(self._slices)
        except StopIteration:
            self._slices = None
            return False
        return True

    def _is_busy(self) -> bool:
        """Clients need what a merge would take, more than anything needs the merge."""
        return not self._traffic.is_quiet and not self._is_pressed()

    def _is_pressed(self) -> bool:
        """Merges must go on, however busy the moment: files wait for one, their indexes for a sidecar, or the
        disk for what only a merge can drop."""
        finished = [entry for entry in self._files.manifest.journals if entry.size]
        sizes = [entry.size for entry in finished if entry.file_id not in self._damage.left_behind]
        return (
            len(sizes) >= self._options.level0_files
            or self._waiting_rows() >= self._options.max_waiting_rows
            or self._files.disk.free_bytes(self._files.folder) < 2 * sum(sizes)
        )

    def _waiting_rows(self) -> int:
        return sum(len(places) for places in self._log.sealed if isinstance(places, PlaceTable))

    def close(self) -> None:
        """Ends the work in hand; what is half done leaves no trace. Call before the log is closed."""
        self._closed = True
        self._runner.close()

    # --- what to do next -------------------------------------------------------------------------

    def _look_around(self) -> Slices:
        """Finds a job and starts it, a slice at a time; beside a merge it only notes what is due."""
        manifest, options = self._files.manifest, self._options
        self._meters.count_files(manifest)
        yield from self._mind_damage()
        finished = (entry.file_id for entry in manifest.journals if entry.size)
        self._seen_ms = {file_id: self._seen_ms.get(file_id, self._now_ms) for file_id in finished}
        pressed = self._is_pressed()
        if not self._busy:
            # Files may be finished faster than they are sealed, or one cannot be sealed: that must not keep
            # merges waiting for ever.
            merges_first = self._sealed_last and (pressed or self._failures > 0)
            self._sealed_last = not merges_first and self._seal_long()
            if self._sealed_last:
                return
        if self._log.no_space:
            self._next_survey_ms = min(self._next_survey_ms, self._now_ms + options.no_space_wait_ms)
        surveyed = self._now_ms >= self._next_survey_ms
        if surveyed:
            # A full disk is looked over more often: what was deleted meanwhile is what makes room.
            every_ms = options.no_space_wait_ms if self._log.no_space else options.survey_every_ms
            self._next_survey_ms = self._now_ms + every_ms
            # Of the files that there are now: a merge that rested may have ended in a slice of this.
            yield from self._dead.survey(self._files.manifest, self._ready(), self._facts.floor)
        ready = self._ready()
        choices = self._choices(ready, pressed, surveyed)
        if self._busy:
            return
        for choice in choices:
            self._turns.tried(choice)
            self._dead.tried(choice)
            yield from self._start_merge(choice, ready)
            if self._busy:
                return
        if choices:
            # There was no space for any of them.
            self._not_before_ms = self._now_ms + options.no_space_wait_ms

    def _choices(self, ready: Ready, pressed: bool, surveyed: bool) -> list[Choice]:
        """What may be merged now, first things first."""
        manifest, options, now_ms = self._files.manifest, self._options, self._now_ms
        all_may = self._traffic.is_quiet or pressed
        journals = [entry for entry in manifest.journals if entry.file_id not in self._damage.left_behind]
        level0 = level0_choice(manifest, journals, ready, self._seen_ms, now_ms, pressed, options)
        found = [self._dead.choice(NOTHING_ALIVE, manifest, ready)]
        # While much is written nobody looks more often than for what is late: it takes a while.
        if all_may or surveyed or self._turns.any_late(now_ms):
            found += [
                keyed_choice(manifest, ready, options),
                tier_choice(manifest, ready, options),
                self._dead.choice(DEAD_SPACE, manifest, ready),
            ]
        others = [choice for choice in found if choice is not None]
        self._turns.note(others if level0 is None else [level0, *others], now_ms, surveyed=surveyed)
        return self._turns.in_turn(level0, others, now_ms, all_may=all_may)

    def _mind_damage(self) -> Slices:
        damage, log = self._damage, self._log
        damage.forget(self._now_ms, {places.file_id for places in (*log.sealed, *log.retired)})
        journals = {entry.file_id for entry in self._files.manifest.journals if entry.size}
        finished = [places for places in log.sealed if places.file_id in journals]
        yield from damage.mind(finished, self._facts.floor, self._now_ms, self._options.slice_steps)

    def _ready(self) -> Ready:
        """Sidecars of files that may be merged."""
        sidecars = [places for places in self._log.sealed if isinstance(places, Sidecar)]
        known_bad = self._damage.file_ids
        return {one.file_id: one for one in sidecars if not one.damaged and one.file_id not in known_bad}

    def _unsealed(self) -> list[tuple[PlaceTable, Input]]:
        known = finished_files(self._files.manifest)
        return [
            (places, known[places.file_id])
            for places in self._log.sealed
            if isinstance(places, PlaceTable) and places.file_id in known
        ]

    def _is_short(self, table: PlaceTable, entry: Input) -> bool:
        return entry.kind == FileKind.JOURNAL and len(table) <= self._options.sealed_here_rows

    def _seal_short(self) -> None:
        """Also beside a merge, which may take long or be held. Then not those with links: a merge asks tables
        in memory which bodies they name, and sidecars only when it starts."""
        if self._sealing:
            return
        # Rather slow for a moment than with an index that grows while a merge goes on. Only then: at other
        # times the child may be at work on a long one.
        all_lengths = self._turns.is_one_in_hand and self._waiting_rows() >= self._options.max_waiting_rows
        # And those that the child cannot make, because a part of their file is damaged: without an index on
        # disk the next start could not make one either, and would refuse.
        damaged = self._damage.file_ids
        short = [
            (table, entry.size)
            for table, entry in self._unsealed()
            if (
                self._is_short(table, entry)
                or (all_lengths and entry.kind == FileKind.JOURNAL)
                or table.file_id in damaged
            )
            and not (self._busy and table.targets)
            and table.file_id not in self._damage.unsealable
        ]
        if short:
            chosen = short[:_SEALS_AT_ONCE]
            self._sealing = frozenset(table.file_id for table, _ in chosen)
            seal = partial(self._seal_here, chosen)
            self._when_settled(self._log.submitted, partial(self._log.keep_house, seal))

    def _seal_here(self, tables: list[tuple[PlaceTable, int]]) -> None:
        """A short index is written by the housekeeper: the child would read the whole file again for it."""
        made = []
        try:
            for table, size in tables:
                sealed = seal_table(self._files.disk, self._files.folder, table, size)
                self._post(self._meters.sealed, sealed)
                made.append(open_sidecar(self._files.disk, self._files.path(places_name(table.file_id))))
        except (OSError, CorruptFile) as error:
            self._post(self._cannot_seal, failure_of(error))
        self._post(self._use_short, made)

    def _cannot_seal(self, why: Failed) -> None:
        file_id = file_id_of(why.path)
        self._wait_after("sealing files", why, {file_id})
        if why.corrupt:
            self._damage.unsealable.add(file_id)

    def _use_short(self, made: list[Sidecar]) -> None:
        self._sealing = frozenset()
        self._log.use_sidecars(made)
        self._meters.count_files(self._files.manifest)

    def _seal_long(self) -> bool:
        """One index that is for the child, which reads its file again."""
        log, damaged = self._log, self._damage.file_ids
        bad = bad_index((*log.sealed, *log.retired), damaged)
        if bad is not None:
            entry = finished_files(self._files.manifest)[bad.file_id]
            events.warning("the index of a file is damaged and made again", path=bad.path)
            self._run_seal(SealJob(self._files.folder, entry))
            return True
        for table, entry in self._unsealed():
            if (
                table.file_id not in damaged
                and not self._is_short(table, entry)
                and table.file_id not in self._sealing
            ):
                self._run_seal(SealJob(self._files.folder, entry))
                return True
        return False

    def _run_seal(self, job: SealJob) -> None:
        mark = self._log.submitted
        self._busy = True
        self._runner.start(job, lambda outcome: self._on_sealed(job, mark, outcome))

    def _start_merge(self, choice: Choice, ready: Ready) -> Slices:
        """Reads the facts in slices and starts the job, unless the disk has no room for it."""
        steps = self._options.slice_steps
        inputs = [ready[entry.file_id] for entry in choice.inputs]
        free = self._files.disk.free_bytes(self._files.folder)
        spare = free - 2 * self._files.file_bytes
        total = sum(entry.size for entry in choice.inputs)
        if total > spare:
            live = yield from count_live(inputs, self._facts.floor, steps)
            # What is left of a full disk is for merges that give back more than they take: whatever little
            # lives in files that are mostly dead must not keep them there for ever.
            frees = live <= total // 2 and live <= free // 2
            if live > max(spare, 0) and not frees:
                events.warning("no space to merge files", folder=self._files.folder, need_bytes=live)
                return
        floors: dict[int, int] = {}
        compact: dict[int, CompactOrder] = {}
        older_ids = older_than(self._files.manifest, choice)
        older = [places for places in self._log.sealed if places.file_id in older_ids]
        partitions = yield from partitions_of(inputs, steps)
        for step, partition in enumerate(partitions, 1):
            floor = self._facts.floor(partition)
            floors[partition] = DELETED if floor is None else floor
            policy = None if floor is None else self._facts.compaction(partition)
            if policy is not None:
                compact[partition] = CompactOrder(
                    stable_offset=self._facts.stable_offset(partition),
                    delete_retention_ms=policy.delete_retention_ms,
                    min_lag_ms=policy.min_lag_ms,
                    oldest=all(places.span(partition) is None for places in older),
                )
            if step % steps == 0:
                yield
        self._run_merge(choice, floors, compact)

    def _run_merge(self, choice: Choice, floors: dict[int, int], compact: dict[int, CompactOrder]) -> None:
        log, options, entries = self._log, self._options, finished_files(self._files.manifest)
        inputs = {entry.file_id for entry in choice.inputs}
        retired = {places.file_id for places in log.retired}
        # The bodies of a damaged one stay where they are, and so does it.
        outside = sorted(retired & self._damage.file_ids)
        retired.difference_update(outside)
        outside += [p.file_id for p in log.sealed if p.file_id not in inputs and isinstance(p, Sidecar)]
        unread = {p.file_id for p in (*log.sealed, *log.retired) if isinstance(p, Sidecar) and p.damaged}
        stay = frozenset(outside)
        if unread:
            # Nobody knows what the links in there name: every body keeps the address it has, too.
            stay |= inputs | retired
            outside = sorted((retired | set(outside)) - unread)
            retired = set()
        total = sum(entry.size for entry in choice.inputs)
        rows = sum(p.row_count for p in log.sealed if isinstance(p, Sidecar) and p.file_id in inputs)
        job = MergeJob(
            folder=self._files.folder,
            inputs=choice.inputs,
            retired=[entries[file_id] for file_id in sorted(retired)],
            outside=[entries[file_id] for file_id in outside],
            targets=list(self._named_bodies()),
            floors=floors,
            compact=compact,
            output_ids=self._files.new_file_ids(total // options.run_bytes + rows // options.run_rows + 4),
            now_ms=self._facts.now_ms(),
            keep_cached=log.cached.keeps(inputs),
            run_bytes=options.run_bytes,
            run_rows=options.run_rows,
            max_keys=options.max_keys,
        )
        merge = _Merge(job, choice, log.submitted, stay)
        self._busy = True
        self._turns.begin(choice, self._now_ms)
        if self._let_be.isdisjoint(inputs):
            sidecars = [p for p in log.sealed if isinstance(p, Sidecar) and p.file_id in inputs]
            self._watch = watched(sidecars, job, self._facts.floor, options.slice_steps, self._abandon)
        self._runner.start(job, lambda outcome: self._on_merged(merge, outcome))

    def _abandon(self) -> bool:
        self._given_up = self._runner.abandon()
        return self._given_up

    def _named_bodies(self) -> set[BodyId]:
        """Bodies that links in files without a sidecar name, and those that state names."""
        named = set(self._facts.bodies())
        for places in (*self._log.sealed, self._log.active_table):
            if isinstance(places, PlaceTable):
                named |= places.targets
        return named

    # --- what came of it -------------------------------------------------------------------------

    def _on_sealed(self, job: SealJob, mark: int, outcome: Outcome) -> None:
        if not isinstance(outcome, Sealed):
            self._fail(f"sealing file {job.input.file_id}", outcome, {job.input.file_id})
            return
        self._meters.sealed(outcome)
        self._when_settled(mark, lambda: self._log.keep_house(lambda: self._open_sealed(job.input.file_id)))

    def _open_sealed(self, file_id: int) -> None:
        try:
            sidecar = open_sidecar(self._files.disk, self._files.path(places_name(file_id)))
        except (OSError, CorruptFile) as error:
            what = f"opening the sidecar of file {file_id}"
            self._post(lambda why: self._fail(what, why, {file_id}), failure_of(error))
            return
        self._post(self._use_sealed, sidecar)

    def _use_sealed(self, sidecar: Sidecar) -> None:
        retired = self._log.retired
        if any(places.file_id == sidecar.file_id for places in retired):
            healed = tuple(sidecar if one.file_id == sidecar.file_id else one for one in retired)
            self._log.replace_sealed(set(), [], healed)
        else:
            self._log.use_sidecars([sidecar])
        self._done()

    def _on_merged(self, merge: _Merge, outcome: Outcome) -> None:
        self._turns.end()
        self._watch = None
        given_up, self._given_up = self._given_up, False
        if not isinstance(outcome, Merged):
            assert isinstance(outcome, Failed)
            if given_up and not outcome.corrupt:
                self._let_go(merge)
            else:
                self._give_up(merge, outcome)
            return
        facts = self._facts
        if any(facts.compaction(p) is None and facts.floor(p) is not None for p in merge.job.compact):
            # It may have been held for long: what it left out is wanted again.
            self._give_up(merge, Failed("a topic that was to be compacted no longer is"))
            return
        self._meters.merged(outcome)
        events.event(
            "files merged",
            why=merge.choice.why,
            files=len(merge.choice.inputs),
            runs=len(outcome.runs),
            read_bytes=outcome.read_bytes,
            written_bytes=outcome.written_bytes,
        )
        if outcome.unread_links:
            why, count = outcome.why_unread, outcome.unread_links
            events.warning("compaction waits for links whose bodies cannot be read", links=count, why=why)
        self._when_settled(merge.mark, lambda: self._log.keep_house(lambda: self._name_runs(merge, outcome)))

    def _let_go(self, merge: _Merge) -> None:
        self._log.keep_house(lambda: self._files.delete_unnamed(merge.job.output_ids))
        self._let_be.update(entry.file_id for entry in merge.choice.inputs)
        events.event("a merge was given up: most of it is deleted", why=merge.choice.why)
        self._busy = False

    def _give_up(self, merge: _Merge, outcome: Outcome) -> None:
        self._log.keep_house(lambda: self._files.delete_unnamed(merge.job.output_ids))
        inputs = {entry.file_id for entry in merge.choice.inputs}
        self._fail(f"merging files ({merge.choice.why})", outcome, inputs)

    def _when_settled(self, mark: int, action: Callable[[], object]) -> None:
        """A floor, or a link, counts only once it is on disk: wait for what was appended before."""
        if self._log.settled >= mark:
            action()
        else:
            self._once_settled.append((mark, action))

    def _act_on_settled(self) -> None:
        due = [action for mark, action in self._once_settled if self._log.settled >= mark]
        self._once_settled = [one for one in self._once_settled if self._log.settled < one[0]]
        for action in due:
            action()

    def _name_runs(self, merge: _Merge, outcome: Merged) -> None:
        """Runs on the housekeeper's thread. Files are opened first: from the manifest on nothing may fail."""
        try:
            new = [
                open_sidecar(self._files.disk, self._files.path(places_name(run.file_id)))
                for run in outcome.runs
            ]
            self._files.change(lambda now: swap_in(now, merge.choice, outcome.runs))
        except (OSError, CorruptFile) as error:
            # Nothing is said of the inputs: they are merged again, to other files.
            self._post(lambda why: self._give_up(merge, why), Failed(f"{type(error).__name__}: {error}"))
            return
        self._post(lambda sidecars: self._swap(merge, outcome, sidecars), new)

    def _swap(self, merge: _Merge, outcome: Merged, new: list[Sidecar]) -> None:
        log = self._log
        inputs = {entry.file_id for entry in merge.choice.inputs}
        old = tuple(places for places in log.sealed if places.file_id in inputs)
        retired = (*log.retired, *old)
        log.replace_sealed(inputs, list(new), retired)
        self._settle_retired(but=merge.stay)
        gone = {places.file_id for places in retired} - {places.file_id for places in log.retired}
        in_memory = [(run.file_id, run.size) for run in outcome.runs if merge.job.keep_cached]
        log.cached.merged(inputs, gone, in_memory)
        self._turns.came_off(merge.choice)
        self._dead.came_off(merge.choice, outcome.runs)
        self._let_be -= inputs
        self._done()

    def _settle_retired(self, *, links_on_disk: bool = False, but: Set[int] = frozenset()) -> None:
        """Drop retired files, except those with bodies that links name by an address there.

        Nor those in `but`, which the last merge did not move bodies from: links in sidecars may name them.
        """
        log = self._log
        named = self._named_bodies()
        if links_on_disk:
            try:
                for places in log.sealed:
                    if isinstance(places, Sidecar):
                        named.update(places.links)
            except CorruptFile:
                return  # that sidecar is made again first; the next merge takes care of retired files
        used = {log.reader.current(body)[0] for body in named} | but
        kept = tuple(places for places in log.retired if places.file_id in used)
        gone = {places.file_id for places in log.retired} - used | self._undropped
        log.replace_sealed(set(), [], kept)
        if gone:
            log.keep_house(lambda: self._drop(gone))

    def _drop(self, gone: set[int]) -> None:
        """On the housekeeper's thread."""
        try:
            self._files.drop(gone)
        except OSError as error:
            events.warning("files that are not needed stay for now", files=sorted(gone), why=str(error))
            self._post(self._undropped.update, gone)
        else:
            self._post(self._undropped.difference_update, gone)

    def _done(self) -> None:
        self._busy = False
        self._failures = 0
        self._meters.count_files(self._files.manifest)

    def _fail(self, what: str, outcome: Outcome, files: Set[int]) -> None:
        """Of a job that was about these files."""
        self._busy = False
        assert isinstance(outcome, Failed)
        self._wait_after(what, outcome, files)

    def _wait_after(self, what: str, outcome: Failed, files: Set[int]) -> None:
        self._failures += 1
        self._meters.failures.value += 1
        wait_ms = min(self._options.retry_ms << min(self._failures - 1, 20), self._options.max_retry_ms)
        self._not_before_ms = self._now_ms + wait_ms
        message = "upkeep failed and will be tried again"
        if not outcome.corrupt:
            events.warning(message, what=what, why=outcome.error, wait_ms=wait_ms)
            return
        in_use = (*self._log.sealed, *self._log.retired)
        left_out = sorted(self._damage.found(outcome.path, files, in_use, self._now_ms))
        for_ms = self._options.damage_wait_ms if left_out else 0
        events.error(
            message, what=what, why=outcome.error, wait_ms=wait_ms, left_out=left_out, left_out_ms=for_ms
        )
