"""What may be reached from other machines: nothing, until people must say who they are."""

from __future__ import annotations

import ipaddress

from mainstem.config.kinds import Endpoint
from mainstem.config.sections import Config
from mainstem.model.errors import InvalidConfig

PLAIN = "PLAIN"


def is_loopback(host: str) -> bool:
    """Only what surely stays on this machine; an unknown host name may resolve to anything."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback


def has_tls(listener: str) -> bool:
    """A listener's name is its protocol, and `+tls` if it speaks it through TLS."""
    return listener.endswith("+tls")


def check_exposure(config: Config) -> None:
    """Refuse a listener beyond loopback that would let strangers in."""
    for name, endpoint in config.listeners().items():
        if is_loopback(endpoint.host):
            continue
        where = f"server.listen {name}={endpoint} is reachable from other machines"
        if name.split("+")[0] == "http":
            if config.security.http_token_file is None:
                raise InvalidConfig(f"{where}: set security.http_token_file, or listen on 127.0.0.1")
        elif config.security.authentication == "off":
            raise InvalidConfig(f"{where}: set security.authentication to required, or listen on 127.0.0.1")
        elif not _someone_can_log_in(config, name, endpoint):
            raise InvalidConfig(
                f"{where} and nobody could log in: set security.sasl_mechanisms (PLAIN is for +tls only), "
                "or use a +tls listener with security.tls_client_auth"
            )


def mechanisms_offered(configured: tuple[str, ...], listener: str, endpoint: Endpoint) -> tuple[str, ...]:
    """Ways to log in at a listener. PLAIN hands over the password: never unprotected over a network.

    AMQP's clients know no other way than PLAIN.
    """
    protected = has_tls(listener) or is_loopback(endpoint.host)
    if listener.partition("+")[0] == "amqp":
        return (PLAIN,) if protected else ()
    return tuple(name for name in configured if protected or name != PLAIN)


def denies_by_default(config: Config) -> bool:
    """Whether an operation that no ACL speaks of is refused."""
    if config.security.acl_default == "auto":
        return config.security.authentication != "off"
    return config.security.acl_default == "deny"


def _someone_can_log_in(config: Config, listener: str, endpoint: Endpoint) -> bool:
    by_certificate = has_tls(listener) and config.security.tls_client_auth != "none"
    return by_certificate or bool(mechanisms_offered(config.security.sasl_mechanisms, listener, endpoint))
