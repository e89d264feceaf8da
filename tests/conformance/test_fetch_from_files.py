"""Large batches go from their file to the socket: the client must not be able to tell."""

from __future__ import annotations

import itertools
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka_kit import create_topic, new_name, read, take, until
from raw_kafka import Raw
from security_house import Files

from mainstem.kernel.log.disk import OsFile
from mainstem.kernel.log.sound import LARGE_SLICE
from mainstem.model.batch import place_batch
from mainstem.model.record import Record
from mainstem.model.records import encode_batch
from mainstem.testing import Broker
from mainstem.wire.kafka.apis import SPECS, ApiKey
from mainstem.wire.kafka.fetch import FetchPartition, FetchTopic
from mainstem.wire.kafka.frames import decode_response, encode_request
from mainstem.wire.kafka.produce import PartitionProduceData, TopicProduceData

CORRUPT_MESSAGE = 2
VALUE = bytes(range(256)) * 800  # 200 KiB
LARGE, SMALL = VALUE, b"small"


class Sent:
    """What went past the broker's memory: bytes that sockets took from files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        send = OsFile.send

        def counted(file: OsFile, socket_fd: int, size: int, position: int) -> int:
            took = send(file, socket_fd, size, position)
            self.bytes += took
            return took

        monkeypatch.setattr(OsFile, "send", counted)

    def reaches(self, size: int) -> None:
        """The broker's thread counts what the client may have seen already."""
        until(lambda: self.bytes >= size, f"{size} bytes to be counted")
        assert self.bytes == size


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    return Sent(monkeypatch)


@pytest.fixture
def broker(sent: Sent) -> Iterator[Broker]:
    """In this process, so that it can be watched; its answers may be larger than a socket takes at once."""
    with Broker({"server.max_response_bytes": 64 << 20}) as running:
        yield running


def produce(raw: Raw, topic: str, values: list[bytes]) -> list[bytes]:
    """One batch for each value; as the broker must give them back."""
    batches = []
    for offset, value in enumerate(values):
        batch = bytearray(encode_batch([Record(0, 1_700_000_000_000 + offset, b"k", value)]))
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, bytes(batch))])
        answer = raw.ask(ApiKey.PRODUCE, 9, acks=-1, timeout_ms=5000, topic_data=[data])
        (done,) = answer.responses[0].partition_responses
        assert (done.error_code, done.base_offset) == (0, offset)
        place_batch(batch, offset, 0)
        batches.append(bytes(batch))
    return batches


def wanted(topic: str, offset: int = 0, max_bytes: int = 64 << 20) -> dict[str, object]:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    return {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 64 << 20, "topics": topics}


def fetch(raw: Raw, topic: str, offset: int = 0, max_bytes: int = 64 << 20, version: int = 11) -> bytes:
    answer = raw.ask(ApiKey.FETCH, version, **wanted(topic, offset, max_bytes))
    (found,) = answer.responses[0].partitions
    assert found.error_code == 0
    return bytes(found.records or b"")


@pytest.mark.parametrize("version", [4, 6, 11, 12])
def test_large_and_small_batches_arrive_as_they_were_produced(broker, sent, version):
    create_topic(broker.kafka, "t")
    with Raw(broker.kafka) as raw:
        batches = produce(raw, "t", [LARGE, SMALL, SMALL, LARGE, LARGE, SMALL])
        assert fetch(raw, "t", version=version) == b"".join(batches)
        sent.reaches(sum(len(batch) for batch in batches if len(batch) >= LARGE_SLICE))
        assert fetch(raw, "t", 3, version=version) == b"".join(batches[3:])
        assert fetch(raw, "t", 5, version=version) == batches[5]


def test_small_batches_that_a_merge_put_together_are_sent_as_one_and_transactions_count_in_them(sent):
    settings = {
        "journal.file_bytes": "1 MiB",
        "journal.reserve_bytes": "64 KiB",
        "merge.delay_ms": 0,
        "snapshot.interval_ms": 1000,
    }
    with Broker(settings) as broker:
        create_topic(broker.kafka, "t")
        producer = Producer({"bootstrap.servers": broker.kafka, "transactional.id": "t"})
        producer.init_transactions()
        kept = []
        for number in range(150):
            producer.begin_transaction()
            for part in range(3):
                producer.produce("t", b"%d.%d" % (number, part) + VALUE[:8000])
                producer.flush()
            if number % 3:
                producer.commit_transaction()
                kept += [b"%d.%d" % (number, part) + VALUE[:8000] for part in range(3)]
            else:
                producer.abort_transaction()
        until(lambda: list(broker.data.glob("files/*.run")), "a merged file")
        before = read_values(broker.kafka, "t", len(kept))  # reads it from the file, and checks it
        taken = sent.bytes
        assert before == read_values(broker.kafka, "t", len(kept)) == kept
        assert sent.bytes > taken, "nothing was sent from the file"


def read_values(address: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": new_name("reader")})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        return [message.value() for message in take([consumer], count)]
    finally:
        consumer.close()


def test_limits_count_batches_that_are_not_read(broker, sent):
    create_topic(broker.kafka, "t")
    with Raw(broker.kafka) as raw:
        batches = produce(raw, "t", [LARGE, LARGE, LARGE])
        assert fetch(raw, "t", 0, 1) == batches[0]
        assert fetch(raw, "t", 0, 2 * len(batches[0]) - 1) == batches[0]
        assert fetch(raw, "t", 0, 2 * len(batches[0])) == batches[0] + batches[1]
        sent.reaches(4 * len(batches[0]))


def test_a_client_that_reads_slowly_gets_every_byte_in_order(broker, sent):
    create_topic(broker.kafka, "t")
    with Raw(broker.kafka) as raw:
        batches = produce(raw, "t", [b"%03d" % number + VALUE for number in range(100)])
    host, port = broker.kafka.rsplit(":", 1)
    with Raw(broker.kafka) as raw:
        raw.socket.close()
        raw.socket = socket.socket()
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.socket.settimeout(30)
        raw.socket.connect((host, int(port)))
        spec = SPECS[ApiKey.FETCH]
        for number in range(3):
            raw.send(encode_request(spec, 11, number, "raw", spec.request(**wanted("t", number))))
        for number in range(3):
            correlation_id, answer = decode_response(spec, 11, raw.receive_frame())
            (found,) = answer.responses[0].partitions
            assert (correlation_id, found.error_code) == (number, 0)
            assert bytes(found.records) == b"".join(batches[number:])
    assert 0 < sent.bytes < 3 * sum(map(len, batches)), "the socket should have taken a part only"


def test_many_fetches_sent_at_once_are_all_answered(broker):
    """More than the stack is deep: no answer may be sent from within the sending of the one before it."""
    create_topic(broker.kafka, "t")
    spec, count = SPECS[ApiKey.FETCH], 3000
    with Raw(broker.kafka) as raw:
        batches = produce(raw, "t", [SMALL])
        request = encode_request(spec, 11, 7, "raw", spec.request(**wanted("t")))
        raw.send(request * count)
        for _ in range(count):
            _, answer = decode_response(spec, 11, raw.receive_frame())
            assert bytes(answer.responses[0].partitions[0].records) == batches[0]


def test_through_tls_they_are_read_and_encrypted(sent, tmp_path):
    files = Files(tmp_path)
    settings = {"security.tls_cert_file": str(files.cert), "security.tls_key_file": str(files.key)}
    with Broker(settings, listen={"kafka+tls": "127.0.0.1:0"}) as broker:
        create_topic(broker.kafka, "t")
        with Raw(broker.kafka) as raw:
            batches = produce(raw, "t", [LARGE, SMALL, LARGE])
        with Raw(broker.listening["kafka+tls"]) as raw:
            trusting = ssl.create_default_context(cafile=str(files.ca))
            raw.socket = trusting.wrap_socket(raw.socket, server_hostname="localhost")
            assert fetch(raw, "t") == b"".join(batches)
    assert sent.bytes == 0


def damage(folder: Path, batch: bytes) -> None:
    """Change a byte in the middle of this batch, wherever it lies."""
    for path in folder.glob("files/*.journal"):
        at = path.read_bytes().find(batch)
        if at >= 0:
            with path.open("r+b") as file:
                file.seek(at + len(batch) // 2)
                file.write(bytes([batch[len(batch) // 2] ^ 1]))
            return
    raise AssertionError("the batch is in no journal file")


def test_what_an_earlier_process_wrote_is_checked_once_before_it_is_sent(broker, sent):
    create_topic(broker.kafka, "t")
    with Raw(broker.kafka) as raw:
        batches = produce(raw, "t", [LARGE, b"other" + LARGE])
    broker.restart()
    damage(broker.data, batches[1])
    with Raw(broker.kafka) as raw:
        for _ in range(2):
            answer = raw.ask(ApiKey.FETCH, 11, **wanted("t", 1))
            (found,) = answer.responses[0].partitions
            assert (found.error_code, found.records or b"") == (CORRUPT_MESSAGE, b"")
        assert fetch(raw, "t", 0, 1) == batches[0]
        assert sent.bytes == 0
        assert fetch(raw, "t", 0, 1) == batches[0]
        sent.reaches(len(batches[0]))


def test_a_file_that_turns_out_shorter_ends_the_connection_not_the_broker(broker, sent, monkeypatch):
    create_topic(broker.kafka, "t")
    with Raw(broker.kafka) as raw:
        batches = produce(raw, "t", [LARGE])
        monkeypatch.setattr(OsFile, "send", lambda *_: 0)
        monkeypatch.setattr(OsFile, "pread", lambda *_: b"")
        spec = SPECS[ApiKey.FETCH]
        raw.send(encode_request(spec, 11, 1, "raw", spec.request(**wanted("t"))))
        assert raw.receive_frame() is None
        monkeypatch.undo()
    with Raw(broker.kafka) as raw:
        assert fetch(raw, "t") == batches[0]


def test_aborted_transactions_are_told_of_beside_batches_that_are_not_read(broker, sent):
    create_topic(broker.kafka, "t")
    producer = Producer(
        {"bootstrap.servers": broker.kafka, "transactional.id": "x", "message.max.bytes": 4 << 20}
    )
    producer.init_transactions()
    for value, commit in itertools.product((b"a", b"b", b"c"), (True, False)):
        producer.begin_transaction()
        producer.produce("t", value=(value if commit else b"x") * (300 << 10))
        producer.flush()
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    assert read(broker.kafka, "t", 3) == [letter * (300 << 10) for letter in "abc"]
    assert sent.bytes > 0  # a socket that is full takes a part only
