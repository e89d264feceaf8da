"""The flags of every command that talks to a broker, and names that were mistyped."""

from __future__ import annotations

import difflib
import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mainstem.client.settings import (
    DEFAULT_BOOTSTRAP,
    MECHANISMS,
    ClientSettings,
    Sasl,
    Tls,
    parse_bootstrap,
)
from mainstem.model.errors import GroupNotFound, InvalidRequest, UnknownTopic

if TYPE_CHECKING:
    from mainstem.client import Client
    from mainstem.client.cluster import TopicInfo

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_OPTIONS: tuple[_Decorator, ...] = (
    click.option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        help=f"The broker. [$MAINSTEM_BOOTSTRAP; {DEFAULT_BOOTSTRAP}]",
    ),
    click.option("--user", envvar="MAINSTEM_USER", help="Log in as. [$MAINSTEM_USER]"),
    click.option(
        "--password-file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="File with the password. Else $MAINSTEM_PASSWORD, or you are asked.",
    ),
    click.option(
        "--mechanism",
        type=click.Choice(MECHANISMS, case_sensitive=False),
        default="SCRAM-SHA-512",
        envvar="MAINSTEM_MECHANISM",
        help="How to log in. [$MAINSTEM_MECHANISM; SCRAM-SHA-512]",
    ),
    click.option("--tls", is_flag=True, help="Use TLS, with the system's certificates."),
    click.option(
        "--tls-ca",
        metavar="FILE",
        envvar="MAINSTEM_TLS_CA",
        help="Use TLS, and trust these certificates (PEM). [$MAINSTEM_TLS_CA]",
    ),
    click.option("--tls-cert", metavar="FILE", help="Own certificate (PEM), for TLS."),
    click.option("--tls-key", metavar="FILE", help="Its key (PEM), if that is a file of its own."),
    click.option(
        "--timeout", "timeout_s", type=float, default=30.0, help="Seconds to wait for an answer. [30]"
    ),
)


_NAMES = (
    "bootstrap",
    "user",
    "password_file",
    "mechanism",
    "tls",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "timeout_s",
)


def client_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags above; the command gets one `client: Client`, closed when it ends."""

    @functools.wraps(function)
    def with_client(*args: Any, settings: ClientSettings, **kwargs: Any) -> Any:
        from mainstem.client import Client

        with Client(settings) as client:
            return function(*args, client=client, **kwargs)

    return connection_options(with_client)


def connection_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags above; the command gets `settings: ClientSettings`, and makes connections itself."""

    @functools.wraps(function)
    def with_settings(*args: Any, **kwargs: Any) -> Any:
        settings = client_settings({name: kwargs.pop(name) for name in _NAMES})
        return function(*args, settings=settings, **kwargs)

    made: Callable[..., Any] = with_settings
    for option in reversed(_OPTIONS):
        made = option(made)
    return made


def client_settings(flags: Mapping[str, Any]) -> ClientSettings:
    """From flags; where no broker was given, from the flag of `mainstem` itself or the environment."""
    given = flags["bootstrap"] or named_bootstrap() or DEFAULT_BOOTSTRAP
    user = flags["user"]
    tls = Tls(ca_file=flags["tls_ca"], cert_file=flags["tls_cert"], key_file=flags["tls_key"])
    return ClientSettings(
        parse_bootstrap(given),
        client_id="mainstem-cli",
        tls=tls if flags["tls"] or tls != Tls() else None,
        sasl=Sasl(user, _password(user, flags["password_file"]), flags["mechanism"]) if user else None,
        request_timeout_s=flags["timeout_s"],
    )


def named_bootstrap() -> str | None:
    """`mainstem -b HOST:PORT topic ls`, or what the environment says."""
    context = click.get_current_context(silent=True)
    found = context.find_root().params.get("bootstrap") if context is not None else None
    return str(found) if found else os.environ.get("MAINSTEM_BOOTSTRAP")


def _password(user: str, file: Path | None) -> str:
    if file is not None:
        try:
            return file.read_text().rstrip("\n")
        except OSError as error:
            raise InvalidRequest(f"{file}: cannot be read: {error.strerror}") from None
    if "MAINSTEM_PASSWORD" in os.environ:
        return os.environ["MAINSTEM_PASSWORD"]
    if not sys.stdin.isatty():
        raise InvalidRequest(f"no password for {user!r}: use --password-file or $MAINSTEM_PASSWORD")
    return str(click.prompt(f"Password of {user}", hide_input=True, err=True))


# --- names -----------------------------------------------------------------------------------------


def close_to(word: str, known: Iterable[str]) -> str:
    """` Did you mean X?`, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {close[0]}?" if close else ""


def find_topic(client: Client, name: str) -> TopicInfo:
    """A topic that must be there."""
    from mainstem.client.admin import topic_names

    try:
        return client.topic(name)
    except UnknownTopic:
        hint = close_to(name, topic_names(client, internal=True))
        raise UnknownTopic(f"there is no topic {name!r}.{hint}") from None


def no_such_group(client: Client, name: str) -> GroupNotFound:
    from mainstem.client.groups import list_groups

    hint = close_to(name, (group.id for group in list_groups(client)))
    return GroupNotFound(f"there is no group {name!r}.{hint}")


def pairs(texts: Iterable[str], flag: str) -> dict[str, str]:
    """`name=value` as often as a flag was given."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{flag} {text}: must be NAME=VALUE")
        found[name.strip()] = value
    return found
