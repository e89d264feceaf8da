"""`mainstem user`: users and their passwords, over Kafka's own SCRAM API."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainstem.broker.access.scram import (
    BY_LABEL,
    DEFAULT_ITERATIONS,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SALT_BYTES,
)
from mainstem.cli.connect import client_options, close_to
from mainstem.cli.groups import Commands, examples
from mainstem.cli.output import (
    Column,
    confirm,
    emit_record,
    emit_rows,
    in_turn,
    json_option,
    plural,
    printable,
    yes_option,
)
from mainstem.model.errors import DuplicateResource, InvalidRequest, MainstemError, ResourceNotFound

if TYPE_CHECKING:
    from mainstem.client import Client

PLAIN = "PLAIN"
ENV_NEW_PASSWORD = "MAINSTEM_NEW_PASSWORD"

_new_password_file = click.option(
    "--new-password-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"File with the user's password. Else ${ENV_NEW_PASSWORD}, or you are asked.",
)
_iterations = click.option(
    "--iterations",
    type=click.IntRange(MIN_ITERATIONS, MAX_ITERATIONS),
    default=DEFAULT_ITERATIONS,
    help=f"How slow a guess at the password is. [{DEFAULT_ITERATIONS}]",
)


@click.group("user", cls=Commands, epilog=examples("mainstem user ls", "mainstem user add alice"))
def command() -> None:
    """Users and their passwords. A password is salted here; the broker never sees it."""


@command.command(epilog=examples("mainstem user ls", "mainstem user ls --json | jq -r .user"))
@json_option
@client_options
def ls(as_json: bool, client: Client) -> None:
    """List users, and by what they can log in.

    Whoever has a password for SCRAM can log in by PLAIN too, which brokers take over TLS or from their own
    machine only. With --json: the mechanisms of SCRAM that there are credentials for, or PLAIN.
    """
    from mainstem.client.access import list_users

    # Who came with a hash of RabbitMQ's has no mechanism of Kafka's.
    found = sorted(list_users(client).items())
    rows = [{"user": user, "mechanisms": list(held) or [PLAIN]} for user, held in found]
    columns = [Column("user", "user"), Column("mechanisms", "can log in by", show=_ways)]
    emit_rows(rows, columns, as_json=as_json, empty="No users.")


def _ways(mechanisms: list[str]) -> str:
    """The same password does for PLAIN, which hands it over: not unprotected through a network."""
    scram = [name for name in mechanisms if name != PLAIN]
    return ", ".join([*scram, f"{PLAIN} (over TLS or loopback)"])


@command.command(
    epilog=examples("mainstem user add alice", "mainstem user add svc --new-password-file secret.txt")
)
@click.argument("name")
@_new_password_file
@_iterations
@json_option
@client_options
def add(name: str, new_password_file: Path | None, iterations: int, as_json: bool, client: Client) -> None:
    """Make a user."""
    from mainstem.client.access import list_users

    if name in list_users(client):
        raise DuplicateResource(
            f"there is a user {name!r} already; `mainstem user passwd` changes the password"
        )
    _set(client, name, new_password_file, iterations)
    _say(name, "made", as_json)


def _say(name: str, what: str, as_json: bool, **more: int) -> None:
    if as_json:
        emit_record({"user": name, what: True, **more}, as_json=True)
    else:
        click.echo(printable(f"user {name}: {'password changed' if what == 'changed' else what}"))


@command.command(epilog=examples("mainstem user passwd alice"))
@click.argument("name")
@_new_password_file
@_iterations
@json_option
@client_options
def passwd(name: str, new_password_file: Path | None, iterations: int, as_json: bool, client: Client) -> None:
    """Give a user another password. Connections that are logged in stay so."""
    _must_exist(client, name)
    _set(client, name, new_password_file, iterations)
    _say(name, "changed", as_json)


@command.command(epilog=examples("mainstem user rm alice --yes"))
@click.argument("names", nargs=-1, required=True)
@yes_option
@json_option
@client_options
def rm(names: tuple[str, ...], yes: bool, as_json: bool, client: Client) -> None:
    """Remove users. Their rules stay; connections that are logged in stay so."""
    from mainstem.client.access import remove_user

    held = {name: _must_exist(client, name) for name in names}
    confirm(f"remove {plural(len(names), 'user')}: {', '.join(names)}", yes=yes)
    with in_turn(held) as each:
        for name in each:
            remove_user(client, name, held[name])
            rules = _rules_of(client, name)
            _say(name, "removed", as_json, rules_left=rules)
            if rules and not as_json:
                click.echo(
                    f"{plural(rules, 'rule')} for {name} stay, for whoever gets that name: "
                    f"mainstem acl ls --principal {name}",
                    err=True,
                )


def _rules_of(client: Client, name: str) -> int:
    from mainstem.client.access import RuleFilter, find_rules

    with contextlib.suppress(MainstemError):  # where nobody needs a rule there are none to be asked for
        return len(find_rules(client, RuleFilter(principal=f"User:{name}")))
    return 0


def _must_exist(client: Client, name: str) -> list[str]:
    """The mechanisms that the user can log in by; for who has none, one that stands for what there is."""
    from mainstem.client.access import list_users

    users = list_users(client)
    if name not in users:
        raise ResourceNotFound(f"there is no user {name!r}.{close_to(name, users)}")
    return list(users[name]) or list(BY_LABEL)[:1]


def _set(client: Client, name: str, file: Path | None, iterations: int) -> None:
    from mainstem.client.access import set_password

    salts = {mechanism: secrets.token_bytes(SALT_BYTES) for mechanism in BY_LABEL}
    set_password(client, name, _new_password(name, file), salts, iterations)


def _new_password(name: str, file: Path | None) -> str:
    if file is not None:
        try:
            password = file.read_text().rstrip("\n")
        except OSError as error:
            raise InvalidRequest(f"{file}: cannot be read: {error.strerror}") from None
    elif ENV_NEW_PASSWORD in os.environ:
        password = os.environ[ENV_NEW_PASSWORD]
    elif sys.stdin.isatty():
        password = str(
            click.prompt(f"New password of {name}", hide_input=True, confirmation_prompt=True, err=True)
        )
    else:
        raise InvalidRequest(f"no new password for {name!r}: use --new-password-file or ${ENV_NEW_PASSWORD}")
    if not password:
        raise InvalidRequest("an empty password is none")
    return password
