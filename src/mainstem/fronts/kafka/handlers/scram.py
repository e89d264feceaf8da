"""DescribeUserScramCredentials and AlterUserScramCredentials: users and how they log in.

A password never comes here: the client salts it, and of what it sends only what checks a login is kept.
Who came with a hash of RabbitMQ's has no mechanism of these, and is listed with none.
"""

from __future__ import annotations

from mainstem.broker.access.book import CredentialRemoved, CredentialSet, HashedRemoved
from mainstem.broker.access.scram import Mechanism
from mainstem.broker.access.security import Security
from mainstem.fronts.kafka.codes import code_of
from mainstem.fronts.kafka.session import Request
from mainstem.model.errors import DuplicateResource, MainstemError, ResourceNotFound, UnsupportedMechanism
from mainstem.model.logs import get_log
from mainstem.wire.kafka.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

events = get_log(__name__)

Wish = ScramCredentialDeletion | ScramCredentialUpsertion


async def describe(
    request: Request, message: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    try:
        request.session.require("describe", "cluster", "kafka-cluster")
    except MainstemError as error:
        return DescribeUserScramCredentialsResponse(error_code=code_of(error), error_message=str(error))
    names = [user.name for user in message.users or ()] or request.broker.access.names()
    twice = {name for name in names if names.count(name) > 1} if message.users else set()
    return DescribeUserScramCredentialsResponse(
        results=[_described(request, name, name in twice) for name in dict.fromkeys(names)]
    )


def _described(request: Request, name: str, twice: bool) -> DescribeUserScramCredentialsResult:
    access = request.broker.access
    held = access.users.get(name, {} if name in access.hashed else None)
    problem: MainstemError | None = None
    if twice:
        problem = DuplicateResource(f"user {name!r} is named twice in one request")
    elif held is None:
        problem = ResourceNotFound(f"there is no user {name!r}")
    if problem is not None or held is None:
        return DescribeUserScramCredentialsResult(
            user=name, error_code=code_of(problem or ResourceNotFound()), error_message=str(problem)
        )
    infos = [CredentialInfo(mechanism=int(m), iterations=one.iterations) for m, one in sorted(held.items())]
    return DescribeUserScramCredentialsResult(user=name, credential_infos=infos)


async def alter(
    request: Request, message: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """All changes of a user or none of them; users do not keep each other from theirs."""
    security = request.broker.security
    wishes: dict[str, list[Wish]] = {}
    asked: list[Wish] = [*message.deletions, *message.upsertions]
    for wish in asked:
        wishes.setdefault(wish.name, []).append(wish)
    problems: dict[str, MainstemError] = {}
    planned: list[CredentialSet | CredentialRemoved | HashedRemoved] = []
    for user, changes in wishes.items():
        try:
            request.session.require("alter", "cluster", "kafka-cluster")
            _check(user, changes)
            planned += [_planned(security, wish) for wish in changes]
        except MainstemError as error:
            problems[user] = error
    await security.change_credentials(planned)
    for wish in asked:
        if wish.name not in problems:
            _log_change(request, wish)
    return AlterUserScramCredentialsResponse(results=[_altered(user, problems.get(user)) for user in wishes])


def _log_change(request: Request, wish: Wish) -> None:
    removed = isinstance(wish, ScramCredentialDeletion)
    events.event(
        "user's credential removed" if removed else "user's credential set",
        peer=request.session.peer,
        principal=request.session.principal,
        user=wish.name,
        mechanism=Mechanism(wish.mechanism).label,
    )


def _check(user: str, changes: list[Wish]) -> None:
    codes = [wish.mechanism for wish in changes]
    if len(set(codes)) != len(codes):
        raise DuplicateResource(f"a credential of user {user!r} is changed twice in one request")
    if not set(codes) <= set(Mechanism):
        raise UnsupportedMechanism("there is SCRAM-SHA-256 (1) and SCRAM-SHA-512 (2)")


def _planned(security: Security, wish: Wish) -> CredentialSet | CredentialRemoved | HashedRemoved:
    mechanism = Mechanism(wish.mechanism)
    if isinstance(wish, ScramCredentialDeletion):
        return security.plan_removal(wish.name, mechanism)
    return security.plan_credential(wish.name, mechanism, wish.salt, wish.iterations, wish.salted_password)


def _altered(user: str, problem: MainstemError | None) -> AlterUserScramCredentialsResult:
    if problem is None:
        return AlterUserScramCredentialsResult(user=user)
    return AlterUserScramCredentialsResult(user=user, error_code=code_of(problem), error_message=str(problem))
