"""Commands that ask a broker over its http listener: their flags, the calls, and names that were mistyped."""

from __future__ import annotations

import functools
import http.client
import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import click

from mainstem.cli.connect import close_to, named_bootstrap
from mainstem.client.settings import DEFAULT_BOOTSTRAP, Address, parse_bootstrap
from mainstem.config.sections import USUAL_PORTS
from mainstem.model.errors import (
    BrokerRefused,
    BrokerUnreachable,
    InvalidRequest,
    MainstemError,
    QueueError,
    ResourceNotFound,
)

USUAL = f"127.0.0.1:{USUAL_PORTS['http']}"
_LISTS = {"UnknownQueue": ("/admin/queues", "queue"), "UnknownExchange": ("/admin/exchanges", "exchange")}

ANSWER_S = 60.0


def door_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags that name an http listener; the command gets one `door: Door`."""
    return _with_options(
        lambda *args, open_door, **kwargs: function(*args, door=open_door(), **kwargs), function, ANSWER_S
    )


def late_door_options(answer_s: float) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The same for a command that may do without: it gets `open_door`, to call if it asks a broker."""
    return lambda function: _with_options(function, function, answer_s)


def _with_options(
    call: Callable[..., Any], function: Callable[..., Any], answer_s: float
) -> Callable[..., Any]:
    @functools.wraps(function)
    def with_door(
        *args: Any,
        where: str | None,
        token_file: Path | None,
        tls: bool,
        tls_ca: str | None,
        timeout_s: float,
        **kwargs: Any,
    ) -> Any:
        def open_door() -> Door:
            context = ssl.create_default_context(cafile=tls_ca) if tls or tls_ca else None
            token = token_file.read_text().strip() if token_file is not None else None
            return Door(parse_bootstrap(where or _usual())[0], token, context, timeout_s)

        return call(*args, open_door=open_door, **kwargs)

    made: Callable[..., Any] = with_door
    for option in reversed(_options(answer_s)):
        made = option(made)
    return made


def _options(answer_s: float) -> tuple[Callable[..., Any], ...]:
    return (
        click.option(
            "--http",
            "where",
            envvar="MAINSTEM_HTTP",
            metavar="HOST:PORT",
            help=f"The broker's http listener. [$MAINSTEM_HTTP; {USUAL}]",
        ),
        click.option(
            "--token-file",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            envvar="MAINSTEM_TOKEN_FILE",
            help="The token that the http listener asks for. [$MAINSTEM_TOKEN_FILE]",
        ),
        click.option("--tls", is_flag=True, help="Use TLS, with the system's certificates."),
        click.option("--tls-ca", metavar="FILE", help="Use TLS, and trust these certificates (PEM)."),
        click.option(
            "--timeout",
            "timeout_s",
            type=float,
            default=answer_s,
            help=f"Seconds to wait for an answer. [{answer_s:.0f}]",
        ),
    )


def _usual() -> str:
    """Not where somebody has named another broker, or the wrong one would be asked, and do it."""
    named = named_bootstrap()
    if named not in (None, DEFAULT_BOOTSTRAP):
        raise click.UsageError(
            f"This command asks a broker's http listener, and {named} is one for Kafka's clients: "
            "name the other with --http HOST:PORT, or $MAINSTEM_HTTP."
        )
    return USUAL


def namespace_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--namespace`, which AMQP calls a vhost."""
    return click.option(
        "--namespace",
        "--vhost",
        "-N",
        default="/",
        envvar="MAINSTEM_NAMESPACE",
        metavar="NAME",
        help="The namespace: a vhost of AMQP. [$MAINSTEM_NAMESPACE; /]",
    )(function)


class Door:
    def __init__(
        self, address: Address, token: str | None, tls: ssl.SSLContext | None, timeout_s: float
    ) -> None:
        self._address = address
        self._token = token
        self._tls = tls
        self._timeout_s = timeout_s

    def get(self, path: str, **ask: object) -> Any:
        return json.loads(b"".join(self._ask("GET", path, ask)))

    def post(self, path: str, **ask: object) -> Any:
        return json.loads(b"".join(self._ask("POST", path, ask)))

    def delete(self, path: str, **ask: object) -> Any:
        return json.loads(b"".join(self._ask("DELETE", path, ask)))

    def rows(self, path: str, **ask: object) -> Iterator[dict[str, Any]]:
        """As they come."""
        return self._rows("GET", path, ask)

    def post_rows(self, path: str, **ask: object) -> Iterator[dict[str, Any]]:
        return self._rows("POST", path, ask)

    def _rows(self, method: str, path: str, ask: dict[str, object]) -> Iterator[dict[str, Any]]:
        for line in self._ask(method, path, ask):
            row: dict[str, Any] = json.loads(line)
            if "error" in row and "kind" in row:
                raise MainstemError(str(row["error"]))
            yield row

    def _ask(self, method: str, path: str, ask: dict[str, object]) -> Iterator[bytes]:
        """The lines of the answer. What is None is not asked."""
        ask = {name: value for name, value in ask.items() if value is not None}
        body = None
        if method == "POST":
            body = json.dumps(ask).encode()
        elif ask:
            flags = {
                name: str(value).lower() if value in (True, False) else value for name, value in ask.items()
            }
            path = f"{path}?{urlencode(flags)}"
        headers = {"content-type": "application/json", "host": str(self._address)}
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token}"
        connection = self._connection()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise self._refused(answer, ask)
            for line in answer:
                if line.strip():
                    yield line
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise BrokerUnreachable(
                f"no answer from {self.url}: {str(why).lower()}; is the broker running there? "
                "--http names its http listener"
            ) from None
        finally:
            connection.close()

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://{self._address}"

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._address.host, self._address.port
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=self._tls)

    def _refused(self, answer: http.client.HTTPResponse, ask: dict[str, object]) -> MainstemError:
        text = answer.read().decode("utf-8", "replace").strip()
        try:
            fact = json.loads(text)
            why, kind = str(fact["error"]), str(fact.get("kind", ""))
        except (ValueError, KeyError, TypeError):
            known = {401: "it asks for a token: use --token-file", 404: "it knows no such call: is it older?"}
            return BrokerRefused(answer.status, answer.reason, self.url, known.get(answer.status, text))
        if answer.status == 404:
            return ResourceNotFound(
                f"{why}.{self._hint(kind, fact, ask)}" if kind != "ResourceNotFound" else why
            )
        if answer.status in (400, 413):
            return InvalidRequest(why)
        if answer.status == 409:
            return QueueError(why)
        return BrokerRefused(answer.status, answer.reason, self.url, why)

    def _hint(self, kind: str, fact: dict[str, Any], ask: dict[str, object]) -> str:
        """What may have been meant."""
        namespace = str(ask.get("namespace", "/"))
        if kind == "UnknownNamespace":
            return close_to(namespace, (str(row["namespace"]) for row in self.rows("/admin/namespaces")))
        if kind not in _LISTS:
            return ""
        path, key = _LISTS[kind]
        return close_to(str(fact["name"]), (str(row[key]) for row in self.rows(path, namespace=namespace)))
