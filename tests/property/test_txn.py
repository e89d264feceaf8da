"""Random producers, epochs, retries, timeouts and crashes against what was really committed.

The world below is a broker in small: partitions as lists, a journal of frames, a prefix of it synced. Every
record carries the *token* of the transaction its client believed it was in; the truth is the set of tokens
whose commit frame survives. Clients behave like real ones: they write after AddPartitions was answered, and
commit after all their writes were.
"""

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mainstem.kernel.txn.coordinator import TransactionCoordinator
from mainstem.kernel.txn.decisions import Answered, Ending
from mainstem.kernel.txn.deltas import CoordinatorDelta, PartitionProducersState
from mainstem.kernel.txn.producers import PartitionProducers
from mainstem.model.errors import ConcurrentTransactions, ProducerError

PARTITIONS = range(3)
NAMES = ("a", "b")
TIMEOUT_MS = 1_000
OVERLAP_FRAMES = 6  # replayed although the snapshot holds them


def through_bytes(delta, type):
    return msgspec.msgpack.decode(msgspec.msgpack.encode(delta), type=type)


class Batch:
    """In a frame: a data batch, or a marker when `commit` is not None."""

    def __init__(self, partition, pid, epoch, offset, count=1, sequence=0, token=None, commit=None):
        self.partition, self.pid, self.epoch, self.offset = partition, pid, epoch, offset
        self.count, self.sequence, self.token, self.commit = count, sequence, token, commit


class Frame:
    def __init__(self, deltas=(), batches=(), commits=None, stage=None, ends=None):
        self.deltas, self.batches = deltas, batches
        self.commits = commits  # token that this frame commits
        self.stage = stage  # (producer id, group, token)
        self.ends = ends  # (producer id, commit, groups)


class Client:
    def __init__(self, name, version_2, pid, epoch):
        self.name, self.version_2, self.pid, self.epoch = name, version_2, pid, epoch
        self.sequences = {}
        self.added = set()
        self.token = None
        self.joined = False  # something of this transaction was accepted: a client ends nothing else
        self.last_batch = None  # (partition, epoch, sequence, count, offset)
        self.last_end = None  # (pid, epoch, commit, token)
        self.sound = True  # nothing that a real client would notice has gone wrong
        self.unacked = False

    def moved_to(self, pid, epoch):
        if (pid, epoch) != (self.pid, self.epoch):
            self.sequences = {}
        self.pid, self.epoch = pid, epoch
        self.token, self.added, self.joined = None, set(), False


class Transactions(RuleBasedStateMachine):
    @initialize(versions=st.tuples(st.booleans(), st.booleans()))
    def start(self, versions):
        self.frames, self.synced, self.unsynced = [], 0, []
        self.snapshot = (0, [], [])
        self.clients, self.current = [], {}
        self.now_ms, self.tokens = 0, 0
        self.given = set()  # producer ids without a transactional id
        self.rebuild()
        for name, version_2 in zip(NAMES, versions, strict=True):
            self.start_instance(name, version_2)

    def rebuild(self):
        """What a start of the broker does: the snapshot, then the journal from a little before it."""
        position, core, producers = self.snapshot
        self.core = TransactionCoordinator()
        self.producers = [PartitionProducers() for _ in PARTITIONS]
        for delta in core:
            self.core.apply(through_bytes(delta, CoordinatorDelta))
        for delta in producers:
            self.producers[delta.partition_id].apply(through_bytes(delta, PartitionProducersState))
        for frame in self.frames[max(0, position - OVERLAP_FRAMES) :]:
            for delta in frame.deltas:
                self.core.apply(through_bytes(delta, CoordinatorDelta))
            for batch in frame.batches:
                self.place(batch)
        self.ends = [0 for _ in PARTITIONS]
        for batch in self.batches(len(self.frames)):
            self.ends[batch.partition] = batch.offset + batch.count
        assert self.without_times(self.producers) == self.without_times(self.replayed_from_the_start())

    def replayed_from_the_start(self):
        producers = [PartitionProducers() for _ in PARTITIONS]
        for batch in self.batches(len(self.frames)):
            self.place(batch, producers)
        return producers

    def without_times(self, producers):
        """Replay stamps producers with the time of the start, so that is the one thing that may differ."""
        return [
            (
                d.partition_id,
                d.end_offset,
                [(*p[:4], p[5]) for p in d.producers],
                d.open_transactions,
                d.aborted,
            )
            for partition in PARTITIONS
            for d in producers[partition].dump(partition)
        ]

    def place(self, batch, producers=None):
        state = (producers or self.producers)[batch.partition]
        if batch.commit is None:
            state.appended(
                batch.pid, batch.epoch, batch.sequence, batch.count, batch.offset, True, self.now_ms
            )
        else:
            state.ended(batch.pid, batch.epoch, batch.commit, batch.offset, self.now_ms)

    def batches(self, up_to):
        return [batch for frame in self.frames[:up_to] for batch in frame.batches]

    # --- the broker ------------------------------------------------------------------------------

    def submit(self, frame, decision=None):
        self.frames.append(frame)
        for batch in frame.batches:
            self.ends[batch.partition] += batch.count
            self.place(batch)
        if decision is not None:
            self.core.submitted(decision)
            self.unsynced.append(decision)

    def submit_ending(self, ending, token=None):
        markers = [
            Batch(p, ending.producer_id, ending.marker_epoch, self.ends[p], commit=ending.commit)
            for p in ending.partitions
        ]
        end = (ending.producer_id, ending.commit, ending.groups)
        self.submit(Frame(ending.deltas, markers, commits=token, ends=end), ending)
        for p in ending.partitions:
            assert self.producers[p].epoch_of(ending.producer_id) == ending.marker_epoch

    @rule()
    def sync(self):
        self.synced = len(self.frames)
        for decision in self.unsynced:
            self.core.synced(decision)
        self.unsynced = []
        for client in self.clients:
            client.unacked = False

    @rule()
    def take_snapshot(self):
        self.sync()
        dumps = [delta for p in PARTITIONS for delta in self.producers[p].dump(p)]
        self.snapshot = (len(self.frames), list(self.core.dump()), dumps)

    @rule(kept=st.integers(0, 3))
    def crash(self, kept):
        del self.frames[self.synced + kept :]
        self.synced = len(self.frames)
        self.unsynced = []
        for client in self.clients:
            client.sound = client.sound and not client.unacked
        self.rebuild()

    @rule(now=st.sampled_from((True, False, False)))
    def time_passes(self, now):
        if now:
            self.let_all_time_out()

    def let_all_time_out(self):
        self.now_ms += TIMEOUT_MS + 1
        for ending in self.core.expired(self.now_ms):
            self.submit_ending(ending)
            self.current[ending.transactional_id].sound = False

    # --- the clients -----------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), version_2=st.booleans())
    def a_new_instance_starts_where_the_old_one_failed(self, name, version_2):
        if not self.current[name].sound:
            self.start_instance(name, version_2)

    @rule(name=st.sampled_from(NAMES), version_2=st.booleans(), now=st.sampled_from((True, *[False] * 5)))
    def a_new_instance_starts(self, name, version_2, now):
        if now:  # rarely: each one fences another, and with too many of them nobody gets anything done
            self.start_instance(name, version_2)

    def start_instance(self, name, version_2):
        self.sync()
        decision = self.core.init_producer_id(name, TIMEOUT_MS, -1, -1, self.now_ms)
        if isinstance(decision, Ending):
            self.submit_ending(decision)
            self.sync()
            decision = self.core.init_producer_id(name, TIMEOUT_MS, -1, -1, self.now_ms)
        self.submit(Frame(decision.deltas), decision)
        self.sync()
        assert all(decision.producer_id != c.pid or c.name == name for c in self.clients)
        if name in self.current:
            self.current[name].sound = False
        self.current[name] = client = Client(name, version_2, decision.producer_id, decision.epoch)
        self.clients.append(client)

    @rule()
    def a_plain_producer_starts(self):
        decision = self.core.init_producer_id(None, 0, -1, -1, self.now_ms)
        self.submit(Frame(decision.deltas), decision)
        self.sync()
        assert decision.producer_id not in self.given
        assert all(decision.producer_id != client.pid for client in self.clients)
        self.given.add(decision.producer_id)

    def pick(self, index):
        """Mostly an instance that is in office, sometimes any that ever was."""
        return self.current[NAMES[index % 2]] if index < 7 else self.clients[index % len(self.clients)]

    def is_fenced(self, client):
        return self.current[client.name] is not client

    def begin(self, client):
        if client.token is None:
            self.tokens += 1
            client.token = self.tokens

    @rule(index=st.integers(0, 9), partition=st.sampled_from(PARTITIONS), count=st.integers(1, 3))
    def a_client_writes(self, index, partition, count):
        client = self.pick(index)
        self.begin(client)
        sequence = client.sequences.get(partition, 0)
        try:
            self.join(client, partition)
            offset = self.write(client, partition, client.epoch, sequence, count)
        except ConcurrentTransactions:
            assert self.unsynced
            return
        except ProducerError:
            assert not client.sound
            return
        assert not self.is_fenced(client), "a fenced write was accepted"
        client.sequences[partition] = sequence + count
        client.last_batch = (partition, client.epoch, sequence, count, offset)
        client.joined = client.unacked = True

    def join(self, client, partition):
        """A version 1 client announces the partition and waits for the answer."""
        if client.version_2 or partition in client.added:
            return
        added = self.core.add_partitions(client.name, client.pid, client.epoch, [partition], self.now_ms)
        if added.deltas:
            self.submit(Frame(added.deltas), added)
            self.sync()
        client.added.add(partition)

    def write(self, client, partition, epoch, sequence, count):
        state = self.producers[partition]
        v2 = client.version_2
        old = state.check(client.pid, epoch, sequence, count, True, self.now_ms, must_start_at_zero=v2)
        if old is not None:
            return old
        if not state.is_open(client.pid) and v2:
            added = self.core.ensure_partition(client.name, client.pid, epoch, partition, self.now_ms)
            if added.deltas:
                self.submit(Frame(added.deltas), added)
        elif not state.is_open(client.pid):
            self.core.check_produce(client.name, client.pid, epoch, partition, True)
        offset = self.ends[partition]
        batch = Batch(partition, client.pid, epoch, offset, count, sequence, client.token)
        self.submit(Frame(batches=[batch]))
        return offset

    @precondition(lambda self: any(c.last_batch for c in self.clients))
    @rule(index=st.integers(0, 9))
    def a_client_sends_its_last_batch_again(self, index):
        client = self.pick(index)
        if client.last_batch is None:
            return
        partition, epoch, sequence, count, offset = client.last_batch
        before = self.ends[partition]
        try:
            again = self.write(client, partition, epoch, sequence, count)
        except ProducerError:
            assert not client.sound or epoch != client.epoch
            return
        assert not self.is_fenced(client) or self.ends[partition] == before
        if client.sound:
            assert (again, self.ends[partition]) == (offset, before)

    @rule(index=st.integers(0, 9), group=st.sampled_from(("g", "h")))
    def a_client_commits_offsets_in_its_transaction(self, index, group):
        client = self.pick(index)
        self.begin(client)
        try:
            added = self.core.ensure_group(client.name, client.pid, client.epoch, group, self.now_ms)
        except ConcurrentTransactions:
            return
        except ProducerError:
            assert not client.sound
            return
        assert not self.is_fenced(client)
        if added.deltas:
            self.submit(Frame(added.deltas), added)
        self.submit(Frame(stage=(client.pid, group, client.token)))
        client.joined = client.unacked = True

    @precondition(lambda self: any(c.joined for c in self.clients))
    @rule(index=st.integers(0, 9), commit=st.booleans())
    def a_client_ends_its_transaction(self, index, commit):
        client = self.pick(index)
        if not client.joined:
            return
        self.sync()
        self.end(client, client.pid, client.epoch, commit and client.sound, client.token)

    @precondition(lambda self: any(c.last_end for c in self.clients))
    @rule(index=st.integers(0, 9))
    def a_client_ends_its_last_transaction_again(self, index):
        """As after a lost answer: nothing was begun since."""
        client = self.pick(index)
        if client.last_end is not None and not client.joined:
            self.end(client, *client.last_end)

    def end(self, client, pid, epoch, commit, token):
        try:
            decision = self.core.end_txn(client.name, pid, epoch, commit, client.version_2, self.now_ms)
        except ConcurrentTransactions:
            assert self.unsynced
            return
        except ProducerError:
            assert not client.sound or client.last_end is not None or not self.wrote(token)
            client.sound = False
            return
        client.last_end = (pid, epoch, commit, token)
        if isinstance(decision, Answered):
            if commit:
                assert token in self.committed(self.synced)
            client.moved_to(decision.producer_id, decision.epoch)
            return
        assert not self.is_fenced(client)
        self.submit_ending(decision, token if commit else None)
        client.moved_to(decision.next_producer_id, decision.next_epoch)
        client.unacked = True

    def wrote(self, token):
        return any(batch.token == token for batch in self.batches(len(self.frames)))

    # --- the truth -------------------------------------------------------------------------------

    def committed(self, up_to):
        return {frame.commits for frame in self.frames[:up_to] if frame.commits is not None}

    def read_committed(self, partition, high_watermark):
        """What a read_committed consumer shows: it knows only the stable offset and the aborted list."""
        state = self.producers[partition]
        stable = state.last_stable_offset(high_watermark)
        waiting = state.aborted_between(0, stable)
        skipping, seen = set(), []
        for batch in (b for b in self.batches(self.synced) if b.partition == partition and b.offset < stable):
            while waiting and waiting[0][1] <= batch.offset:
                skipping.add(waiting.pop(0)[0])
            if batch.commit is False:
                skipping.discard(batch.pid)
            elif batch.commit is None and batch.pid not in skipping:
                seen.append((batch.offset, batch.token))
        return stable, seen

    def high_watermarks(self):
        marks = [0 for _ in PARTITIONS]
        for batch in self.batches(self.synced):
            marks[batch.partition] = batch.offset + batch.count
        return marks

    @invariant()
    def readers_see_exactly_what_was_committed(self):
        if not hasattr(self, "frames"):
            return
        committed = self.committed(self.synced)
        for partition, high_watermark in enumerate(self.high_watermarks()):
            stable, seen = self.read_committed(partition, high_watermark)
            data = [b for b in self.batches(self.synced) if b.partition == partition and b.commit is None]
            assert seen == [(b.offset, b.token) for b in data if b.offset < stable and b.token in committed]
            for pid, first in self.producers[partition].open_transactions().items():
                assert stable <= first
                assert self.core.covers(pid, partition), "nobody will ever end this"

    def teardown(self):
        """In the end every transaction ends, and then everything committed is visible, nothing else."""
        if not hasattr(self, "frames"):
            return
        self.sync()
        self.let_all_time_out()
        self.sync()
        committed = self.committed(self.synced)
        for partition, high_watermark in enumerate(self.high_watermarks()):
            stable, seen = self.read_committed(partition, high_watermark)
            assert stable == high_watermark
            batches = [b for b in self.batches(self.synced) if b.partition == partition]
            assert seen == [(b.offset, b.token) for b in batches if b.token in committed]
        self.check_offsets(committed)

    def check_offsets(self, committed):
        """Staged offsets follow their transaction: applied exactly with the token that staged them."""
        staged, by_effects, by_truth = {}, {}, {}
        stages = {}
        for frame in self.frames:
            if frame.stage is not None:
                pid, group, token = frame.stage
                staged.setdefault(pid, {})[group] = token
                stages.setdefault(token, {})[group] = token
            if frame.ends is not None:
                pid, commit, groups = frame.ends
                offsets = staged.pop(pid, {})
                assert set(offsets) <= set(groups)
                by_effects.update(offsets if commit else {})
            if frame.commits is not None:
                by_truth.update(stages.get(frame.commits, {}))
        assert by_effects == by_truth


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=300, stateful_step_count=60, deadline=None)
