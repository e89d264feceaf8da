"""Logging in, by the clients people use: SASL and TLS, right and wrong."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import time
import urllib.error
import urllib.request

import pytest
import trustme
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from security_house import MECHANISMS, PASSWORDS, Files, client, guarded, librdkafka

from mainstem.broker.access.sasl import ScramExchange
from mainstem.config import load
from mainstem.model.errors import AuthenticationFailed, InvalidConfig
from mainstem.testing import Broker
from mainstem.wire.kafka.api_versions import ApiVersionsRequest, ApiVersionsResponse
from mainstem.wire.kafka.apis import SPECS, ApiKey
from mainstem.wire.kafka.frames import decode_response, encode_request
from mainstem.wire.kafka.metadata import MetadataRequest, MetadataResponse
from mainstem.wire.kafka.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

ILLEGAL_SASL_STATE, UNSUPPORTED_MECHANISM, SASL_AUTHENTICATION_FAILED = 34, 33, 58


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("security"))


@pytest.fixture(scope="module")
def broker(files):
    with guarded(files) as broker:
        yield broker


def said_in_log(caplog, message):
    """The facts of a line of the broker's log, once it is there: the broker runs in a thread of its own."""
    while True:
        for record in list(caplog.records):
            if getattr(record.msg, "sentence", None) == message:
                return record.facts
        time.sleep(0.005)


class Wire:
    """A socket that speaks frames, for what no client does."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, frame):
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self):
        """The next frame; None once the broker has closed the connection."""
        size = self._exactly(4)
        return None if size is None else self._exactly(struct.unpack(">i", size)[0])

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            try:
                more = self.socket.recv(count - len(data))
            except ConnectionError:
                more = b""
            if not more:
                return None
            data += more
        return data

    def ask(self, key, version, message, answer_type):
        spec = SPECS[key]
        frame = bytes(encode_request(spec, version, 7, "test", message))
        self.socket.sendall(frame)
        answer = self.receive()
        if answer is None:
            return None
        return decode_response(spec, version, memoryview(answer))[1]

    def handshake(self, mechanism, version=1):
        request = SaslHandshakeRequest(mechanism=mechanism)
        return self.ask(ApiKey.SASL_HANDSHAKE, version, request, SaslHandshakeResponse)

    def authenticate(self, token):
        request = SaslAuthenticateRequest(auth_bytes=token)
        return self.ask(ApiKey.SASL_AUTHENTICATE, 2, request, SaslAuthenticateResponse)

    def topics(self):
        return self.ask(ApiKey.METADATA, 9, MetadataRequest(topics=None), MetadataResponse)


# --- the right way --------------------------------------------------------------------------------


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_logs_in_and_works(broker, files, mechanism, tls):
    settings = librdkafka(broker, files, mechanism=mechanism, tls=tls)
    failed = []
    producer = Producer(settings)
    producer.produce("orders", b"x", on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(30) == 0
    assert failed == [None]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in_and_works(broker, files, mechanism):
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=broker.listening["kafka+tls"],
        security_protocol="SASL_SSL",
        ssl_cafile=str(files.ca),
        sasl_mechanism=mechanism,
        sasl_plain_username="admin",
        sasl_plain_password=PASSWORDS["admin"],
    )
    try:
        assert producer.send("orders-kp", b"x").get(30).offset >= 0
    finally:
        producer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_logs_in_and_works(broker, files, mechanism):
    from aiokafka import AIOKafkaProducer

    async def send():
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.listening["kafka+tls"],
            security_protocol="SASL_SSL",
            ssl_context=ssl.create_default_context(cafile=files.ca),
            sasl_mechanism=mechanism,
            sasl_plain_username="admin",
            sasl_plain_password=PASSWORDS["admin"],
        )
        await producer.start()
        try:
            return await producer.send_and_wait("orders-aio", b"x")
        finally:
            await producer.stop()

    assert asyncio.run(send()).offset >= 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kcat_logs_in_and_lists(broker, files, mechanism):
    """Debian's has a librdkafka of before 2.6.1, with the nonce twice in its SCRAM."""
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not here: sh tools/kcat.sh says how")
    settings = librdkafka(broker, files, mechanism=mechanism)
    options = [part for key, value in settings.items() for part in ("-X", f"{key}={value}")]
    run = subprocess.run(["kcat", "-L", *options], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert broker.listening["kafka+tls"] in run.stdout


def test_a_certificate_is_a_login(broker, files):
    settings = {
        "bootstrap.servers": broker.listening["kafka+tls"],
        "security.protocol": "SSL",
        "ssl.ca.location": str(files.ca),
        "ssl.certificate.location": str(files.client_cert),
        "ssl.key.location": str(files.client_key),
    }
    assert AdminClient(settings).list_topics(timeout=30).brokers


def test_large_messages_pass_through_tls(files):
    with guarded(files, {"topics.max_message_bytes": "30 MiB"}) as broker:
        body = os.urandom(10 << 20)
        settings = librdkafka(broker, files, **{"message.max.bytes": 30 << 20})
        failed = []
        producer = Producer(settings)
        for _ in range(2):
            producer.produce("large", body, on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(60) == 0
        assert failed == [None, None]
        consumer = Consumer({**settings, "group.id": "g", "fetch.message.max.bytes": 30 << 20})
        consumer.assign([TopicPartition("large", 0, 0)])
        assert [message.value() == body for message in consumer.consume(2, 60)] == [True, True]
        consumer.close()


# --- the wrong way --------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_and_an_unknown_user_are_told_alike(broker, mechanism):
    told = []
    for user, password in (("alice", "wrong"), ("nobody", "wrong")):
        with (
            pytest.raises(AuthenticationFailed) as failure,
            client(broker, user, mechanism=mechanism, password=password) as one,
        ):
            one.cluster()
        told.append(str(failure.value).replace(user, "USER"))
    assert told[0] == told[1]
    assert "invalid credentials" in told[0]


def test_confluent_kafka_is_told_that_its_password_is_wrong(broker, files):
    errors = []
    admin = AdminClient(librdkafka(broker, files, password="wrong", error_cb=errors.append))
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
    admin.poll(0)
    assert any("invalid credentials" in error.str() for error in errors)


def test_a_failed_login_closes_the_connection_and_names_the_peer(broker, caplog):
    with Wire(broker.kafka) as wire:
        assert wire.handshake("PLAIN").error_code == 0
        answer = wire.authenticate(b"\0alice\0wrong")
        assert answer.error_code == SASL_AUTHENTICATION_FAILED
        assert wire.receive() is None
    said = said_in_log(caplog, "login failed")
    assert said["peer"].startswith("127.0.0.1:")
    assert said["user"] == "alice"
    assert "wrong" not in str(said)


def test_a_failed_scram_login_is_logged_with_so_much_of_the_name_as_a_line_may_hold(broker, caplog):
    with (
        pytest.raises(AuthenticationFailed),
        client(broker, "m" * 1000, mechanism="SCRAM-SHA-256", password="p") as one,
    ):
        one.cluster()
    assert said_in_log(caplog, "login failed")["user"] == "m" * 64


def test_nothing_is_answered_before_login_but_versions(broker):
    with Wire(broker.kafka) as wire:
        versions = wire.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("test", "1"), ApiVersionsResponse)
        assert versions.error_code == 0
        assert wire.topics() is None


def test_a_stranger_may_not_send_much(broker):
    with Wire(broker.kafka) as wire:
        wire.socket.sendall(struct.pack(">i", (64 << 10) + 1))
        assert wire.receive() is None


def test_an_unknown_mechanism_is_refused_with_those_there_are(broker):
    with Wire(broker.kafka) as wire:
        answer = wire.handshake("GSSAPI")
        assert answer.error_code == UNSUPPORTED_MECHANISM
        assert set(answer.mechanisms) == set(MECHANISMS)
        assert wire.receive() is None


def test_a_token_without_a_handshake_is_refused(broker):
    with Wire(broker.kafka) as wire:
        assert wire.authenticate(b"\0alice\0alice-password").error_code == ILLEGAL_SASL_STATE
        assert wire.receive() is None


def test_the_oldest_handshake_takes_tokens_without_headers(broker):
    with Wire(broker.kafka) as wire:
        assert wire.handshake("PLAIN", version=0).error_code == 0
        wire.send(b"\0alice\0alice-password")
        assert wire.receive() == b""
        assert wire.topics() is not None
    with Wire(broker.kafka) as wire:
        wire.handshake("PLAIN", version=0)
        wire.send(b"\0alice\0wrong")
        assert wire.receive() is None


MALFORMED_PROOFS = ["\u00e9".encode(), b"!!!", b"", b"AAAA", b"\xff"]


def malformed_final(server_first: bytes, proof: bytes) -> bytes:
    return b"c=biws," + server_first.split(b",")[0] + b",p=" + proof


@pytest.mark.parametrize("proof", MALFORMED_PROOFS)
def test_a_malformed_proof_is_a_failed_login_like_every_other(broker, caplog, proof):
    with Wire(broker.kafka) as wire:
        wire.handshake("SCRAM-SHA-256")
        asked = wire.authenticate(b"n,,n=alice,r=abc").auth_bytes
        answer = wire.authenticate(malformed_final(asked, proof))
        assert answer.error_code == SASL_AUTHENTICATION_FAILED
        assert wire.receive() is None
    assert said_in_log(caplog, "login failed")["mechanism"] == "SCRAM-SHA-256"


@pytest.mark.parametrize("proof", MALFORMED_PROOFS)
def test_a_malformed_proof_without_a_header_closes_the_connection(broker, proof):
    with Wire(broker.kafka) as wire:
        wire.handshake("SCRAM-SHA-256", version=0)
        wire.send(b"n,,n=alice,r=abc")
        wire.send(malformed_final(wire.receive(), proof))
        assert wire.receive() is None


def test_a_bug_in_a_login_without_headers_closes_the_connection_and_names_the_peer(
    broker, caplog, monkeypatch
):
    def fail(*_):
        raise RuntimeError("a bug")

    with Wire(broker.kafka) as wire:
        wire.handshake("SCRAM-SHA-256", version=0)
        monkeypatch.setattr(ScramExchange, "step", fail)
        wire.send(b"n,,n=alice,r=abc")
        assert wire.receive() is None
        host, port = wire.socket.getsockname()
    assert said_in_log(caplog, "a request failed")["peer"] == f"{host}:{port}"


def test_a_connection_may_log_in_again_as_the_same_user_only(broker):
    with Wire(broker.kafka) as wire:
        for _ in range(2):
            assert wire.handshake("PLAIN").error_code == 0
            assert wire.authenticate(b"\0alice\0alice-password").error_code == 0
            assert wire.topics() is not None
        wire.handshake("PLAIN")
        assert wire.authenticate(b"\0bob\0bob-password").error_code == SASL_AUTHENTICATION_FAILED
        assert wire.receive() is None


def test_a_byte_now_and_then_does_not_keep_a_stranger_connected(files):
    with guarded(files, {"server.handshake_timeout_ms": 300}) as broker, Wire(broker.kafka) as wire:
        wire.socket.settimeout(0.1)
        wire.socket.sendall(struct.pack(">i", 1000))
        closed = False
        while not closed:
            try:
                wire.socket.sendall(b"\0")
                closed = wire.socket.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                closed = True


def test_a_tls_handshake_that_never_comes_is_not_waited_for(files, caplog):
    with (
        guarded(files, {"server.handshake_timeout_ms": 300}) as broker,
        Wire(broker.listening["kafka+tls"]) as wire,
    ):
        assert wire.receive() is None
    assert said_in_log(caplog, "no TLS handshake")["peer"].startswith("127.0.0.1:")


def test_handshakes_under_way_count_as_connections(files):
    with (
        guarded(files, {"server.max_connections": 2}) as broker,
        Wire(broker.listening["kafka+tls"]),
        Wire(broker.listening["kafka+tls"]),
        Wire(broker.listening["kafka+tls"]) as one_too_many,
    ):
        assert one_too_many.receive() is None


def test_connections_count_over_all_listeners(tmp_path):
    with Broker({"server.max_connections": 2}, data=tmp_path) as broker, Wire(broker.kafka):
        host, port = broker.amqp.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=10) as second:
            second.sendall(b"AMQP\0\0\x09\x01")
            assert second.recv(1) == b"\x01"
            with Wire(broker.kafka) as one_too_many:
                assert one_too_many.receive() is None


def test_a_client_without_tls_at_a_tls_port_is_closed_and_named(broker, caplog):
    with Wire(broker.listening["kafka+tls"]) as wire:
        wire.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
        while wire.receive() is not None:  # an alert may come first
            pass
    assert said_in_log(caplog, "no TLS handshake")["peer"].startswith("127.0.0.1:")


def test_a_client_with_tls_at_a_port_without_is_closed(broker, files):
    host, port = broker.kafka.rsplit(":", 1)
    context = ssl.create_default_context(cafile=files.ca)
    with (
        socket.create_connection((host, int(port)), timeout=30) as plain,
        pytest.raises((ssl.SSLError, OSError)),
    ):
        context.wrap_socket(plain, server_hostname="localhost")


def test_a_certificate_of_another_authority_is_refused(broker, files, tmp_path, caplog):
    stranger = trustme.CA().issue_cert("client@example.com", common_name="orders")
    stranger.private_key_and_cert_chain_pem.write_to_path(tmp_path / "stranger.pem")
    context = ssl.create_default_context(cafile=files.ca)
    context.load_cert_chain(tmp_path / "stranger.pem")
    host, port = broker.listening["kafka+tls"].rsplit(":", 1)
    answered = b""
    with (
        contextlib.suppress(OSError),
        socket.create_connection((host, int(port)), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        # In TLS 1.3 the refusal comes after the client's side is done.
        wrapped.sendall(
            bytes(encode_request(SPECS[ApiKey.API_VERSIONS], 3, 7, "test", ApiVersionsRequest("test", "1")))
        )
        answered = wrapped.recv(1)
    assert answered == b""
    assert said_in_log(caplog, "no TLS handshake")["peer"].startswith("127.0.0.1:")


def test_without_authentication_there_is_no_logging_in():
    with Broker() as broker, Wire(broker.kafka) as wire:
        assert wire.handshake("PLAIN").error_code == ILLEGAL_SASL_STATE
        assert wire.topics() is not None


# --- around it ------------------------------------------------------------------------------------


def test_passwords_are_nowhere_on_disk_and_users_outlive_a_restart(files):
    with guarded(files) as broker:
        broker.restart()
        with client(broker, "alice") as one:
            assert one.cluster().nodes
        stored = b"".join(path.read_bytes() for path in broker.data.rglob("*") if path.is_file())
        assert b"alice" in stored
        assert not any(password.encode() in stored for password in PASSWORDS.values())


def test_each_listener_tells_its_own_clients_where_to_come_back(files):
    advertised = {"server.advertise": "kafka+tls=broker.example:19093"}
    with guarded(files, advertised) as broker:
        with client(broker, files=files) as through_tls:
            assert [str(where) for where in through_tls.cluster().nodes.values()] == ["broker.example:19093"]
        with client(broker) as without:
            assert [str(where) for where in without.cluster().nodes.values()] == [broker.kafka]


def test_the_http_token_is_asked_for_by_all_but_the_probes(files, tmp_path):
    (tmp_path / "token").write_text("a-token\n")
    settings = {"security.http_token_file": str(tmp_path / "token"), **files.settings}
    with Broker(settings, listen={"http+tls": "127.0.0.1:0"}) as broker:
        trusted = ssl.create_default_context(cafile=files.ca)
        for base in (f"http://{broker.http}", f"https://{broker.listening['http+tls']}"):
            assert urllib.request.urlopen(f"{base}/readyz", context=trusted).read() == b"ok\n"
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"{base}/metrics", context=trusted)
            right = urllib.request.Request(f"{base}/metrics", headers={"Authorization": "Bearer a-token"})
            assert b"mainstem_" in urllib.request.urlopen(right, context=trusted).read()


def test_sighup_loads_the_certificates_again(tmp_path):
    files = Files(tmp_path)
    with guarded(files, process=True) as broker:
        host, port = broker.listening["kafka+tls"].rsplit(":", 1)
        before = ssl.get_server_certificate((host, int(port)))
        files.write_server(trustme.CA())
        os.kill(broker._runner._process.pid, signal.SIGHUP)
        while ssl.get_server_certificate((host, int(port))) == before:
            time.sleep(0.01)
        assert ssl.get_server_certificate((host, int(port))) in files.cert.read_text()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda files: files.key.unlink(), "tls_key_file .* cannot be read"),
        (lambda files: files.key.write_bytes(files.client_key.read_bytes()), "is not the key of"),
        (lambda files: files.cert.write_text("nothing"), "not both PEM"),
        (lambda files: files.ca.write_text("nothing"), "holds no certificate"),
        (
            lambda files: (files.folder / "users.toml").write_text("[users]\nadmin = 7"),
            "user 'admin' must be",
        ),
        (lambda files: (files.folder / "users.toml").unlink(), "users_file .* cannot be read"),
    ],
)
def test_files_that_cannot_be_used_are_named_before_a_port_opens(tmp_path, spoil, said):
    files = Files(tmp_path)
    spoil(files)
    with pytest.raises(InvalidConfig, match=said):
        guarded(files).start()


def test_beyond_loopback_without_authentication_nothing_starts():
    with pytest.raises(InvalidConfig, match="reachable from other machines"):
        Broker(listen={"kafka": "0.0.0.0:0"}).start()
    assert load({"server.listen": "kafka=0.0.0.0:0"}, {})  # it is serving that is refused
