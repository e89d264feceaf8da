"""What the security tests share: certificates, users, and a broker that asks who is there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import trustme

from mainstem.client import Client, ClientSettings, Sasl, Tls, parse_bootstrap
from mainstem.testing import Broker

PASSWORDS = {"admin": "admin-password", "alice": "alice-password", "bob": "bob-password"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True)
class Files:
    """PEM files: an authority, a server's certificate and a client's."""

    folder: Path

    def __post_init__(self):
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.ca)
        self.write_server(authority)
        client = authority.issue_cert(
            "client@example.com",
            common_name="orders",
            organization_name="Example",
            organization_unit_name="Shop",
        )
        _write(client, self.client_cert, self.client_key)
        (self.folder / "users.toml").write_text(
            "[users]\n" + "".join(f'{name} = "{password}"\n' for name, password in PASSWORDS.items())
        )

    def write_server(self, authority):
        _write(authority.issue_cert("localhost", "127.0.0.1"), self.cert, self.key)

    ca = property(lambda self: self.folder / "ca.pem")
    cert = property(lambda self: self.folder / "cert.pem")
    key = property(lambda self: self.folder / "key.pem")
    client_cert = property(lambda self: self.folder / "client-cert.pem")
    client_key = property(lambda self: self.folder / "client-key.pem")

    @property
    def settings(self):
        return {
            "security.authentication": "required",
            "security.users_file": str(self.folder / "users.toml"),
            "security.superusers": "admin",
            "security.tls_cert_file": str(self.cert),
            "security.tls_key_file": str(self.key),
            "security.tls_ca_file": str(self.ca),
            "security.tls_client_auth": "requested",
        }


def _write(issued, cert, key):
    issued.private_key_pem.write_to_path(key)
    cert.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))


def guarded(files, settings=None, **options):
    return Broker({**files.settings, **(settings or {})}, listen={"kafka+tls": "127.0.0.1:0"}, **options)


def librdkafka(broker, files, user="admin", *, mechanism="SCRAM-SHA-512", tls=True, password=None, **more):
    """Settings for confluent-kafka."""
    return {
        "bootstrap.servers": broker.listening["kafka+tls" if tls else "kafka"],
        "security.protocol": "SASL_SSL" if tls else "SASL_PLAINTEXT",
        "ssl.ca.location": str(files.ca),
        "sasl.mechanisms": mechanism,
        "sasl.username": user,
        "sasl.password": password or PASSWORDS.get(user, "none"),
        **more,
    }


def client(broker, user="admin", *, mechanism="SCRAM-SHA-256", password=None, files=None):
    """Our own client: answers as the broker sent them."""
    where = broker.listening["kafka+tls" if files else "kafka"]
    return Client(
        ClientSettings(
            parse_bootstrap(where),
            tls=Tls(str(files.ca)) if files else None,
            sasl=Sasl(user, password or PASSWORDS.get(user, "none"), mechanism) if user else None,
            attempts=1,
        )
    )
