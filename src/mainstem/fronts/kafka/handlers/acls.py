"""DescribeAcls, CreateAcls, DeleteAcls: the rules of who may do what, as Kafka's tools manage them.

Where everybody may do everything (authentication is off) there are no rules to manage, and these say so
with SECURITY_DISABLED, as a Kafka without an authorizer does: a rule that is stored and not enforced would
be a lie.
"""

from __future__ import annotations

from itertools import groupby

from mainstem.broker.access import OpenAccess
from mainstem.broker.access.acls import KINDS, OPERATIONS, Acl, AclFilter
from mainstem.fronts.kafka.codes import code_of
from mainstem.fronts.kafka.session import Request
from mainstem.model.errors import InvalidRequest, MainstemError, SecurityDisabled
from mainstem.wire.kafka.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

# Kafka's numbers for the words; in a filter, 1 stands for any.
ANY = 1
KIND_CODES = {kind: code for code, kind in enumerate(KINDS, 2)}
OPERATION_CODES = {operation: code for code, operation in enumerate(OPERATIONS, 2)}
PATTERN_CODES = {"match": 2, "literal": 3, "prefixed": 4}
PERMISSION_CODES = {"deny": 2, "allow": 3}


async def describe(request: Request, message: DescribeAclsRequest) -> DescribeAclsResponse:
    try:
        _check(request, "describe")
        found = request.broker.security.find_acls(_filter(message))
    except MainstemError as error:
        return DescribeAclsResponse(error_code=code_of(error), error_message=str(error))
    resources = groupby(found, lambda acl: (acl.kind, acl.name, acl.pattern))
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResource(
                resource_type=KIND_CODES[kind],
                resource_name=name,
                pattern_type=PATTERN_CODES[pattern],
                acls=[
                    AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=OPERATION_CODES[acl.operation],
                        permission_type=PERMISSION_CODES[acl.permission],
                    )
                    for acl in acls
                ],
            )
            for (kind, name, pattern), acls in resources
        ]
    )


async def create(request: Request, message: CreateAclsRequest) -> CreateAclsResponse:
    results: list[MainstemError | None]
    try:
        _check(request, "alter")
        results = await request.broker.security.create_acls([_acl(wish) for wish in message.creations])
    except MainstemError as error:
        results = [error] * len(message.creations)
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=code_of(error), error_message=str(error))
            if error is not None
            else AclCreationResult()
            for error in results
        ]
    )


async def delete(request: Request, message: DeleteAclsRequest) -> DeleteAclsResponse:
    """Filter by filter: one that makes no sense does not keep the others from their work."""
    filters: list[AclFilter | MainstemError] = []
    try:
        _check(request, "alter")
        filters = [_try_filter(wanted) for wanted in message.filters]
        good = [wanted for wanted in filters if isinstance(wanted, AclFilter)]
        found = iter(await request.broker.security.delete_acls(good))
    except MainstemError as error:
        filters, found = [error] * len(message.filters), iter(())
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(matching_acls=[_deleted(acl) for acl in next(found)])
            if isinstance(wanted, AclFilter)
            else DeleteAclsFilterResult(error_code=code_of(wanted), error_message=str(wanted))
            for wanted in filters
        ]
    )


def _check(request: Request, operation: str) -> None:
    if isinstance(request.session.listener.access, OpenAccess):
        raise SecurityDisabled(
            "There are no access rules here: authentication is off, so everybody may do everything. "
            "Set security.authentication, or security.acl_default."
        )
    request.session.require(operation, "cluster", "kafka-cluster")


def _acl(wish: AclCreation) -> Acl:
    return Acl(
        _word(wish.resource_type, KIND_CODES),
        wish.resource_name,
        _word(wish.resource_pattern_type, PATTERN_CODES),
        wish.principal,
        wish.host,
        _word(wish.operation, OPERATION_CODES),
        _word(wish.permission_type, PERMISSION_CODES),
    )


def _try_filter(wanted: DeleteAclsFilter) -> AclFilter | MainstemError:
    try:
        return _filter(wanted)
    except MainstemError as error:
        return error


def _filter(wanted: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        _known(wanted.resource_type_filter, KIND_CODES, "kind of resource"),
        wanted.resource_name_filter,
        _known(wanted.pattern_type_filter, PATTERN_CODES, "type of pattern"),
        wanted.principal_filter,
        wanted.host_filter,
        _known(wanted.operation, OPERATION_CODES, "operation"),
        _known(wanted.permission_type, PERMISSION_CODES, "permission"),
    )


def _known(code: int, codes: dict[str, int], what: str) -> str | None:
    if code == ANY:
        return None
    if code not in codes.values():
        raise InvalidRequest(f"there is no {what} {code}")
    return _word(code, codes)


def _word(code: int, codes: dict[str, int]) -> str:
    """A number that stands for nothing becomes a word that nothing accepts."""
    return next((word for word, known in codes.items() if known == code), f"number {code}")


def _deleted(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=KIND_CODES[acl.kind],
        resource_name=acl.name,
        pattern_type=PATTERN_CODES[acl.pattern],
        principal=acl.principal,
        host=acl.host,
        operation=OPERATION_CODES[acl.operation],
        permission_type=PERMISSION_CODES[acl.permission],
    )
