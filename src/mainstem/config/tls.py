"""Certificates from files, or a reason that says which file is wrong and how."""

from __future__ import annotations

import ssl
from pathlib import Path

from mainstem.model.errors import InvalidConfig

_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(cert: Path | None, key: Path | None, ca: Path | None, client_auth: str) -> ssl.SSLContext:
    """For a listener. TLS 1.2 and later. With a client authority, clients' certificates are checked by it."""
    if cert is None or key is None:
        raise InvalidConfig("a +tls listener needs security.tls_cert_file and security.tls_key_file")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load_chain(context, cert, key)
    if ca is not None:
        _readable("security.tls_ca_file", ca)
        try:
            context.load_verify_locations(ca)
        except ssl.SSLError as error:
            raise InvalidConfig(f"security.tls_ca_file {ca} holds no certificate in PEM: {error}") from None
    context.verify_mode = _CLIENT_AUTH[client_auth]
    return context


def _load_chain(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    _readable("security.tls_cert_file", cert)
    _readable("security.tls_key_file", key)

    def no_password() -> str:
        raise InvalidConfig(f"security.tls_key_file {key} is protected by a password; store it without one")

    try:
        context.load_cert_chain(cert, key, no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            why = f"security.tls_key_file {key} is not the key of security.tls_cert_file {cert}"
        else:
            why = f"security.tls_cert_file {cert} and security.tls_key_file {key} are not both PEM: {error}"
        raise InvalidConfig(why) from None


def _readable(setting: str, path: Path) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        raise InvalidConfig(f"{setting} {path} cannot be read: {error.strerror}") from None
