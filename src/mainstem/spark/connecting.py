"""How to reach the broker, from Kafka's own client options (`kafka.bootstrap.servers` and the like)."""

from __future__ import annotations

import re

from mainstem.client.settings import ClientSettings, Sasl, Tls, parse_bootstrap
from mainstem.model.errors import InvalidRequest
from mainstem.spark.options import BROKER_TIMEOUT_MS, Options

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# username="alice" password="secret", as the Java client has it in sasl.jaas.config.
_LOGIN = re.compile(r"""\b(username|password)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
# A retry belongs to the reader, which knows how long it may wait.
ATTEMPTS = 3


def settings_of(options: Options) -> ClientSettings:
    if not options.has("kafka.bootstrap.servers"):
        raise InvalidRequest("kafka.bootstrap.servers is missing: host:port of the broker")
    protocol = options.text("kafka.security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise InvalidRequest(f"kafka.security.protocol is one of {', '.join(PROTOCOLS)}, not {protocol!r}")
    return ClientSettings(
        parse_bootstrap(options.text("kafka.bootstrap.servers")),
        client_id=options.text("kafka.client.id", "mainstem-spark"),
        tls=_tls(options) if protocol.endswith("SSL") else None,
        sasl=_sasl(options) if protocol.startswith("SASL") else None,
        attempts=ATTEMPTS,
    )


def patience_s(options: Options) -> float:
    """How long a broker may be away before a task gives up."""
    return (options.number("brokerTimeoutMs") or BROKER_TIMEOUT_MS) / 1000


def _tls(options: Options) -> Tls:
    authority = options.text("kafka.ssl.ca.location") or options.text("kafka.ssl.truststore.location")
    if authority.lower().endswith((".jks", ".p12", ".pfx")):
        raise InvalidRequest(
            f"{authority} is a Java key store; give the certificates as a PEM file in kafka.ssl.ca.location"
        )
    return Tls(
        ca_file=authority or None,
        cert_file=options.text("kafka.ssl.certificate.location") or None,
        key_file=options.text("kafka.ssl.key.location") or None,
    )


def _sasl(options: Options) -> Sasl:
    found = {
        name: plain or quoted
        for name, plain, quoted in _LOGIN.findall(options.text("kafka.sasl.jaas.config"))
    }
    user = found.get("username") or options.text("kafka.sasl.username")
    password = found.get("password") or options.text("kafka.sasl.password")
    if not user:
        raise InvalidRequest(
            "no user: give kafka.sasl.jaas.config, or kafka.sasl.username and kafka.sasl.password"
        )
    return Sasl(user, password, options.text("kafka.sasl.mechanism", "SCRAM-SHA-512").upper())
