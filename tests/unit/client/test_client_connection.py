"""A connection to brokers that are absent, silent, old, or no brokers at all."""

import contextlib
import socket
import struct
import threading

import pytest

from mainstem.client import Address, Client, ClientSettings
from mainstem.client.connection import Connection
from mainstem.client.settings import Tls
from mainstem.model.errors import BrokerRefused, BrokerUnreachable, NotSupported
from mainstem.wire.kafka.api_versions import ApiVersion, ApiVersionsResponse
from mainstem.wire.kafka.apis import SPECS, ApiKey
from mainstem.wire.kafka.frames import decode_request_header, encode_response
from mainstem.wire.kafka.metadata import MetadataRequest, MetadataResponse
from mainstem.wire.kafka.topics import CreateTopicsRequest, CreateTopicsResponse


class FakeBroker:
    """Listens on loopback and answers each request with what `answer(key, version, id)` returns."""

    def __init__(self, answer):
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listener.getsockname())
        self.connections = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self.connections += 1
                with peer, contextlib.suppress(OSError, EOFError):
                    self._serve(peer)

    def _serve(self, peer):
        stream = peer.makefile("rb")
        while True:
            size = stream.read(4)
            if len(size) < 4:
                return
            header, _ = decode_request_header(stream.read(struct.unpack(">i", size)[0]))
            answer = self._answer(header.api_key, header.api_version, header.correlation_id)
            if answer is None:
                return
            peer.sendall(answer)

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


@pytest.fixture
def broker():
    made = []

    def make(answer):
        made.append(FakeBroker(answer))
        return made[-1]

    yield make
    for one in made:
        one.close()


def offers(*rows):
    versions = [ApiVersion(key, low, high) for key, low, high in rows]
    return lambda version, number, code=0: encode_response(
        SPECS[ApiKey.API_VERSIONS], version, number, ApiVersionsResponse(code, versions)
    )


def settings(address, **more):
    return ClientSettings((address,), backoff_s=0.001, **more)


def test_nobody_there_is_said_with_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = Address(*free.getsockname())
    with pytest.raises(BrokerUnreachable) as error:
        Client(settings(address)).cluster()
    assert str(error.value) == (
        f"cannot reach {address}: connection refused; is the broker running? start one with `mainstem serve`"
    )


def test_an_unknown_host_is_said():
    with pytest.raises(BrokerUnreachable, match="there is no host of that name"):
        Connection(Address("no-such-host.invalid", 9092), settings(Address("x", 1)))


def test_a_silent_broker_is_given_up_on():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address(*silent.getsockname())
        with pytest.raises(BrokerUnreachable, match=r"did not answer ApiVersions within 0\.05 s"):
            Connection(address, settings(address, request_timeout_s=0.05))


def test_one_that_hangs_up_at_once_may_want_tls(broker):
    fake = broker(lambda *_: None)
    with pytest.raises(BrokerUnreachable, match="does this listener want TLS"):
        Connection(fake.address, settings(fake.address))


def test_tls_to_a_listener_that_has_none_is_said():
    with socket.create_server(("127.0.0.1", 0)) as plain:
        address = Address(*plain.getsockname())
        with pytest.raises(BrokerUnreachable, match="is this a listener without TLS"):
            Connection(address, settings(address, tls=Tls(), connect_timeout_s=0.05))


def test_something_else_on_the_port_is_said(broker):
    fake = broker(lambda *_: b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(BrokerUnreachable, match="does it speak Kafka"):
        Connection(fake.address, settings(fake.address))


def test_an_old_broker_answers_in_version_0_and_is_understood(broker):
    fake = broker(lambda key, version, number: offers((3, 0, 5), (18, 0, 1))(0, number, 35))
    connection = Connection(fake.address, settings(fake.address))
    assert connection.versions == {3: (0, 5), 18: (0, 1)}
    assert connection.version_of(SPECS[ApiKey.METADATA]) == 5


def test_an_api_that_is_not_offered_is_an_honest_error(broker):
    fake = broker(lambda key, version, number: offers((18, 0, 4))(version, number))
    connection = Connection(fake.address, settings(fake.address))
    assert not connection.offers(ApiKey.CREATE_TOPICS)
    with pytest.raises(NotSupported, match="does not offer CreateTopics"):
        connection.ask(CreateTopicsRequest(), CreateTopicsResponse)


def test_a_connection_lost_on_the_way_is_made_again_a_few_times(broker):
    answer = offers((3, 0, 13), (18, 0, 4))
    fake = broker(lambda key, version, number: answer(version, number) if key == 18 else None)
    with pytest.raises(BrokerUnreachable, match="lost the connection to .* during Metadata"):
        Client(settings(fake.address, attempts=3)).cluster()
    assert fake.connections == 3


def test_a_connection_lost_while_idle_is_replaced_without_a_word(broker):
    answer = offers((3, 0, 13), (18, 0, 4))
    asked = []

    def once_per_connection(key, version, number):
        if key == 18:
            return answer(version, number)
        asked.append(number)
        return encode_response(SPECS[ApiKey.METADATA], version, number, MetadataResponse(cluster_id="c"))

    fake = broker(once_per_connection)
    client = Client(settings(fake.address, attempts=1))
    assert client.cluster().id == "c"
    client.connection()._socket.shutdown(socket.SHUT_RDWR)
    assert client.cluster().id == "c"
    assert fake.connections == 2
    client.close()


def test_an_answer_to_another_request_ends_the_connection(broker):
    answer = offers((3, 0, 13), (18, 0, 4))

    def confused(key, version, number):
        if key == 18:
            return answer(version, number)
        return encode_response(SPECS[ApiKey.METADATA], version, number + 7, MetadataResponse())

    fake = broker(confused)
    connection = Connection(fake.address, settings(fake.address))
    with pytest.raises(BrokerUnreachable, match="answered request 9 when 2 was next"):
        connection.ask(MetadataRequest(), MetadataResponse)
    assert connection.is_broken


def test_a_refusal_has_its_code_name_and_words(broker):
    from mainstem.client.codes import check

    with pytest.raises(BrokerRefused) as error:
        check(29, "topic 'orders'")
    assert (error.value.code, error.value.name) == (29, "TOPIC_AUTHORIZATION_FAILED")
    assert str(error.value) == "topic 'orders': topic authorization failed"
    with pytest.raises(BrokerRefused, match="topic 'orders': no more room"):
        check(44, "topic 'orders'", "no more room")
    with pytest.raises(BrokerRefused, match="error 999"):
        check(999, "x")
    check(0, "x")
