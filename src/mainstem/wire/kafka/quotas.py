"""Client quotas. An entity is a set of (type, name) pairs; the name null is the default of its type.

Match types of a filter: 0 exact name, 1 the default, 2 any name.
"""

from __future__ import annotations

from mainstem.wire.kafka.schema import BOOL, FLOAT64, INT8, INT16, INT32, STRING, Message, array, wire


class ComponentData(Message):
    entity_type: str = wire(STRING)
    match_type: int = wire(INT8)
    match: str | None = wire(STRING, nullable=0)


class DescribeClientQuotasRequest(Message, flexible_since=1):
    components: list[ComponentData] = wire(array(ComponentData))
    strict: bool = wire(BOOL)


class EntityData(Message):
    entity_type: str = wire(STRING)
    entity_name: str | None = wire(STRING, nullable=0)


class ValueData(Message):
    key: str = wire(STRING)
    value: float = wire(FLOAT64)


class EntryData(Message):
    entity: list[EntityData] = wire(array(EntityData))
    values: list[ValueData] = wire(array(ValueData))


class DescribeClientQuotasResponse(Message, flexible_since=1):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0)
    entries: list[EntryData] | None = wire(array(EntryData), nullable=0)


class OpData(Message):
    key: str = wire(STRING)
    value: float = wire(FLOAT64)
    remove: bool = wire(BOOL)


class AlterClientQuotasEntryData(Message):
    entity: list[EntityData] = wire(array(EntityData))
    ops: list[OpData] = wire(array(OpData))


class AlterClientQuotasRequest(Message, flexible_since=1):
    entries: list[AlterClientQuotasEntryData] = wire(array(AlterClientQuotasEntryData))
    validate_only: bool = wire(BOOL)


class AlterClientQuotasResponseEntryData(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0)
    entity: list[EntityData] = wire(array(EntityData))


class AlterClientQuotasResponse(Message, flexible_since=1):
    throttle_time_ms: int = wire(INT32)
    entries: list[AlterClientQuotasResponseEntryData] = wire(array(AlterClientQuotasResponseEntryData))
