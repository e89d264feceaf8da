"""What a broker needs to know; the program fills it from its settings, tests from defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mainstem.kernel.log.log import LogOptions

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    folder: str
    node_id: int = 1
    cluster_id: str = ""  # empty: the log's own id
    log: LogOptions = field(default_factory=LogOptions)
    topic_defaults: Mapping[str, str] = field(default_factory=dict)  # by Kafka's config names
    auto_create: bool = True
    default_partitions: int = 1
    max_partitions: int = 100_000
    producer_expiry_ms: int = DAY_MS
    max_transaction_timeout_ms: int = 900_000
    transactional_id_expiry_ms: int = 7 * DAY_MS
    group_initial_delay_ms: int = 3000
    group_min_session_ms: int = 6000
    group_max_session_ms: int = 1_800_000
    group_max_size: int = 1_000_000
    group_subscription_bytes: int = 128 << 20  # in one consumer or share group, not a classic one
    group_total_subscription_bytes: int = 512 << 20  # in all of them
    group_consumer_session_ms: int = 45_000
    group_consumer_heartbeat_ms: int = 5000
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_share_session_ms: int = 45_000
    group_share_heartbeat_ms: int = 5000
    group_share_lock_ms: int = 30_000
    group_share_delivery_limit: int = 5
    group_share_max_locks: int = 2000
    group_share_reset: str = "latest"
    group_share_isolation: str = "read_uncommitted"
    offsets_retention_ms: int = 7 * DAY_MS
    offset_metadata_max_bytes: int = 4096
    retention_check_ms: int = 300_000
    reader_threads: int = 2
    snapshot_bytes: int = 256 << 20  # of journal written since the last one
    snapshot_interval_ms: int = 300_000
    file_age_ms: int = 3_600_000  # the journal file that is written is finished then
    snapshot_gap_ms: int = 30_000  # between two that are taken so that a file can be merged
    merge: bool = True
    merge_level0_files: int = 64
    merge_after_ms: int = 60_000
    merge_bytes_per_second: int = 0  # 0: as fast as the disk
    merge_dirty_ratio: float = 0.5
    snapshot_slice_ms: float = 1
