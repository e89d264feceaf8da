"""Rules and users, changed from outside: one function per wish."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mainstem.client import codes
from mainstem.client.client import Client
from mainstem.wire.kafka.acls import (
    ANY,
    KINDS,
    OPERATIONS,
    PATTERNS,
    PERMISSIONS,
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    word,
)
from mainstem.wire.kafka.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


@dataclass(frozen=True, order=True)
class Rule:
    """One ACL, in Kafka's words in lower case."""

    kind: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str


@dataclass(frozen=True)
class RuleFilter:
    """None stands for any."""

    kind: str | None = None
    name: str | None = None
    pattern: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: str | None = None
    permission: str | None = None


def find_rules(client: Client, wanted: RuleFilter) -> list[Rule]:
    answer = client.ask(
        DescribeAclsRequest(
            _code(wanted.kind, KINDS),
            wanted.name,
            _code(wanted.pattern, PATTERNS),
            wanted.principal,
            wanted.host,
            _code(wanted.operation, OPERATIONS),
            _code(wanted.permission, PERMISSIONS),
        ),
        DescribeAclsResponse,
    )
    codes.check(answer.error_code, "rules", answer.error_message)
    return sorted(
        Rule(
            word(resource.resource_type, KINDS),
            resource.resource_name,
            word(resource.pattern_type, PATTERNS),
            acl.principal,
            acl.host,
            word(acl.operation, OPERATIONS),
            word(acl.permission_type, PERMISSIONS),
        )
        for resource in answer.resources
        for acl in resource.acls
    )


def add_rules(client: Client, rules: Sequence[Rule]) -> None:
    """All that make sense; the first that does not is raised after them."""
    wishes = [
        AclCreation(
            KINDS[rule.kind],
            rule.name,
            PATTERNS[rule.pattern],
            rule.principal,
            rule.host,
            OPERATIONS[rule.operation],
            PERMISSIONS[rule.permission],
        )
        for rule in rules
    ]
    answer = client.ask(CreateAclsRequest(wishes), CreateAclsResponse)
    for rule, result in zip(rules, answer.results, strict=True):
        codes.check(result.error_code, f"{rule.kind} {rule.name!r}", result.error_message)


def remove_rules(client: Client, rules: Sequence[Rule]) -> None:
    filters = [
        DeleteAclsFilter(
            KINDS[rule.kind],
            rule.name,
            PATTERNS[rule.pattern],
            rule.principal,
            rule.host,
            OPERATIONS[rule.operation],
            PERMISSIONS[rule.permission],
        )
        for rule in rules
    ]
    answer = client.ask(DeleteAclsRequest(filters), DeleteAclsResponse)
    for rule, result in zip(rules, answer.filter_results, strict=True):
        codes.check(result.error_code, f"{rule.kind} {rule.name!r}", result.error_message)


def list_users(client: Client) -> dict[str, dict[str, int]]:
    """Iterations by mechanism, by user."""
    answer = client.ask(DescribeUserScramCredentialsRequest(users=None), DescribeUserScramCredentialsResponse)
    codes.check(answer.error_code, "users", answer.error_message)
    return {
        one.user: {word(info.mechanism, MECHANISMS): info.iterations for info in one.credential_infos}
        for one in answer.results
    }


def set_password(
    client: Client, user: str, password: str, salts: Mapping[str, bytes], iterations: int
) -> None:
    """Let a user log in by the mechanisms that `salts` names. The password does not leave this process."""
    wishes = [
        ScramCredentialUpsertion(
            user,
            MECHANISMS[mechanism],
            iterations,
            salt,
            hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations),
        )
        for mechanism, salt in salts.items()
    ]
    _alter(client, user, AlterUserScramCredentialsRequest(upsertions=wishes))


def remove_user(client: Client, user: str, mechanisms: Sequence[str]) -> None:
    wishes = [ScramCredentialDeletion(user, MECHANISMS[mechanism]) for mechanism in mechanisms]
    _alter(client, user, AlterUserScramCredentialsRequest(deletions=wishes))


def _alter(client: Client, user: str, request: AlterUserScramCredentialsRequest) -> None:
    for result in client.ask(request, AlterUserScramCredentialsResponse).results:
        codes.check(result.error_code, f"user {user!r}", result.error_message)


def _code(wanted: str | None, known: dict[str, int]) -> int:
    return ANY if wanted is None else known[wanted]
