"""Access control lists, and the numbers of their words. In a filter, 1 stands for any."""

from __future__ import annotations

from mainstem.wire.kafka.schema import INT8, INT16, INT32, STRING, Message, array, wire

ANY = 1
KINDS = {
    "topic": 2,
    "group": 3,
    "cluster": 4,
    "transactional_id": 5,
    "delegation_token": 6,
    "user": 7,
}
PATTERNS = {"match": 2, "literal": 3, "prefixed": 4}
PERMISSIONS = {"deny": 2, "allow": 3}
OPERATIONS = {
    "all": 2,
    "read": 3,
    "write": 4,
    "create": 5,
    "delete": 6,
    "alter": 7,
    "describe": 8,
    "cluster_action": 9,
    "describe_configs": 10,
    "alter_configs": 11,
    "idempotent_write": 12,
    "create_tokens": 13,
    "describe_tokens": 14,
    "two_phase_commit": 15,
}


def word(code: int, codes: dict[str, int]) -> str:
    """A number that stands for nothing becomes a word that nothing accepts."""
    return next((word for word, known in codes.items() if known == code), f"number {code}")


class DescribeAclsRequest(Message, flexible_since=2):
    resource_type_filter: int = wire(INT8)
    resource_name_filter: str | None = wire(STRING, nullable=0)
    pattern_type_filter: int = wire(INT8, since=1, default=3)
    principal_filter: str | None = wire(STRING, nullable=0)
    host_filter: str | None = wire(STRING, nullable=0)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


class AclDescription(Message):
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


class DescribeAclsResource(Message):
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    pattern_type: int = wire(INT8, since=1, default=3)
    acls: list[AclDescription] = wire(array(AclDescription))


class DescribeAclsResponse(Message, flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    resources: list[DescribeAclsResource] = wire(array(DescribeAclsResource))


class AclCreation(Message):
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    resource_pattern_type: int = wire(INT8, since=1, default=3)
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


class CreateAclsRequest(Message, flexible_since=2):
    creations: list[AclCreation] = wire(array(AclCreation))


class AclCreationResult(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)


class CreateAclsResponse(Message, flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    results: list[AclCreationResult] = wire(array(AclCreationResult))


class DeleteAclsFilter(Message):
    resource_type_filter: int = wire(INT8)
    resource_name_filter: str | None = wire(STRING, nullable=0)
    pattern_type_filter: int = wire(INT8, since=1, default=3)
    principal_filter: str | None = wire(STRING, nullable=0)
    host_filter: str | None = wire(STRING, nullable=0)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


class DeleteAclsRequest(Message, flexible_since=2):
    filters: list[DeleteAclsFilter] = wire(array(DeleteAclsFilter))


class DeleteAclsMatchingAcl(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    pattern_type: int = wire(INT8, since=1, default=3)
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


class DeleteAclsFilterResult(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    matching_acls: list[DeleteAclsMatchingAcl] = wire(array(DeleteAclsMatchingAcl))


class DeleteAclsResponse(Message, flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    filter_results: list[DeleteAclsFilterResult] = wire(array(DeleteAclsFilterResult))
