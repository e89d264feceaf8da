"""DescribeAcls, CreateAcls, DeleteAcls: the rules of who may do what, as Kafka's tools manage them.

Where everybody may do everything (authentication is off) there are no rules to manage, and these say so
with SECURITY_DISABLED, as a Kafka without an authorizer does: a rule that is stored and not enforced would
be a lie.
"""

from __future__ import annotations

from itertools import groupby

from mainstem.broker.access import OpenAccess
from mainstem.broker.access.acls import Acl, AclFilter
from mainstem.fronts.kafka.codes import code_of
from mainstem.fronts.kafka.session import Request
from mainstem.model.errors import InvalidRequest, MainstemError, SecurityDisabled
from mainstem.model.logs import get_log
from mainstem.wire.kafka.acls import (
    ANY,
    KINDS,
    OPERATIONS,
    PATTERNS,
    PERMISSIONS,
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
    word,
)

events = get_log(__name__)


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
                resource_type=KINDS[kind],
                resource_name=name,
                pattern_type=PATTERNS[pattern],
                acls=[
                    AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=OPERATIONS[acl.operation],
                        permission_type=PERMISSIONS[acl.permission],
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
        wishes = [_acl(wish) for wish in message.creations]
        results = await request.broker.security.create_acls(wishes)
        for wish, problem in zip(wishes, results, strict=True):
            if problem is None:
                _log_change(request, "access rule made", wish)
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
        deleted = await request.broker.security.delete_acls(good)
        for acl in dict.fromkeys(acl for some in deleted for acl in some):
            _log_change(request, "access rule removed", acl)
        found = iter(deleted)
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


def _log_change(request: Request, what: str, acl: Acl) -> None:
    events.event(
        what,
        peer=request.session.peer,
        by=request.session.principal,
        permission=acl.permission,
        principal=acl.principal,
        operation=acl.operation,
        kind=acl.kind,
        name=acl.name,
        pattern=acl.pattern,
        host=acl.host,
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
        word(wish.resource_type, KINDS),
        wish.resource_name,
        word(wish.resource_pattern_type, PATTERNS),
        wish.principal,
        wish.host,
        word(wish.operation, OPERATIONS),
        word(wish.permission_type, PERMISSIONS),
    )


def _try_filter(wanted: DeleteAclsFilter) -> AclFilter | MainstemError:
    try:
        return _filter(wanted)
    except MainstemError as error:
        return error


def _filter(wanted: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        _known(wanted.resource_type_filter, KINDS, "kind of resource"),
        wanted.resource_name_filter,
        _known(wanted.pattern_type_filter, PATTERNS, "type of pattern"),
        wanted.principal_filter,
        wanted.host_filter,
        _known(wanted.operation, OPERATIONS, "operation"),
        _known(wanted.permission_type, PERMISSIONS, "permission"),
    )


def _known(code: int, codes: dict[str, int], what: str) -> str | None:
    if code == ANY:
        return None
    if code not in codes.values():
        raise InvalidRequest(f"there is no {what} {code}")
    return word(code, codes)


def _deleted(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=KINDS[acl.kind],
        resource_name=acl.name,
        pattern_type=PATTERNS[acl.pattern],
        principal=acl.principal,
        host=acl.host,
        operation=OPERATIONS[acl.operation],
        permission_type=PERMISSIONS[acl.permission],
    )
