"""Access control lists.

Resource types: 1 any, 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user. Pattern
types: 1 any, 2 match, 3 literal, 4 prefixed. Permissions: 1 any, 2 deny, 3 allow. Operations: 1 any, 2 all,
3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster action, 10 describe configs, 11 alter
configs, 12 idempotent write, 13 create tokens, 14 describe tokens, 15 two-phase commit.
"""

from __future__ import annotations

from mainstem.wire.kafka.schema import INT8, INT16, INT32, STRING, Message, array, wire


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
