"""What an operator can see of upkeep."""

from __future__ import annotations

from mainstem.kernel.log.jobs import Merged, Sealed
from mainstem.kernel.log.log import Log
from mainstem.kernel.log.manifest import Manifest
from mainstem.model.meters import Meters


class UpkeepMeters:
    def __init__(self, meters: Meters, log: Log) -> None:
        jobs = meters.counter("mainstem_upkeep_jobs", "Background work done: seals and merges", "kind")
        self.seals = jobs.at("seal")
        self.merges = jobs.at("merge")
        self.failures = meters.counter("mainstem_upkeep_failures", "Background work that failed").at()
        self.read_bytes = meters.counter("mainstem_merge_read_bytes", "Bytes that merges read").at()
        self.written_bytes = meters.counter("mainstem_merge_written_bytes", "Bytes that merges wrote").at()
        removed = meters.counter("mainstem_merge_removed", "What merges left out", "what")
        self.places_removed = removed.at("places")
        self.records_removed = removed.at("records")
        self._files = meters.gauge("mainstem_log_files", "Finished files of the log", "level")
        self._retired = meters.gauge("mainstem_log_retired_files", "Merged files still pointed into").at()
        self._log = log
        amplification = meters.gauge(
            "mainstem_write_amplification", "Bytes written by journal and merges per byte of journal"
        ).at()
        amplification.read = self.write_amplification

    def write_amplification(self) -> float:
        journal = self._log.bytes_written
        return (journal + self.written_bytes.value) / journal if journal else 1.0

    def sealed(self, outcome: Sealed) -> None:
        self.seals.value += 1
        self.read_bytes.value += outcome.read_bytes

    def merged(self, outcome: Merged) -> None:
        self.merges.value += 1
        self.read_bytes.value += outcome.read_bytes
        self.written_bytes.value += outcome.written_bytes
        self.places_removed.value += outcome.places_dropped
        self.records_removed.value += outcome.records_removed

    def count_files(self, manifest: Manifest) -> None:
        counts = {"0": sum(1 for entry in manifest.journals if entry.size)}
        for run in manifest.runs:
            counts[str(run.level)] = counts.get(str(run.level), 0) + 1
        for (level,) in list(self._files.members):
            if level not in counts:
                self._files.drop(level)
        for level, count in counts.items():
            self._files.at(level).value = count
        self._retired.value = len(manifest.retired)
