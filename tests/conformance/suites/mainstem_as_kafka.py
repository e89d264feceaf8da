"""A pytest plugin for kafka-python's own integration suite: where it would start Kafka, start Mainstem.

The suite asks its `KafkaFixture` for a broker, plain, with SASL or with TLS. Without this plugin that fixture
runs Kafka's start scripts; with it every case runs as it is written, those for logins and TLS included. It is
loaded with `-p` in the process that runs the suite, never by our own tests.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import cramjam
import py
import trustme

from mainstem.client import Client, ClientSettings, Sasl, parse_bootstrap
from mainstem.client.admin import topic_names
from mainstem.testing import Broker

# The source package leaves out two modules that its own test folder imports: what marks that folder as a
# package, and `test.service`, which starts Kafka and reads its output.
SUITE = Path.cwd() / "test"


class Service:
    """Stands in for the process of a broker that the suite would look after."""

    def __init__(self, *_args: object, **_options: object) -> None:
        pass

    def dump_logs(self) -> None:
        """The suite prints a broker's output where a case failed; ours is in its own log."""


def _module(name: str) -> ModuleType:
    module = sys.modules[name] = ModuleType(name)
    return module


# For the cases with snappy the client wants python-snappy; the same library is here under another name.
_snappy = _module("snappy")
_snappy.compress = lambda data: bytes(cramjam.snappy.compress_raw(data))
_snappy.decompress = lambda data: bytes(cramjam.snappy.decompress_raw(data))

_module("test").__path__ = [str(SUITE)]
_service = _module("test.service")
_service.ExternalService = _service.SpawnedService = Service


def pytest_sessionstart() -> None:
    from test.integration.fixtures import KafkaFixture

    KafkaFixture.open = KafkaFixture.start = _open
    KafkaFixture.stop = _stop
    KafkaFixture.get_topic_names = _topic_names


def _open(fixture) -> None:
    if fixture.running:
        return
    if fixture.tmp_dir is None:
        fixture.tmp_dir = py.path.local.mkdtemp()  # the fixture removes it when it closes
    folder = Path(fixture.tmp_dir.strpath)
    settings: dict[str, object] = {
        "server.node_id": fixture.broker_id,
        "topics.default_partitions": fixture.partitions,
        "security.acl_default": "allow",  # as the suite sets up Kafka: rules are kept, and nobody needs one
    }
    if fixture.ssl_enabled:
        settings |= _tls(folder)
        fixture.ssl_dir = str(folder)
    if fixture.sasl_enabled:
        settings |= _users(folder, fixture.broker_user, fixture.broker_password)
    listener = "kafka+tls" if fixture.ssl_enabled else "kafka"
    fixture.mainstem = Broker(settings, process=True, listen={listener: "127.0.0.1:0"}).start()
    fixture.host, port = fixture.mainstem.listening[listener].rsplit(":", 1)
    fixture.port = int(port)
    fixture.child = Service()
    fixture.running = True


def _stop(fixture) -> None:
    if fixture.running:
        fixture.running = False
        fixture.mainstem.close()


def _tls(folder: Path) -> dict[str, object]:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(folder / "ca-cert")  # the name under which the suite looks for it
    issued.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    return {
        "security.tls_cert_file": str(folder / "cert.pem"),
        "security.tls_key_file": str(folder / "key.pem"),
    }


def _users(folder: Path, name: str, password: str) -> dict[str, object]:
    (folder / "users.toml").write_text(f'[users]\n{name} = "{password}"\n')
    return {
        "security.authentication": "required",
        "security.users_file": str(folder / "users.toml"),
        "security.superusers": name,
    }


def _topic_names(fixture) -> list[str]:
    """The suite asks Kafka's own script, to see with other eyes than the client under test: so do we."""
    login = Sasl(fixture.broker_user, fixture.broker_password, fixture.sasl_mechanism)
    with Client(ClientSettings(parse_bootstrap(f"{fixture.host}:{fixture.port}"), sasl=login)) as client:
        return list(topic_names(client))
