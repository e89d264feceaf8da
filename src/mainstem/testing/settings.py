"""How a broker in a test differs from one in a service."""

from __future__ import annotations

from collections.abc import Mapping

# What a test wants differently: little disk, no waiting for members that never come, a quick end.
TEST_SETTINGS: Mapping[str, object] = {
    "journal.file_bytes": "16 MiB",
    "journal.reserve_bytes": "1 MiB",
    "groups.initial_rebalance_delay_ms": 0,
    "groups.min_session_timeout_ms": 100,
    "server.drain_timeout_ms": 500,
}
# Where a wrong setting is said to come from.
ORIGIN = "settings of Broker"
