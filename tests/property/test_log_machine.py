"""Anything that can be done to a log, in any order, against the model: a list of what was appended."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mainstem.kernel.log import direct, stage
from mainstem.kernel.log.log import LogOptions
from mainstem.testing.log_model import EVERYTHING, ModelledLog
from mainstem.testing.memory_disk import MemoryDisk

FOLDER = "/data"
PARTITIONS = st.integers(0, 6)
SIZES = st.sampled_from([0, 10, 300, 1200, 5000])


class LogMachine(RuleBasedStateMachine):
    @initialize(
        file_bytes=st.sampled_from([2048, 4096, 16384, 65536]),
        file_frames=st.sampled_from([4, 20, 1000]),
        least_staged=st.sampled_from([None, 1, 500]),
    )
    def start(self, file_bytes, file_frames, least_staged):
        """With `least_staged`, rounds go past the page cache, and batches of that size are copied at once."""
        self.small = pytest.MonkeyPatch()
        if least_staged:
            self.small.setattr(direct, "LEAST_BYTES", 1)
            self.small.setattr(stage, "LEAST_BATCH_BYTES", least_staged)
        self.options = LogOptions(
            file_bytes=file_bytes,
            file_frames=file_frames,
            reserve_bytes=512,
            cached_bytes=0 if least_staged else 512 << 20,
        )
        self.disk = MemoryDisk(FOLDER)
        self.log = ModelledLog(self.disk, FOLDER, self.options)

    # --- appends -------------------------------------------------------------------------------

    @rule(partition=PARTITIONS, records=st.integers(1, 4), size=SIZES, producer=st.sampled_from([-1, 77]))
    def batch(self, partition, records, size, producer):
        self.log.append_batch(partition, records, size, producer)

    @rule(section=st.integers(1, 5), payload=st.binary(max_size=600))
    def delta(self, section, payload):
        self.log.append_delta(section, payload)

    @rule(partitions=st.lists(PARTITIONS, max_size=4), payload=st.binary(max_size=20))
    def atomic(self, partitions, payload):
        self.log.append_atomic(partitions, payload)

    @rule(partitions=st.lists(PARTITIONS, min_size=1, max_size=4), records=st.integers(1, 4))
    def fan_out(self, partitions, records):
        self.log.append_fan_out(partitions, records)

    @rule(data=st.data(), partition=PARTITIONS, overlay=st.booleans())
    def link(self, data, partition, overlay):
        known = [n for n, unit in enumerate(self.log.model.units) if unit.body and unit.address != (0, 0)]
        if known:
            number = data.draw(st.sampled_from(known))
            count = int.from_bytes(self.log.model.units[number].body[57:61], "big")
            first = data.draw(st.integers(0, count - 1))
            records = data.draw(st.integers(1, count - first))
            headers = (("why", b"expired"), ("none", None)) if overlay else ()
            self.log.append_link(number, partition, first, records, headers)

    # --- what happens to it --------------------------------------------------------------------

    @rule()
    def write(self):
        self.log.log.run_pending()
        assert self.log.model.acked == len(self.log.model.units)

    @rule()
    def keep_house(self):
        self.log.log.prepare()
        self.log.hand.housekeeper.run()

    @rule()
    def finish_file(self):
        self.log.log.finish_file()

    @rule()
    def snapshot(self):
        self.log.snapshot()

    @rule()
    def clean_restart(self):
        self.log.hand.close()
        assert self.log.model.acked == len(self.log.model.units)
        self._reopen(self.disk.after_kill())

    @rule()
    def kill(self):
        self._reopen(self.disk.after_kill())

    @rule(seed=st.integers(0, 1000))
    def cut_power(self, seed):
        chance = random.Random(seed)
        kept = [op for op in self.disk.pending if chance.random() < 0.5]
        self._reopen(self.disk.after_power_cut(kept))

    def _reopen(self, disk):
        self.disk = disk
        self.log = ModelledLog(disk, FOLDER, self.options, self.log.model)

    def teardown(self):
        self.small.undo()

    # --- what must hold ------------------------------------------------------------------------

    @invariant()
    def reads_as_the_model_says(self):
        if hasattr(self, "log"):
            assert not self.log.hand.failures
            self.log.check_reads()

    @precondition(lambda self: self.log.model.acked)
    @rule(data=st.data(), partition=PARTITIONS, max_bytes=st.integers(1, 3000))
    def read_a_part(self, data, partition, max_bytes):
        batches = self.log.model.reads(self.log.model.acked).get(partition, [])
        if batches:
            ends = [int.from_bytes(b[:8], "big") + int.from_bytes(b[23:27], "big") for b in batches]
            offset = data.draw(st.integers(0, ends[-1] + 1))
            expected = [batch for batch, end in zip(batches, ends, strict=True) if end >= offset]
            found = self.log.log.read(partition, offset, max_bytes, EVERYTHING, wait=True)
            assert [bytes(batch) for batch in found] == expected[: len(found)]
            assert bool(found) == bool(expected)


LogMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
test_the_log_behaves_like_a_list = pytest.mark.timeout(120)(LogMachine.TestCase)
