"""Where a database is, from what a user wrote; and texts about it that may be shown: without the password."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches

from mainstem.model.errors import InvalidRequest

_LOGIN = re.compile(r"(?P<before>//[^:/@\s]*:)[^\s]*@")
_WORD = re.compile(
    r"""(?P<before>\b(?:password|passwd|pwd|sslpassword)\s*=\s*)('[^']*'|"[^"]*"|\{[^}]*\}|[^&;\s]*)""",
    re.IGNORECASE,
)
# What is told of an address for JDBC. Each driver has its own way to write a password into it.
_JDBC = re.compile(r"(?P<kind>jdbc:\w+)(?P<host>(?::\w+)*://[\w.-]+(?::\d+)?(?=[/;?,]|$))?", re.IGNORECASE)
SCHEMES = ("postgresql://", "postgres://")


def from_environment(value: str, option: str, environment: Mapping[str, str] | None = None) -> str:
    """`$NAME` is the variable of that name, so that no secret need stand in a file."""
    known = os.environ if environment is None else environment
    if not value.startswith("$"):
        return value
    if value[1:] not in known:
        raise InvalidRequest(f"{option} is {value}, and there is no such variable")
    return known[value[1:]]


def hidden(text: str) -> str:
    """The same without passwords: `//user:...@host`, `password=...`; of JDBC only what kind, and the host."""
    if jdbc := _JDBC.match(text):
        # Before an @ there may be a login, however it is written; then nothing behind the kind is sure.
        return jdbc["kind"] + ("" if "@" in text else jdbc["host"] or "") + "..."
    return _WORD.sub(r"\g<before>...", _LOGIN.sub(r"\g<before>...@", text))


def check_url(url: str) -> None:
    """Whether it is the address of a PostgreSQL database."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    if not url.startswith(SCHEMES):
        scheme, there_is, _ = url.partition("://")
        hint = ""
        if url.startswith("jdbc:"):
            hint = "; for another database give jdbc.url"
        elif there_is and get_close_matches(scheme, ("postgresql", "postgres"), n=1):
            hint = "; did you mean 'postgresql://'?"
        raise InvalidRequest(f"url is postgresql://user@host:5432/database{hint}")
    try:
        conninfo_to_dict(url)
    except ProgrammingError:
        # Its own words quote a part of the text, which may be the password.
        raise InvalidRequest(
            f"url {hidden(url)} cannot be read; in a password @ : / % are written %40 %3A %2F %25"
        ) from None
