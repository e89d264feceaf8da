"""What can be set for a share group, by Kafka's names; the broker's options are the defaults."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from mainstem.broker.options import BrokerOptions
from mainstem.model.errors import InvalidConfig

DAY_MS = 86_400_000
_WHOLE_NUMBER = re.compile(r"[0-9]{1,12}")
_DURATION = re.compile(
    r"by_duration:P(?:(?P<days>\d{1,9})D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)S)?)?"
)


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """`field` is the broker's option that holds where a group has none of its own."""

    name: str
    kind: str  # as DescribeConfigs reports it
    field: str
    broker_name: str  # the option's name among the broker's configs
    doc: str
    check: Callable[[str], object]


def _number(low: int, high: int) -> Callable[[str], int]:
    def check(text: str) -> int:
        if _WHOLE_NUMBER.fullmatch(text) is None:
            raise InvalidConfig(f"{text[:40]!r} is not a whole number")
        if not low <= int(text) <= high:
            raise InvalidConfig(f"{text} is not between {low} and {high}")
        return int(text)

    return check


def _one_of(*allowed: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in allowed:
            raise InvalidConfig(f"{text[:40]!r} is none of {', '.join(allowed)}")
        return text

    return check


def age_ms(reset: str) -> int | None:
    """How old the first record to be read may be, if the reset is by age."""
    found = _DURATION.fullmatch(reset)
    if found is None or not any(found.groups()):
        return None
    days, hours, minutes = (int(found[part] or 0) for part in ("days", "hours", "minutes"))
    seconds = ((days * 24 + hours) * 60 + minutes) * 60
    return seconds * 1000 + int(float(found["seconds"] or 0) * 1000)


def _reset(text: str) -> str:
    if text not in ("earliest", "latest") and age_ms(text) is None:
        raise InvalidConfig(f"{text[:40]!r} is none of earliest, latest, by_duration:PnDTnHnMnS")
    return text


_ROWS = (
    GroupConfig(
        "share.session.timeout.ms",
        "int",
        "group_share_session_ms",
        "group.share.session.timeout.ms",
        "A member that is silent for so long is a member no more.",
        _number(45_000, 60_000),
    ),
    GroupConfig(
        "share.heartbeat.interval.ms",
        "int",
        "group_share_heartbeat_ms",
        "group.share.heartbeat.interval.ms",
        "How often members report.",
        _number(1, 15_000),
    ),
    GroupConfig(
        "share.record.lock.duration.ms",
        "int",
        "group_share_lock_ms",
        "group.share.record.lock.duration.ms",
        "How long a member may keep a record before it goes to others.",
        _number(1000, 3_600_000),
    ),
    GroupConfig(
        "share.delivery.count.limit",
        "int",
        "group_share_delivery_limit",
        "group.share.delivery.count.limit",
        "A record delivered so often in vain is given up.",
        _number(2, 10),
    ),
    GroupConfig(
        "share.partition.max.record.locks",
        "int",
        "group_share_max_locks",
        "group.share.partition.max.record.locks",
        "Most records of a partition that members have at a time.",
        _number(100, 10_000),
    ),
    GroupConfig(
        "share.auto.offset.reset",
        "string",
        "group_share_reset",
        "group.share.auto.offset.reset",
        "Where a partition is read from at first: earliest, latest, by_duration:PnDTnHnMnS.",
        _reset,
    ),
    GroupConfig(
        "share.isolation.level",
        "string",
        "group_share_isolation",
        "group.share.isolation.level",
        "read_committed leaves out open and aborted transactions.",
        _one_of("read_uncommitted", "read_committed"),
    ),
)
GROUP_CONFIGS = {row.name: row for row in _ROWS}


@dataclass(frozen=True, slots=True)
class ShareSettings:
    session_ms: int
    heartbeat_ms: int
    lock_ms: int
    delivery_limit: int
    max_locks: int
    reset: str
    committed: bool


def check_group_config(name: str, value: str) -> None:
    config = GROUP_CONFIGS.get(name)
    if config is None:
        near = get_close_matches(name, GROUP_CONFIGS, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InvalidConfig(f"Unknown group config name: {name[:100]}{hint}")
    try:
        config.check(value)
    except InvalidConfig as error:
        raise InvalidConfig(f"Invalid value for {name}: {error}") from None


def settings_of(options: BrokerOptions, own: Mapping[str, str]) -> ShareSettings:
    def number(name: str) -> int:
        return int(own.get(name, getattr(options, GROUP_CONFIGS[name].field)))

    def text(name: str) -> str:
        return str(own.get(name, getattr(options, GROUP_CONFIGS[name].field)))

    return ShareSettings(
        session_ms=number("share.session.timeout.ms"),
        heartbeat_ms=number("share.heartbeat.interval.ms"),
        lock_ms=number("share.record.lock.duration.ms"),
        delivery_limit=number("share.delivery.count.limit"),
        max_locks=number("share.partition.max.record.locks"),
        reset=text("share.auto.offset.reset"),
        committed=text("share.isolation.level") == "read_committed",
    )
