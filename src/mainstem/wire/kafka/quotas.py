"""Client quotas. An entity is a set of (type, name) pairs; the name null is the default of its type.

Match types of a filter: 0 exact name, 1 the default, 2 any name.
"""

from __future__ import annotations

from mainstem.wire.kafka.schema import BOOL, FLOAT64, INT8, INT16, INT32, STRING, Message, array, wire


class QuotaFilter(Message):
    entity_type: str = wire(STRING)
    match_type: int = wire(INT8)
    match: str | None = wire(STRING, nullable=0)


class DescribeClientQuotasRequest(Message, flexible_since=1):
    """`strict` leaves out entities with more parts than the filter names."""

    components: list[QuotaFilter] = wire(array(QuotaFilter))
    strict: bool = wire(BOOL)


class QuotaEntity(Message):
    entity_type: str = wire(STRING)
    entity_name: str | None = wire(STRING, nullable=0)


class QuotaValue(Message):
    key: str = wire(STRING)
    value: float = wire(FLOAT64)


class QuotaEntry(Message):
    entity: list[QuotaEntity] = wire(array(QuotaEntity))
    values: list[QuotaValue] = wire(array(QuotaValue))


class DescribeClientQuotasResponse(Message, flexible_since=1):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    entries: list[QuotaEntry] | None = wire(array(QuotaEntry), nullable=0)


class QuotaChange(Message):
    key: str = wire(STRING)
    value: float = wire(FLOAT64)
    remove: bool = wire(BOOL)


class QuotaAlteration(Message):
    entity: list[QuotaEntity] = wire(array(QuotaEntity))
    ops: list[QuotaChange] = wire(array(QuotaChange))


class AlterClientQuotasRequest(Message, flexible_since=1):
    entries: list[QuotaAlteration] = wire(array(QuotaAlteration))
    validate_only: bool = wire(BOOL)


class QuotaAlterationResult(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    entity: list[QuotaEntity] = wire(array(QuotaEntity))


class AlterClientQuotasResponse(Message, flexible_since=1):
    throttle_time_ms: int = wire(INT32)
    entries: list[QuotaAlterationResult] = wire(array(QuotaAlterationResult))
