"""Bytes that no client should send: a typed error or a closed connection, a line in the log that names the
peer, memory within bounds, and a broker that goes on."""

from __future__ import annotations

import random
import re
import struct
import threading
import time

import pytest
import zstandard
from kafka_kit import join_request, until
from raw_kafka import Raw, header

from mainstem.model.record import Record
from mainstem.model.records import encode_batch
from mainstem.testing import Broker
from mainstem.wire.kafka.apis import SPECS, ApiKey
from mainstem.wire.kafka.fetch import FetchPartition, FetchTopic
from mainstem.wire.kafka.frames import decode_response, encode_request
from mainstem.wire.kafka.groups import SyncGroupRequestAssignment
from mainstem.wire.kafka.produce import PartitionProduceData, TopicProduceData
from mainstem.wire.kafka.topics import CreatableTopic, CreatableTopicConfig

MIB = 1 << 20
GROUP_MAX_SIZE_REACHED, UNKNOWN_SERVER_ERROR = 81, -1


@pytest.fixture(scope="module")
def broker():
    with Broker({"topics.max_message_bytes": "8 MiB"}, process=True) as running:
        with Raw(running.kafka) as raw:
            made = [
                CreatableTopic(name="plain", num_partitions=1, replication_factor=1),
                CreatableTopic(
                    name="compacted",
                    num_partitions=1,
                    replication_factor=1,
                    configs=[CreatableTopicConfig(name="cleanup.policy", value="compact")],
                ),
            ]
            raw.ask(ApiKey.CREATE_TOPICS, 7, topics=made)
        yield running


@pytest.fixture
def raw(broker):
    with Raw(broker.kafka) as connection:
        yield connection


def batch(value: bytes = b"value", key: bytes | None = b"key") -> bytes:
    return bytes(encode_batch([Record(0, int(time.time() * 1000), key, value)]))


def produce(raw, records, topic="plain", version=9) -> int:
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])]
    answer = raw.ask(ApiKey.PRODUCE, version, acks=-1, timeout_ms=5000, topic_data=data)
    return answer.responses[0].partition_responses[0].error_code


def assert_goes_on(broker) -> None:
    """Somebody else is served as if nothing had happened."""
    with Raw(broker.kafka) as other:
        assert produce(other, batch()) == 0


def assert_logged(broker, peer: str, word: str) -> None:
    log = broker._runner.log
    wanted = re.compile(f"{word}.*peer={re.escape(peer)} ")
    until(lambda: wanted.search(log.read_text()), f"a line about {peer}")


def assert_closed_and_logged(broker, raw, word: str = "connection closed") -> None:
    assert raw.is_closed()
    assert_logged(broker, raw.peer, word)
    assert_goes_on(broker)


def memory_mib(broker) -> int:
    status = open(f"/proc/{broker._runner._process.pid}/status").read()  # noqa: SIM115
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


# --- headers and sizes ---------------------------------------------------------------------------


@pytest.mark.parametrize("key", [-1, 4, 5, 6, 7, 71, 999, 32767])
def test_an_unknown_api_key_closes_the_connection(broker, raw, key):
    raw.send_frame(header(key, 0))
    assert_closed_and_logged(broker, raw)


@pytest.mark.parametrize(
    ("key", "version"),
    [(key, version) for key in (0, 1, 3, 19) for version in (-1, 99)] + [(0, 0), (0, 1), (0, 2)],
)
def test_an_unknown_version_closes_the_connection(broker, raw, key, version):
    raw.send_frame(header(key, version) + b"\0" * 20)
    assert_closed_and_logged(broker, raw)


@pytest.mark.parametrize("tail", [b"", b"\0", b"\0\x04raw\x021\0"])
def test_api_versions_of_an_unknown_version_is_answered_in_version_0_and_the_connection_goes_on(raw, tail):
    raw.send_frame(header(18, 99) + b"\0" + tail)
    correlation_id, answer = decode_response(SPECS[ApiKey.API_VERSIONS], 0, raw.receive_frame())
    assert (correlation_id, answer.error_code) == (7, 35)
    offered = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert offered[ApiKey.API_VERSIONS] == (0, 4)
    assert raw.ask(ApiKey.API_VERSIONS, 4, client_software_name="a", client_software_version="1")


@pytest.mark.parametrize("name", ["", "with blank", "-x", "x." + "y" * 30_000 + "."])
def test_api_versions_of_a_client_without_a_proper_name_is_an_invalid_request(raw, name):
    for names in ((name, "1"), ("a", name)):
        answer = raw.ask(
            ApiKey.API_VERSIONS, 3, client_software_name=names[0], client_software_version=names[1]
        )
        assert (answer.error_code, answer.api_keys) == (42, [])
    assert raw.ask(ApiKey.API_VERSIONS, 3, client_software_name="a.b-c", client_software_version="1").api_keys


@pytest.mark.parametrize("size", [0, -1, -(2**31), 100 * MIB + 1, 2**31 - 1])
def test_an_impossible_size_closes_the_connection(broker, raw, size):
    raw.send(struct.pack(">i", size) + b"abcdefgh")
    assert_closed_and_logged(broker, raw)


@pytest.mark.parametrize("length", range(1, 10))
def test_a_frame_too_short_for_a_header_closes_the_connection(broker, raw, length):
    raw.send_frame(header(18, 0)[:length])
    assert_closed_and_logged(broker, raw)


def test_a_client_id_that_lies_about_its_length_closes_the_connection(broker, raw):
    raw.send_frame(struct.pack(">hhih", 18, 0, 1, 5000) + b"short")
    assert_closed_and_logged(broker, raw)


def test_a_truncated_request_that_ends_with_the_connection_is_forgotten(broker):
    for cut in (1, 3, 5, 20):
        with Raw(broker.kafka) as raw:
            peer = raw.peer
            raw.send(struct.pack(">i", 1000)[:cut] + b"x" * (cut - 4))
        assert_logged(broker, peer, "connection ended within a request")
    assert_goes_on(broker)


def test_a_connection_that_was_idle_for_too_long_is_closed_without_a_warning():
    settings = {"server.idle_timeout_ms": 1000, "log.level": "info"}
    with Broker(settings, process=True) as broker, Raw(broker.kafka) as raw:
        assert raw.is_closed()
        assert_logged(broker, raw.peer, "info +connection closed")


def test_a_connection_that_ends_between_requests_is_nobodys_concern(broker):
    before = len(broker._runner.log.read_text())
    with Raw(broker.kafka) as raw:
        peer = raw.peer
        assert produce(raw, batch()) == 0
    with Raw(broker.kafka) as raw:
        later = raw.peer
        raw.send(b"\0")
    assert_logged(broker, later, "connection ended within a request")
    assert f"peer={peer} " not in broker._runner.log.read_text()[before:]


# --- bodies --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (ApiKey.METADATA, 1, struct.pack(">i", 2**31 - 1)),
        (ApiKey.METADATA, 1, struct.pack(">i", -7)),
        (ApiKey.METADATA, 12, b"\0\xff\xff\xff\xff\x0f"),
        (ApiKey.CREATE_TOPICS, 1, struct.pack(">i", 2**31 - 1)),
        (ApiKey.LIST_OFFSETS, 1, struct.pack(">ii", -1, 2**31 - 1)),
        (ApiKey.PRODUCE, 8, struct.pack(">hhii", -1, 1, 1000, 2**31 - 1)),
        (ApiKey.PRODUCE, 9, b"\0\0" + struct.pack(">hi", 1, 1000) + b"\xff\xff\xff\xff\x0f"),
        (ApiKey.FETCH, 11, struct.pack(">iiiibiii", -1, 0, 1, 1, 0, 0, -1, 2**31 - 1)),
        (ApiKey.FETCH, 12, b"\0" + struct.pack(">iiibii", 0, 1, 1, 0, 0, -1) + b"\xff\xff\xff\xff\x0f"),
        (
            ApiKey.OFFSET_COMMIT,
            2,
            b"\0\1g" + struct.pack(">i", 1) + b"\0\1m" + struct.pack(">qi", -1, 2**31 - 1),
        ),
    ],
    ids=str,
)
def test_an_array_count_beyond_its_bytes_closes_the_connection(broker, raw, key, version, body):
    raw.send_frame(header(key, version) + body)
    assert_closed_and_logged(broker, raw)


def test_text_that_is_not_utf8_closes_the_connection(broker, raw):
    raw.send_frame(header(3, 1) + struct.pack(">ih", 1, 2) + b"\xff\xfe")
    assert_closed_and_logged(broker, raw)


def test_a_name_that_is_not_utf8_in_a_produce_or_fetch_closes_the_connection(broker):
    with Raw(broker.kafka) as raw:
        raw.send_frame(header(0, 8) + struct.pack(">hhiih", -1, 1, 1000, 1, 2) + b"\xff\xfe" + b"\0" * 4)
        assert_closed_and_logged(broker, raw)
    with Raw(broker.kafka) as raw:
        raw.send_frame(header(1, 4) + struct.pack(">iiiibih", -1, 0, 1, 1, 0, 1, 2) + b"\xff\xfe" + b"\0" * 4)
        assert_closed_and_logged(broker, raw)


# --- batches -------------------------------------------------------------------------------------


def test_a_batch_with_a_bad_crc_is_corrupt(broker, raw):
    bad = bytearray(batch())
    bad[-1] ^= 1
    assert produce(raw, bytes(bad)) == 2
    assert_logged(broker, raw.peer, "batch refused")
    assert produce(raw, batch()) == 0


@pytest.mark.parametrize("cut", [0, 1, 12, 60, -1])
def test_a_batch_cut_short_is_refused(broker, raw, cut):
    assert produce(raw, batch()[:cut]) in (2, 87)
    assert_logged(broker, raw.peer, "batch refused")
    assert produce(raw, batch()) == 0


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("version", [3, 7, 9])
def test_a_message_set_of_old_magic_is_refused_as_such(broker, raw, magic, version):
    message = (
        struct.pack(">bb", magic, 0) + (b"\0" * 8 if magic else b"") + struct.pack(">i", -1) + b"\0\0\0\1v"
    )
    old = struct.pack(">qii", 0, len(message) + 4, 0) + message
    assert produce(raw, old, version=version) == 43
    assert_logged(broker, raw.peer, "batch refused")


def test_a_client_that_never_stops_sending_bad_batches_gets_one_line(broker, raw):
    bad = bytearray(batch())
    bad[-1] ^= 1
    for _ in range(200):
        assert produce(raw, bytes(bad)) == 2
    assert_logged(broker, raw.peer, "batch refused")
    log = broker._runner.log.read_text()
    assert log.count(f"peer={raw.peer} ") < 10


def test_a_batch_beyond_the_topics_limit_is_too_large(raw):
    assert produce(raw, batch(random.Random(1).randbytes(9 * MIB))) == 10
    assert produce(raw, batch()) == 0


def test_a_decompression_bomb_for_a_compacted_topic_is_refused_within_bounds(broker, raw):
    """A megabyte that would become sixteen gigabytes, once with honest sizes and once without any."""
    before = memory_mib(broker)
    for with_size in (True, False):
        packer = zstandard.ZstdCompressor(write_content_size=with_size)
        block = packer.compress(b"\0" * (256 * MIB))
        assert produce(raw, repacked(batch(), block, codec=4), topic="compacted") == 10
    assert_logged(broker, raw.peer, "batch refused")
    assert memory_mib(broker) - before < 300
    assert_goes_on(broker)


def repacked(made: bytes, payload: bytes, codec: int) -> bytes:
    """A batch with other compressed bytes, whose sizes and crc are right."""
    from fastcrc.crc32 import iscsi as crc32c

    head = bytearray(made[:61])
    struct.pack_into(">h", head, 21, codec)
    struct.pack_into(">i", head, 8, 61 - 12 + len(payload))
    struct.pack_into(">I", head, 17, crc32c(bytes(head[21:]) + payload))
    return bytes(head) + payload


# --- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "announced", "sent"),
    [(50, 90 * MIB, 45 * MIB), (400, MIB - 1000, MIB - 1001)],
    ids=["half of 90 MB", "all but a byte of 1 MB"],
)
def test_connections_that_announce_much_and_do_not_send_it_all_stay_within_bounds(
    broker, count, announced, sent
):
    before = memory_mib(broker)
    hostile = [Raw(broker.kafka) for _ in range(count)]
    stop = threading.Event()

    def send_most(raw: Raw) -> None:
        raw.socket.settimeout(0.5)
        begin = header(0, 9)
        left = sent - len(begin)
        piece = b"\0" * MIB
        try:
            raw.send(struct.pack(">i", announced) + begin)
            while left > 0 and not stop.is_set():
                try:
                    left -= raw.socket.send(piece[:left])
                except TimeoutError:
                    continue  # the broker does not read: that is the point
        except OSError:
            pass  # closed by the broker

    threads = [threading.Thread(target=send_most, args=(raw,)) for raw in hostile]
    for thread in threads:
        thread.start()
    highest = before
    try:
        with Raw(broker.kafka) as honest:
            for _ in range(200):
                assert produce(honest, batch(b"x" * 10_000)) == 0
                assert fetch(honest)
                highest = max(highest, memory_mib(broker))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for raw in hostile:
            raw.socket.close()
    assert highest - before < 300
    assert_goes_on(broker)


def fetch(raw, offset: int = 0, max_bytes: int = MIB):
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    answer = raw.ask(
        ApiKey.FETCH,
        11,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic="plain", partitions=[wanted])],
    )
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == 0
    return partition.records


def test_clients_that_never_read_their_answers_stay_within_bounds(broker):
    with Raw(broker.kafka) as writer:
        for seed in range(80):
            assert produce(writer, batch(random.Random(seed).randbytes(MIB - 1000))) == 0
    before = memory_mib(broker)
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100 * MIB)
    ask = encode_request(
        SPECS[ApiKey.FETCH],
        11,
        1,
        "slow",
        SPECS[ApiKey.FETCH].request(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=100 * MIB,
            topics=[FetchTopic(topic="plain", partitions=[wanted])],
        ),
    )
    slow = []
    highest = before
    try:
        for _ in range(40):
            reader = Raw(broker.kafka)
            reader.send(ask * 20)
            slow.append(reader)
            assert_goes_on(broker)
            highest = max(highest, memory_mib(broker))
        with Raw(broker.kafka) as quick:
            assert fetch(quick)
        highest = max(highest, memory_mib(broker))
        assert highest - before < 300
        # Whoever begins to read gets what it asked for.
        assert slow[0].receive_frame() is not None
        assert slow[-1].receive_frame() is not None
    finally:
        for reader in slow:
            reader.socket.close()


def joining(metadata: bytes, group: str) -> bytes:
    """In version 3, which members need no id for."""
    message = join_request(group, protocols={"range": metadata}, session_timeout_ms=1_800_000)
    return encode_request(SPECS[ApiKey.JOIN_GROUP], 3, 1, "raw", message)


def error_of_join(raw) -> int:
    return decode_response(SPECS[ApiKey.JOIN_GROUP], 3, raw.receive_frame())[1].error_code


def test_members_of_a_group_that_say_too_much_are_refused(broker, raw):
    with Raw(broker.kafka) as first, Raw(broker.kafka) as second:
        first.send(joining(bytes(3 * MIB), "talkers"))
        assert error_of_join(first) == 0
        second.send(joining(bytes(3 * MIB), "talkers"))  # waits for the first to join again
        until(
            lambda: len(raw.ask(ApiKey.DESCRIBE_GROUPS, 0, groups=["talkers"]).groups[0].members) == 2, "both"
        )
        raw.send(joining(bytes(3 * MIB), "talkers"))
        assert error_of_join(raw) == GROUP_MAX_SIZE_REACHED
    assert_goes_on(broker)


def test_members_of_many_groups_that_say_too_much_are_refused_and_memory_stays_within_bounds(broker):
    before = memory_mib(broker)
    codes = []
    for number in range(80):
        with Raw(broker.kafka) as raw:
            raw.send(joining(bytes(4 * MIB - 100), f"group-{number}"))
            codes.append(error_of_join(raw))
    assert codes[:60] == [0] * 60
    assert codes[64:] == [GROUP_MAX_SIZE_REACHED] * 16
    assert memory_mib(broker) - before < 300
    for number in range(80):
        with Raw(broker.kafka) as raw:
            described = raw.ask(ApiKey.DESCRIBE_GROUPS, 0, groups=[f"group-{number}"]).groups[0]
            for member in described.members:
                raw.ask(ApiKey.LEAVE_GROUP, 0, group_id=described.group_id, member_id=member.member_id)


def want(raw, number: int, epoch: int, names: list[str] | None = None) -> int:
    """A heartbeat of the only member of a group: by turns a consumer and a share group."""
    who = {"group_id": f"newer-{number}", "member_id": "m", "member_epoch": epoch}
    if number % 2:
        return raw.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, subscribed_topic_names=names, **who).error_code
    joins = {"rebalance_timeout_ms": 5000, "topic_partitions": []} if epoch == 0 else {}
    who |= {"subscribed_topic_names": names, **joins}
    return raw.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **who).error_code


def test_members_of_many_groups_that_want_too_much_are_refused_and_memory_stays_within_bounds(broker, raw):
    names = [f"{number:060}" for number in range(100_000)]
    assert want(raw, 0, 0, names) == 0
    before = memory_mib(broker)
    codes = [want(raw, number, 0, names) for number in range(1, 40)]
    assert codes[:25] == [0] * 25
    assert codes[31:] == [GROUP_MAX_SIZE_REACHED] * 8
    assert memory_mib(broker) - before < 600
    got_in = [0, *(number for number, code in enumerate(codes, 1) if code == 0)]
    assert [want(raw, number, -1) for number in got_in[:10]] == [0] * 10
    assert [want(raw, number, 0, names[:5000]) for number in (38, 39)] == [0, 0]
    for number in (*got_in[10:], 38, 39):
        assert want(raw, number, -1) == 0
    assert_goes_on(broker)


def test_assignments_that_are_too_much_for_a_group_are_refused(raw):
    raw.send(joining(bytes(3 * MIB), "assigned"))
    joined = decode_response(SPECS[ApiKey.JOIN_GROUP], 3, raw.receive_frame())[1]
    raw.correlation_id = 1
    codes = []
    for size in (6 * MIB, 4 * MIB):
        made = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(size))]
        fields = {"generation_id": joined.generation_id, "member_id": joined.member_id}
        answer = raw.ask(ApiKey.SYNC_GROUP, 2, group_id="assigned", assignments=made, **fields)
        codes.append(answer.error_code)
    assert codes == [UNKNOWN_SERVER_ERROR, 0]


# --- chance --------------------------------------------------------------------------------------


def valid_frames() -> list[bytes]:
    """A request of every API in a few versions, to be bent."""
    frames = []
    for spec in SPECS.values():
        for version in {spec.min_version, spec.max_version, (spec.min_version + spec.max_version) // 2}:
            frames.append(encode_request(spec, version, 1, "fuzz", spec.request())[4:])
    data = [TopicProduceData(name="plain", partition_data=[PartitionProduceData(index=0, records=batch())])]
    for version in (3, 8, 9, 12):
        spec = SPECS[ApiKey.PRODUCE]
        message = spec.request(acks=-1, timeout_ms=5, topic_data=data)
        frames.append(encode_request(spec, version, 1, "fuzz", message)[4:])
    wanted = [FetchTopic(topic="plain", partitions=[FetchPartition(partition=0, partition_max_bytes=99)])]
    for version in (4, 11, 12):
        spec = SPECS[ApiKey.FETCH]
        message = spec.request(max_wait_ms=0, max_bytes=99, topics=wanted)
        frames.append(encode_request(spec, version, 1, "fuzz", message)[4:])
    return frames


def bent(chance: random.Random, frame: bytes) -> bytes:
    bad = bytearray(frame)
    for _ in range(chance.choice((1, 1, 1, 2, 5, 20))):
        kind = chance.randrange(4)
        # The first two bytes say which API: mostly left alone, so that its own code is what gets the rest.
        at = chance.randrange(0 if chance.random() < 0.05 else 2, max(len(bad), 3))
        if kind == 0 and at < len(bad):
            bad[at] = chance.randrange(256)
        elif kind == 1:
            del bad[at : at + chance.randrange(1, 9)]
        elif kind == 2:
            bad[at:at] = chance.randbytes(chance.randrange(1, 9))
        else:
            bad[at : at + 4] = chance.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0"))
    return bytes(bad)


@pytest.mark.parametrize("seed", range(4))
def test_bent_requests_are_answered_or_end_their_connection_and_nothing_else(broker, seed):
    chance = random.Random(seed)
    frames = valid_frames()
    log = broker._runner.log
    for _ in range(250):
        with Raw(broker.kafka, timeout_s=0.2) as raw:
            try:
                for _ in range(chance.randrange(1, 4)):
                    raw.send_frame(bent(chance, chance.choice(frames)))
                while raw.receive_frame() is not None:
                    pass
            except TimeoutError:
                pass  # waits for more bytes, or for something that takes its time
            except ConnectionError:
                pass
    assert_goes_on(broker)
    lines = log.read_text().splitlines()
    internal = [
        line for line in lines if "internal error" in line or "Traceback" in line or " error " in line
    ]
    assert not internal, internal[:5]


# --- many small things ---------------------------------------------------------------------------


def test_a_produce_of_millions_of_empty_topics_is_refused_before_it_fills_memory(broker, raw):
    before = memory_mib(broker)
    count = 4 * MIB
    body = struct.pack(">hhii", -1, 1, 1000, count) + b"\0\0\0\0\0\0" * count
    raw.send_frame(header(0, 8) + body)
    assert_closed_and_logged(broker, raw)
    assert memory_mib(broker) - before < 100


def test_a_large_request_of_another_kind_is_refused_before_it_fills_memory(broker, raw):
    before = memory_mib(broker)
    count = 5 * MIB
    raw.send_frame(header(3, 1) + struct.pack(">i", count) + b"\0\0" * count)
    assert_closed_and_logged(broker, raw)
    assert memory_mib(broker) - before < 100


def test_a_request_decoded_off_the_loop_is_checked_like_any_other(broker, raw):
    raw.send_frame(header(3, 1) + struct.pack(">i", 100_000) + b"\0\1x" * 90_000)
    assert_closed_and_logged(broker, raw)


def test_thousands_of_partitions_in_one_produce_are_checked_in_one_pass(raw):
    data = [PartitionProduceData(index=index, records=None) for index in [*range(900), 5]]
    wanted = [TopicProduceData(name="plain", partition_data=data)]
    answer = raw.ask(ApiKey.PRODUCE, 9, acks=-1, timeout_ms=5000, topic_data=wanted)
    codes = [found.error_code for found in answer.responses[0].partition_responses]
    assert (codes[0], codes[5], codes[7], codes[-1]) == (87, 42, 3, 42)
