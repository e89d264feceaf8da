"""Every setting there is, with its default, what it may be and what it is for.

This file is the one source: the loader, `mainstem config show`, the flags of `mainstem serve` and
docs/operate/config.md are all derived from it. Units are in the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from mainstem.config.kinds import (
    BOOLEAN,
    ENDPOINTS,
    INT64_MAX,
    OPTIONAL_PATH,
    PATH,
    TEXT,
    TEXTS,
    UNLIMITED,
    Endpoint,
    Kind,
    choice,
    choices,
    duration_ms,
    integer,
    size_bytes,
)

T = TypeVar("T")

KIB, MIB = 2**10, 2**20
SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1000, 60_000, 3_600_000, 86_400_000
INT32_MAX = 2**31 - 1
# Where a protocol listens on loopback when nobody says otherwise.
USUAL_PORTS: Mapping[str, int] = {"kafka": 9092, "amqp": 5672, "http": 9640}
LISTENERS = (*USUAL_PORTS, *(f"{protocol}+tls" for protocol in USUAL_PORTS))


def setting(kind: Kind[T], default: T, help_text: str, flag: str | None = None) -> T:
    """A dataclass field that carries what the loader, the docs and `--help` need to know."""
    metadata = {"kind": kind, "help": help_text, "flag": flag}
    # Typed as the value it stands for, as dataclasses.field is.
    made: Any
    if isinstance(default, dict):
        made = field(default_factory=dict, metadata=metadata)
    else:
        made = field(default=default, metadata=metadata)
    return made  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Server:
    """The process: its data folder, where it listens, how much it lets clients take."""

    data: Path = setting(PATH, Path("mainstem-data"), "Folder that holds everything.", "--data")
    listen: Mapping[str, Endpoint] = setting(
        ENDPOINTS,
        {},
        "Where each protocol listens; port 0 is any free one, `kafka+tls` is Kafka over TLS. "
        "Empty: every protocol there is, on its usual port on loopback.",
        "--listen",
    )
    advertise: Mapping[str, Endpoint] = setting(
        ENDPOINTS,
        {},
        "Where clients are told to come back to, by listener. Empty: the address they dialled.",
        "--advertise",
    )
    ready_file: Path | None = setting(
        OPTIONAL_PATH, None, "Written as JSON once every listener accepts.", "--ready-file"
    )
    node_id: int = setting(integer(0, INT32_MAX), 1, "Broker id that Kafka clients see.")
    cluster_id: str = setting(
        TEXT, "", "Cluster id that clients see. Empty: made at first start and kept with the data."
    )
    max_connections: int = setting(integer(1), 10_000, "Connections at once, over all listeners.")
    max_connections_per_peer: int = setting(integer(1), 10_000, "Connections at once from one address.")
    max_request_bytes: int = setting(
        size_bytes(KIB, INT32_MAX), 100 * MIB, "Largest request; a larger one closes its connection."
    )
    max_preauth_request_bytes: int = setting(
        size_bytes(KIB, INT32_MAX), 64 * KIB, "Largest request before a connection has authenticated."
    )
    max_buffered_bytes: int = setting(
        size_bytes(MIB),
        128 * MIB,
        "Requests above 64 KiB, coming in or not answered, over all connections; beyond it reading pauses.",
    )
    max_response_bytes: int = setting(
        size_bytes(KIB, INT32_MAX),
        2 * MIB,
        "Most that one fetch answers, whatever it asked for; more helps consumers far away.",
    )
    idle_timeout_ms: int = setting(
        duration_ms(SECOND_MS), 10 * MINUTE_MS, "A connection silent for so long is closed."
    )
    handshake_timeout_ms: int = setting(
        duration_ms(100), 10 * SECOND_MS, "Time a new connection has to finish TLS and authentication."
    )
    drain_timeout_ms: int = setting(
        duration_ms(0), 10 * SECOND_MS, "Time that requests under way get when the broker stops."
    )


@dataclass(frozen=True)
class Topics:
    """Defaults for topics; each topic can have its own, by Kafka's topic configs."""

    auto_create: bool = setting(BOOLEAN, True, "Make a topic when a client first names it.")
    default_partitions: int = setting(integer(1, 100_000), 1, "Partitions of a topic made without a number.")
    max_partitions: int = setting(integer(1), 100_000, "Most partitions that one topic may have.")
    max_message_bytes: int = setting(
        size_bytes(0, INT32_MAX), 1_048_588, "Largest batch, as the producer sent it (max.message.bytes)."
    )
    durability: str = setting(
        choice("fsync", "os"),
        "fsync",
        "When a write is acknowledged: `fsync` once it is on disk, `os` once the operating system has it "
        "(a power cut may then take acknowledged messages).",
    )
    retention_ms: int = setting(
        duration_ms(0, unlimited=True), 7 * DAY_MS, "How long messages stay (retention.ms)."
    )
    retention_bytes: int = setting(
        size_bytes(0, unlimited=True), UNLIMITED, "How many bytes a partition keeps (retention.bytes)."
    )
    cleanup_policy: tuple[str, ...] = setting(
        choices("delete", "compact"), ("delete",), "What may go: by age and size, by key (cleanup.policy)."
    )
    delete_retention_ms: int = setting(
        duration_ms(0), DAY_MS, "How long a compacted topic keeps a tombstone (delete.retention.ms)."
    )
    min_compaction_lag_ms: int = setting(
        duration_ms(0), 0, "How long a message is safe from compaction (min.compaction.lag.ms)."
    )
    max_compaction_lag_ms: int = setting(
        duration_ms(1),
        INT64_MAX,
        "Taken and told back only (max.compaction.lag.ms): see `merge.min_dirty_ratio_percent`.",
    )
    segment_bytes: int = setting(
        size_bytes(MIB, INT32_MAX),
        1024 * MIB,
        "Told to clients as segment.bytes; files are shared by all topics, see `journal.file_bytes`.",
    )
    segment_ms: int = setting(
        duration_ms(1),
        7 * DAY_MS,
        "How soon records of compacted topics lie in a finished file, if that is sooner than "
        "`journal.file_age_ms` (segment.ms).",
    )
    message_timestamp_type: str = setting(
        choice("CreateTime", "LogAppendTime"), "CreateTime", "Whose clock counts (message.timestamp.type)."
    )
    message_timestamp_before_max_ms: int = setting(
        duration_ms(0), INT64_MAX, "How old a timestamp may be on arrival (message.timestamp.before.max.ms)."
    )
    message_timestamp_after_max_ms: int = setting(
        duration_ms(0), HOUR_MS, "How far ahead a timestamp may be (message.timestamp.after.max.ms)."
    )

    def configs(self) -> Mapping[str, str]:
        """Those that a topic can override, by Kafka's names and as its texts."""
        own = ("auto_create", "default_partitions", "max_partitions")
        values = {spec.name: getattr(self, spec.name) for spec in fields(self) if spec.name not in own}
        return {
            name.replace("_", "."): ",".join(value) if isinstance(value, tuple) else str(value)
            for name, value in values.items()
        }


@dataclass(frozen=True)
class Queues:
    """Queues and the exchanges before them."""

    max_message_bytes: int = setting(
        size_bytes(KIB, 32 * MIB), 16 * MIB, "Largest message that a client may publish to an exchange."
    )


@dataclass(frozen=True)
class Journal:
    """The one log that every append goes to."""

    file_bytes: int = setting(size_bytes(MIB, INT32_MAX), 256 * MIB, "A journal file is sealed at this size.")
    file_frames: int = setting(
        integer(1000, 100_000_000), 500_000, "A journal file is sealed at this number of frames."
    )
    file_age_ms: int = setting(
        duration_ms(10_000),
        60 * MINUTE_MS,
        "A journal file with something in it is sealed at this age: only then it is compacted and merged.",
    )
    reserve_bytes: int = setting(
        size_bytes(0), 64 * MIB, "Disk space held back so that a full disk still takes acks and deletes."
    )
    cached_bytes: int = setting(
        size_bytes(0),
        512 * MIB,
        "How much of the newest files may stay in the page cache: what consumers close behind read.",
    )
    lag_bytes: int = setting(
        size_bytes(0),
        2048 * MIB,
        "How much more of them may stay while a consumer that fell behind reads the oldest of it.",
    )
    reader_threads: int = setting(integer(1, 64), 2, "Threads for reads that must wait for the disk.")
    switch_interval_us: int = setting(
        integer(10, 100_000), 200, "How soon Python hands over to the writer thread (sys.setswitchinterval)."
    )


@dataclass(frozen=True)
class Merge:
    """The child process that sorts sealed files by partition and drops what has expired."""

    enabled: bool = setting(BOOLEAN, True, "Merge sealed files.")
    delay_ms: int = setting(
        duration_ms(0),
        MINUTE_MS,
        "How long a sealed file waits for the next ones before it is merged, if little goes in and out.",
    )
    level0_files: int = setting(
        integer(2, 256), 64, "So many sealed files are merged at once, however much is being written or read."
    )
    max_bytes_per_second: int = setting(
        size_bytes(MIB, unlimited=True), 128 * MIB, "Writing speed of a merge, so that producers come first."
    )
    retention_check_interval_ms: int = setting(
        duration_ms(100), 5 * MINUTE_MS, "How often expired messages are looked for."
    )
    min_dirty_ratio_percent: int = setting(
        integer(0, 100),
        50,
        "Share of all compacted topics together that must be new before they are compacted again. "
        "A topic's own min.cleanable.dirty.ratio is taken and told back only.",
    )


@dataclass(frozen=True)
class Snapshot:
    """State written out from time to time, so that a start reads little of the journal."""

    interval_ms: int = setting(duration_ms(SECOND_MS), 5 * MINUTE_MS, "Longest time between snapshots.")
    journal_bytes: int = setting(
        size_bytes(MIB), 256 * MIB, "Journal written since the last snapshot that calls for a new one."
    )
    slice_ms: int = setting(duration_ms(1, 1000), 1, "Longest time a snapshot holds up the event loop.")


@dataclass(frozen=True)
class Groups:
    """Consumer groups."""

    min_session_timeout_ms: int = setting(
        duration_ms(1), 6 * SECOND_MS, "Shortest session timeout a member may ask for."
    )
    max_session_timeout_ms: int = setting(
        duration_ms(1), 30 * MINUTE_MS, "Longest session timeout a member may ask for."
    )
    initial_rebalance_delay_ms: int = setting(
        duration_ms(0), 100, "How long an empty group waits for more members before it first assigns."
    )
    max_size: int = setting(integer(1, INT32_MAX), 10_000, "Most members of one group.")
    max_subscription_bytes: int = setting(
        size_bytes(MIB),
        128 * MIB,
        "Memory for what members of a group of the newer protocol, or of a share group, want and hold: "
        "about 320 bytes a partition.",
    )
    max_total_subscription_bytes: int = setting(
        size_bytes(MIB),
        512 * MIB,
        "The same for all such groups together. Groups of up to 1 MiB get in beyond it, too, while these "
        "together take no more than a quarter of it.",
    )
    max_offset_metadata_bytes: int = setting(
        size_bytes(0, MIB), 4096, "Longest note that may go with a committed offset."
    )
    offsets_retention_ms: int = setting(
        duration_ms(1), 7 * DAY_MS, "How long an empty group's offsets are remembered."
    )
    consumer_session_timeout_ms: int = setting(
        duration_ms(1), 45 * SECOND_MS, "Session timeout of members of the newer (KIP-848) protocol."
    )
    consumer_heartbeat_interval_ms: int = setting(
        duration_ms(1), 5 * SECOND_MS, "How often members of the newer protocol report."
    )
    consumer_assignors: tuple[str, ...] = setting(
        choices("uniform", "range"),
        ("uniform", "range"),
        "Assignors of the newer protocol; the first is the default.",
    )
    share_session_timeout_ms: int = setting(
        duration_ms(1), 45 * SECOND_MS, "Session timeout of members of share groups."
    )
    share_heartbeat_interval_ms: int = setting(
        duration_ms(1), 5 * SECOND_MS, "How often members of share groups report."
    )
    share_record_lock_ms: int = setting(
        duration_ms(1), 30 * SECOND_MS, "How long a member of a share group may keep a record."
    )
    share_delivery_limit: int = setting(
        integer(1, 1000), 5, "A record that a share group delivered so often in vain is given up."
    )
    share_max_record_locks: int = setting(
        integer(1, 1_000_000),
        2000,
        "Most records of a partition that a share group's members have at a time.",
    )


@dataclass(frozen=True)
class Transactions:
    """Transactional and idempotent producers."""

    max_timeout_ms: int = setting(
        duration_ms(1, INT32_MAX), 15 * MINUTE_MS, "Longest transaction timeout a producer may ask for."
    )
    id_expiration_ms: int = setting(
        duration_ms(1), 7 * DAY_MS, "A transactional id unused for so long is forgotten."
    )
    producer_id_expiration_ms: int = setting(
        duration_ms(1), DAY_MS, "A producer's sequence numbers unused for so long are forgotten."
    )


@dataclass(frozen=True)
class Security:
    """Who may connect and what they may do. Nothing listens beyond loopback until this is set up."""

    authentication: str = setting(
        choice("off", "required"),
        "off",
        "`required`: every client must log in by SASL, or by its certificate on a TLS listener.",
        "--authentication",
    )
    sasl_mechanisms: tuple[str, ...] = setting(
        choices("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"),
        "Ways to log in; PLAIN is offered beyond loopback over TLS only.",
    )
    users_file: Path | None = setting(
        OPTIONAL_PATH,
        None,
        'First users: a TOML file with a table `[users]` of `name = "password"`; '
        "more are added by Kafka's SCRAM API.",
        "--users-file",
    )
    superusers: tuple[str, ...] = setting(
        TEXTS, (), "Users that may do everything, by name (`admin`) or principal (`User:admin`)."
    )
    acl_default: str = setting(
        choice("auto", "allow", "deny"),
        "auto",
        "What holds where no ACL speaks; `auto` allows while authentication is off and denies otherwise.",
    )
    tls_cert_file: Path | None = setting(
        OPTIONAL_PATH, None, "Certificate chain (PEM) of the `+tls` listeners.", "--tls-cert"
    )
    tls_key_file: Path | None = setting(OPTIONAL_PATH, None, "Private key (PEM) of that chain.", "--tls-key")
    tls_ca_file: Path | None = setting(
        OPTIONAL_PATH, None, "Certificates (PEM) that client certificates are checked against.", "--tls-ca"
    )
    tls_client_auth: str = setting(
        choice("none", "requested", "required"), "none", "Whether TLS clients show a certificate."
    )
    http_token_file: Path | None = setting(
        OPTIONAL_PATH,
        None,
        "File with the bearer token that /metrics and admin calls need; asked for beyond loopback.",
    )


@dataclass(frozen=True)
class Log:
    """What the broker says about itself, on standard error."""

    level: str = setting(
        choice("debug", "info", "warning", "error"), "info", "Least important line shown.", "--log-level"
    )
    format: str = setting(
        choice("text", "json"), "text", "Lines for people, or one JSON object a line.", "--log-format"
    )


# Declared ahead of the code that will read them. To set one is an error, because a setting that is accepted
# and ignored is a lie, and for those of [security] a dangerous one. Whoever wires one up takes it off this
# list; a test compares the list with what the source reads.
PLANNED: frozenset[str] = frozenset()

SECTIONS: Mapping[str, type[Any]] = {
    "server": Server,
    "topics": Topics,
    "queues": Queues,
    "journal": Journal,
    "merge": Merge,
    "snapshot": Snapshot,
    "groups": Groups,
    "transactions": Transactions,
    "security": Security,
    "log": Log,
}


@dataclass(frozen=True)
class Config:
    """All settings. `origins` tells for each `section.key` where its value was set."""

    server: Server = field(default_factory=Server)
    topics: Topics = field(default_factory=Topics)
    queues: Queues = field(default_factory=Queues)
    journal: Journal = field(default_factory=Journal)
    merge: Merge = field(default_factory=Merge)
    snapshot: Snapshot = field(default_factory=Snapshot)
    groups: Groups = field(default_factory=Groups)
    transactions: Transactions = field(default_factory=Transactions)
    security: Security = field(default_factory=Security)
    log: Log = field(default_factory=Log)
    origins: Mapping[str, str] = field(default_factory=dict)

    def listeners(self) -> Mapping[str, Endpoint]:
        """Where to listen, by protocol: as asked, or everything there is on loopback."""
        usual = {name: Endpoint("127.0.0.1", port) for name, port in USUAL_PORTS.items()}
        return self.server.listen or usual
