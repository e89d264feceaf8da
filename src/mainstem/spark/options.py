"""The options of the `mainstem` data source: those of Spark's own Kafka connector, by the same names.

Spark hands options over as text, with names in any case. They are read once into frozen values, which travel
to executors. A name that nobody knows is an error with the nearest one, because a misspelt `startingOfsets`
would read other data than was asked for. Names that begin with `kafka.` and mean nothing here are let pass,
so that a job moves by changing its format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from mainstem.client.client import EARLIEST, LATEST
from mainstem.model.errors import InvalidRequest

Kind = Literal["batch", "stream"]

# Spelt as documented; compared in lower case.
NAMES = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "includeHeaders",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "isolationLevel",
    "columns",
    "pushDownFilters",
    "format",
    "schema",
    "metadata",
    "delimiter",
    "avroSchema",
    "avroFraming",
    "deadLetterTopic",
    "deadLetterSuffix",
    "badRecords",
    "topic",
    "batchId",
    "writer",
    "checkpointLocation",
    "brokerTimeoutMs",
)
# Of Spark's connector, without a meaning here: how it waits for and pools its consumers.
IGNORED = frozenset(
    {
        "groupidprefix",
        "kafkaconsumer.polltimeoutms",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "minoffsetspertrigger",
        "maxtriggerdelay",
        "path",
        "queryname",
    }
)
_BY_LOWER = {name.lower(): name for name in NAMES}
PREFIX = "kafka."
BROKER_TIMEOUT_MS = 120_000

Offsets = Mapping[str, Mapping[int, int]]  # by topic and partition


@dataclass(frozen=True, slots=True)
class Topics:
    """Which partitions are read; one of the three is set."""

    names: tuple[str, ...] = ()
    pattern: str = ""
    assigned: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading begins or ends: an offset everywhere, offsets one by one, a time, or times one by one."""

    everywhere: int | None = None  # EARLIEST or LATEST
    offsets: Offsets | None = None
    timestamp_ms: int | None = None
    timestamps_ms: Offsets | None = None
    latest_if_none: bool = False  # no record at or after that time: the end instead of an error

    @property
    def moves(self) -> bool:
        """Whether it lies elsewhere when more has come.

        The beginning moves too, when retention takes records; whether it has cannot be told, as Spark does
        not write down where a query began.
        """
        if self.offsets is not None:
            return any(at == LATEST for indexes in self.offsets.values() for at in indexes.values())
        return self.everywhere != EARLIEST


class Options:
    """Text by lower-case name, with typed look-ups that name the option when they refuse it."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        for name in self._given:
            if name in _BY_LOWER or name in IGNORED or name.startswith(PREFIX):
                continue
            near = get_close_matches(name, _BY_LOWER, n=1)
            hint = f"; did you mean {_BY_LOWER[near[0]]!r}?" if near else ""
            raise InvalidRequest(f"there is no option {name!r}{hint}")

    def text(self, name: str, default: str = "") -> str:
        return self._given.get(name.lower(), default)

    def has(self, name: str) -> bool:
        return name.lower() in self._given

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name, "true" if default else "false").strip().lower()
        if text not in ("true", "false"):
            raise InvalidRequest(f"{name} is true or false, not {text!r}")
        return text == "true"

    def number(self, name: str) -> int | None:
        if not self.has(name):
            return None
        text = self.text(name).strip()
        if not text.isdecimal() or int(text) == 0:
            raise InvalidRequest(f"{name} is a number above 0, not {text!r}")
        return int(text)

    def list(self, name: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.text(name).split(",") if part.strip())

    def json(self, name: str) -> object:
        try:
            return json.loads(self.text(name))
        except ValueError as error:
            raise InvalidRequest(f"{name} is not JSON: {error}") from None


def topics_of(options: Options) -> Topics:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if options.has(name)]
    if len(given) != 1:
        what = f"there are {' and '.join(given)}" if given else "there is none"
        raise InvalidRequest(f"give one of subscribe, subscribePattern and assign; {what}")
    if options.has("subscribePattern"):
        return Topics(pattern=options.text("subscribePattern"))
    if options.has("assign"):
        return Topics(assigned=_assigned(options.json("assign")))
    names = options.list("subscribe")
    if not names:
        raise InvalidRequest("subscribe names no topic")
    return Topics(names=names)


def _assigned(value: object) -> tuple[tuple[str, tuple[int, ...]], ...]:
    wrong = InvalidRequest('assign is written {"topic": [0, 1]}')
    if not isinstance(value, dict) or not value:
        raise wrong
    found = []
    for topic, partitions in value.items():
        if not isinstance(partitions, list) or not all(type(p) is int and p >= 0 for p in partitions):
            raise wrong
        found.append((topic, tuple(sorted(set(partitions)))))
    return tuple(sorted(found))


def starting(options: Options, kind: Kind) -> Bound:
    """Precedence as in Spark's connector: one time, then times, then offsets."""
    strategy = options.text("startingOffsetsByTimestampStrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise InvalidRequest(f"startingOffsetsByTimestampStrategy is error or latest, not {strategy!r}")
    latest_if_none = strategy == "latest"
    if options.has("startingTimestamp"):
        return Bound(timestamp_ms=_time(options, "startingTimestamp"), latest_if_none=latest_if_none)
    if options.has("startingOffsetsByTimestamp"):
        times = _offsets(options, "startingOffsetsByTimestamp", lowest=0)
        return Bound(timestamps_ms=times, latest_if_none=latest_if_none)
    text = options.text("startingOffsets", "earliest" if kind == "batch" else "latest").strip()
    if text.lower() == "earliest":
        return Bound(EARLIEST)
    if text.lower() == "latest":
        if kind == "batch":
            raise InvalidRequest("startingOffsets of a batch cannot be latest: nothing lies after it")
        return Bound(LATEST)
    return Bound(offsets=_offsets(options, "startingOffsets", lowest=EARLIEST))


def ending(options: Options) -> Bound:
    """Of a batch. A time without a record at or after it is the end."""
    if options.has("endingTimestamp"):
        return Bound(timestamp_ms=_time(options, "endingTimestamp"), latest_if_none=True)
    if options.has("endingOffsetsByTimestamp"):
        times = _offsets(options, "endingOffsetsByTimestamp", lowest=0)
        return Bound(timestamps_ms=times, latest_if_none=True)
    text = options.text("endingOffsets", "latest").strip()
    if text.lower() == "latest":
        return Bound(LATEST)
    if text.lower() == "earliest":
        raise InvalidRequest("endingOffsets cannot be earliest: nothing lies before it")
    return Bound(offsets=_offsets(options, "endingOffsets", lowest=LATEST))


def is_committed(options: Options) -> bool:
    """Whether open and aborted transactions are left out, which has to be asked for, as with Kafka."""
    level = options.text("isolationLevel", options.text("kafka.isolation.level", "read_uncommitted"))
    if level not in ("read_committed", "read_uncommitted"):
        raise InvalidRequest(f"isolationLevel is read_committed or read_uncommitted, not {level!r}")
    return level == "read_committed"


def keeps_bad(options: Options) -> bool:
    """Whether a record that cannot be read is a row of nulls, and not sent to the dead-letter topic."""
    wish = options.text("badRecords", "send").strip().lower()
    if wish not in ("send", "null"):
        raise InvalidRequest(f"badRecords is send or null, not {wish!r}")
    return wish == "null"


def _time(options: Options, name: str) -> int:
    text = options.text(name).strip()
    if not text.isdecimal():
        raise InvalidRequest(f"{name} is milliseconds since 1970, not {text!r}")
    return int(text)


def _offsets(options: Options, name: str, *, lowest: int) -> Offsets:
    wrong = InvalidRequest(
        f'{name} is written {{"topic": {{"0": 23, "1": 42}}}}, with numbers from {lowest} on'
    )
    value = options.json(name)
    if not isinstance(value, dict) or not value:
        raise wrong
    found: dict[str, dict[int, int]] = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict):
            raise wrong
        for partition, offset in partitions.items():
            if not partition.isdecimal() or type(offset) is not int or offset < lowest:
                raise wrong
            found.setdefault(topic, {})[int(partition)] = offset
    return found
