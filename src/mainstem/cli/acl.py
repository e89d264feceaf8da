"""`mainstem acl`: rules of who may do what, over Kafka's own ACL APIs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from mainstem.broker.access.acls import ANY_HOST, CLUSTER_NAME, DENY, OPERATIONS, Acl, AclTable
from mainstem.broker.access.authorizer import AclAccess, principal_of
from mainstem.cli.connect import client_options, close_to
from mainstem.cli.groups import Commands, examples
from mainstem.cli.output import (
    Column,
    confirm,
    emit_record,
    emit_rows,
    json_option,
    plural,
    remark,
    yes_option,
)
from mainstem.model.errors import AccessError

if TYPE_CHECKING:
    from mainstem.client import Client
    from mainstem.client.access import Rule

WORDS = tuple(operation.replace("_", "-") for operation in OPERATIONS)
COLUMNS = [
    Column(key, key) for key in ("permission", "principal", "operation", "kind", "name", "pattern", "host")
]


class Operation(click.Choice[str]):
    """One of WORDS; a mistyped one gets a guess."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value not in self.choices:
            hint = close_to(str(value), self.choices) or f" There are: {', '.join(self.choices)}."
            self.fail(f"there is no operation {value!r}.{hint}", param, ctx)
        return super().convert(value, param, ctx)


def resource_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds a flag for each kind of resource; the command gets them as they were given."""
    for flag, text in (
        ("--transactional-id", "A transactional id."),
        ("--group", "A consumer group."),
        ("--topic", "A topic; '*' is every topic."),
    ):
        function = click.option(flag, metavar="NAME", help=text)(function)
    return click.option("--cluster", is_flag=True, help="The broker itself.")(function)


def _resource(
    topic: str | None, group: str | None, transactional_id: str | None, cluster: bool
) -> tuple[str, str] | None:
    given = {"topic": topic, "group": group, "transactional_id": transactional_id}
    named = [(kind, name) for kind, name in given.items() if name is not None]
    named += [("cluster", CLUSTER_NAME)] if cluster else []
    if len(named) > 1:
        raise click.UsageError("name one of --topic, --group, --transactional-id, --cluster")
    return named[0] if named else None


def _needed(**flags: Any) -> tuple[str, str]:
    found = _resource(**flags)
    if found is None:
        raise click.UsageError("name what it is about: --topic, --group, --transactional-id or --cluster")
    return found


@click.group(
    "acl", cls=Commands, epilog=examples("mainstem acl ls", "mainstem acl add alice read --topic orders")
)
def command() -> None:
    """Who may do what. A denial wins; superusers, set in the broker's settings, are exempt."""


@command.command(
    epilog=examples(
        "mainstem acl ls",
        "mainstem acl ls --topic orders         # every rule that speaks of it, prefixes and '*' too",
        "mainstem acl ls --principal alice --json",
    )
)
@click.option("--principal", metavar="NAME", help="Only rules of this user.")
@resource_options
@json_option
@client_options
def ls(principal: str | None, as_json: bool, client: Client, **resource: Any) -> None:
    """List rules."""
    rules = _find(client, principal, _resource(**resource))
    emit_rows(map(asdict, rules), COLUMNS, as_json=as_json, empty="No rules.")


@command.command(
    epilog=examples(
        "mainstem acl add alice read --topic orders",
        "mainstem acl add alice read write --topic shop. --prefix",
        "mainstem acl add alice read --group billing",
        "mainstem acl add alice create write read --topic /shop/ --prefix  # all in the vhost 'shop'",
        "mainstem acl add '*' all --topic secret --deny",
    )
)
@click.argument("principal")
@click.argument("operations", nargs=-1, required=True, type=Operation(WORDS), metavar="OPERATIONS...")
@resource_options
@click.option("--prefix", is_flag=True, help="The name is the beginning of the names that are meant.")
@click.option("--host", default=ANY_HOST, help="Only from this address. [every]")
@click.option("--deny", is_flag=True, help="Forbid it, whatever else allows it.")
@json_option
@client_options
def add(
    principal: str,
    operations: tuple[str, ...],
    prefix: bool,
    host: str,
    deny: bool,
    as_json: bool,
    client: Client,
    **resource: Any,
) -> None:
    """Allow PRINCIPAL (a user's name, or '*' for everybody) some OPERATIONS.

    They are all, read, write, create, delete, alter, describe, cluster-action, describe-configs,
    alter-configs, idempotent-write, create-tokens, describe-tokens, two-phase-commit.
    """
    from mainstem.client.access import Rule, add_rules

    kind, name = _needed(**resource)
    rules = [
        Rule(
            kind,
            name,
            "prefixed" if prefix else "literal",
            principal_of(principal),
            host,
            operation.replace("-", "_"),
            "deny" if deny else "allow",
        )
        for operation in operations
    ]
    add_rules(client, rules)
    emit_rows(map(asdict, rules), COLUMNS, as_json=as_json)


@command.command(
    epilog=examples(
        "mainstem acl rm --principal alice --topic orders", "mainstem acl rm --principal alice --yes"
    )
)
@click.option("--principal", metavar="NAME", help="Only rules of this user.")
@click.option("--operation", type=Operation(WORDS), help="Only rules about this.")
@resource_options
@yes_option
@json_option
@client_options
def rm(
    principal: str | None, operation: str | None, yes: bool, as_json: bool, client: Client, **resource: Any
) -> None:
    """Remove rules: those of a name as it is written in them, of a user, or both."""
    from mainstem.client.access import remove_rules

    about = _resource(**resource)
    if principal is None and about is None:
        raise click.UsageError("name what to remove: --principal, --topic, --group, ...")
    wanted = operation.replace("-", "_") if operation else None
    rules = [
        rule for rule in _find(client, principal, about, exactly=True) if wanted in (None, rule.operation)
    ]
    if not rules:
        remark("No such rules.")
        return
    if not as_json:
        emit_rows(map(asdict, rules), COLUMNS, as_json=False)
    confirm(f"remove {plural(len(rules), 'rule')}", yes=yes)
    remove_rules(client, rules)
    if as_json:
        emit_rows(map(asdict, rules), COLUMNS, as_json=True)
    else:
        remark(f"Removed {plural(len(rules), 'rule')}.")


@command.command(epilog=examples("mainstem acl check alice read --topic orders   # exit code 1 if refused"))
@click.argument("principal")
@click.argument("operation", type=Operation(WORDS[1:]), metavar="OPERATION")
@resource_options
@click.option("--host", default="127.0.0.1", help="As if from this address. [127.0.0.1]")
@json_option
@client_options
def check(principal: str, operation: str, host: str, as_json: bool, client: Client, **resource: Any) -> None:
    """Tell whether the rules allow it, and by which. Superusers are not known here."""
    kind, name = _needed(**resource)
    who, what = principal_of(principal), operation.replace("-", "_")
    table = AclTable()
    for rule in _find(client, None, (kind, name)):
        table.add(Acl(**asdict(rule)))
    allowed = AclAccess(table, allow_by_default=False).allows(who, host, what, kind, name)
    why = [
        f"{acl.permission} {acl.operation} {acl.pattern} {acl.name!r} for {acl.principal}"
        for acl in table
        if (_allows(acl, who, host, what, name) if allowed else _denies(acl, who, host, what))
    ]
    none = "no rule allows it" if list(table) else "no rule speaks of it: the broker's acl_default decides"
    emit_record(
        {
            "allowed": allowed if allowed or as_json else "no, unless it is a superuser",
            "principal": who,
            "operation": what,
            kind: name,
            "rules": "; ".join(why) or none,
        },
        as_json=as_json,
    )
    if not allowed:
        raise AccessError(f"{who} may not {what} {kind} {name!r}, unless it is a superuser")


def _allows(acl: Acl, who: str, host: str, what: str, name: str) -> bool:
    """Whether this rule would be enough."""
    alone = AclTable()
    alone.add(acl)
    return AclAccess(alone, allow_by_default=False).allows(who, host, what, acl.kind, name)


def _denies(acl: Acl, who: str, host: str, what: str) -> bool:
    return acl.permission == DENY and acl.operation in (what, "all") and acl.speaks_of(who, host)


def _find(
    client: Client, principal: str | None, about: tuple[str, str] | None, *, exactly: bool = False
) -> list[Rule]:
    from mainstem.client.access import RuleFilter, find_rules

    kind, name = about or (None, None)
    pattern = "match" if about and not exactly else None
    return find_rules(client, RuleFilter(kind, name, pattern, principal_of(principal) if principal else None))
