"""The configs of a group, as they are shown and changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mainstem.broker.admin import DELETE, SET
from mainstem.broker.configs import Entry, Source, Synonym
from mainstem.broker.options import BrokerOptions
from mainstem.broker.shares.settings import GROUP_CONFIGS, GroupConfig, check_group_config
from mainstem.model.errors import InvalidConfig, InvalidGroupId, InvalidRequest

MAX_ID_LENGTH = 4096


def group_entries(options: BrokerOptions, own: Mapping[str, str]) -> list[Entry]:
    """Every config of a group that has these of its own."""
    return [_entry(options, own, config) for config in GROUP_CONFIGS.values()]


def _entry(options: BrokerOptions, own: Mapping[str, str], config: GroupConfig) -> Entry:
    usual = getattr(BrokerOptions(options.folder), config.field)
    value = getattr(options, config.field)
    source = Source.DEFAULT if value == usual else Source.SETTING
    synonyms: tuple[Synonym, ...] = (Synonym(config.broker_name, str(value), source),)
    if config.name in own:
        synonyms = (Synonym(config.name, own[config.name], Source.GROUP), *synonyms)
    return Entry(config.name, synonyms[0].value, config.kind, config.doc, False, synonyms)


def changed_group_configs(
    group: str, own: Mapping[str, str], changes: Iterable[tuple[str, int, str | None]]
) -> dict[str, str]:
    """A group's own configs after changes (name, operation, value)."""
    if not group or len(group) > MAX_ID_LENGTH:
        raise InvalidGroupId(f"a group id has 1 to {MAX_ID_LENGTH} characters")
    configs = dict(own)
    for name, operation, value in changes:
        if operation == DELETE:
            if name not in GROUP_CONFIGS:
                check_group_config(name, "")
            configs.pop(name, None)
        elif operation != SET:
            raise InvalidRequest(f"operation {operation} on config {name[:100]}, which is not a list")
        elif value is None:
            raise InvalidConfig(f"Null value not supported for group configs: {name[:100]}")
        else:
            check_group_config(name, value)
            configs[name] = value
    return configs
