"""How the load's clients are set up: quick to come back, quiet while the broker is gone."""

from __future__ import annotations

import logging
from typing import Any

SETTLE_S = 30.0  # for a client to get its work done once the broker is back
# One call of the transactional API, which is repeated. Not longer: an abort that began as the broker went
# away waits for messages that librdkafka will not send any more, and takes them back only when repeated.
CALL_S = 3.0

# Clients say at length that the broker is gone. That is what we do to them.
_QUIET = logging.getLogger("mainstem.torture.clients")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False

_COMMON: dict[str, Any] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "socket.timeout.ms": 10_000,
    "topic.metadata.refresh.fast.interval.ms": 50,
    # By default librdkafka forgets a broker that is gone, and may then send a transaction's offsets to the
    # one that it forgot: send_offsets_to_transaction never returns (seen with 2.16).
    "metadata.recovery.strategy": "none",
    "log_level": 0,
    "logger": _QUIET,
}


def producer_settings(bootstrap: str, **more: Any) -> dict[str, Any]:
    return {
        **_COMMON,
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "linger.ms": 2,
        "retry.backoff.ms": 20,
        "retry.backoff.max.ms": 200,
        "delivery.timeout.ms": int(SETTLE_S * 1000),
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def consumer_settings(bootstrap: str, group: str, **more: Any) -> dict[str, Any]:
    return {
        **_COMMON,
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": 100,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
        **{key.replace("_", "."): value for key, value in more.items()},
    }
