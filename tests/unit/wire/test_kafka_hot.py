"""The hand-written Produce and Fetch against the general codec."""

from __future__ import annotations

import pytest
from kafka_samples import messages

from mainstem.model.errors import InvalidRequest
from mainstem.wire.kafka import codec, hot
from mainstem.wire.kafka.apis import SPECS, ApiKey
from mainstem.wire.kafka.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from mainstem.wire.kafka.frames import decode_response, encode_response
from mainstem.wire.kafka.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

PRODUCE, FETCH = SPECS[ApiKey.PRODUCE], SPECS[ApiKey.FETCH]
PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
TOPIC_ID = bytes(range(16))
FETCH_FIELDS = (
    "max_wait_ms",
    "min_bytes",
    "max_bytes",
    "isolation_level",
    "session_id",
    "session_epoch",
    "rack_id",
)
HEAD = b"\xff\xff\x00\x01\x00\x00\x00\x05"  # no transactional id, acks 1, 5 ms


def plain_produce(request: ProduceRequest, version: int):
    topics = [
        (
            topic.topic_id if version >= 13 else topic.name,
            [(p.index, None if p.records is None else bytes(p.records)) for p in topic.partition_data],
        )
        for topic in request.topic_data
    ]
    return request.transactional_id, request.acks, request.timeout_ms, topics


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_requests_read_as_the_general_codec_reads_them(version):
    samples = list(messages(ProduceRequest, version, count=40))
    partition = PartitionProduceData(index=3, records=b"r" * 300)
    one = TopicProduceData(name="orders", topic_id=TOPIC_ID, partition_data=[partition])
    samples += [
        ProduceRequest(acks=-1, timeout_ms=5, topic_data=[one]),
        ProduceRequest(transactional_id="", topic_data=[one, one]),
        ProduceRequest(transactional_id="t" * 200, topic_data=[one] * 200),
    ]
    for request in samples:
        data = memoryview(b"head" + codec.encode(request, version))
        parsed = hot.parse_produce(data, 4, version)
        found = [(t, [(p, None if r is None else bytes(r)) for p, r in ps]) for t, ps in parsed[3]]
        assert (*parsed[:3], found) == plain_produce(request, version)


def test_produced_records_are_views_into_the_request():
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(records=b"records")])
    data = memoryview(codec.encode(ProduceRequest(topic_data=[topic]), 9))
    records = hot.parse_produce(data, 0, 9)[3][0][1][0][1]
    assert isinstance(records, memoryview)
    assert records.obj is data.obj


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_produce_request_cut_anywhere_names_the_field(version):
    for request in messages(ProduceRequest, version, count=3):
        data = memoryview(codec.encode(request, version))
        for cut in range(len(data)):
            with pytest.raises(InvalidRequest, match=rf"ProduceRequest v{version}: \w+\b.*: "):
                hot.parse_produce(data[:cut], 0, version)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_responses_are_those_of_the_general_codec(version):
    topic = TOPIC_ID if version >= 13 else "größe"
    rows = [(0, 0, 7, -1, 3, None), (5, 87, -1, 2**40, -1, "no key"), (6, 2, -1, -1, -1, "x" * 200)]
    rows.append((7, 87, -1, -1, -1, ("keys are missing", [0, 3, 200])))
    results = [(topic, rows), (topic, rows[:1]), (topic, [])]
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="" if version >= 13 else "größe",
                topic_id=TOPIC_ID,
                partition_responses=[
                    PartitionProduceResponse(
                        index=p,
                        error_code=error,
                        base_offset=base,
                        log_append_time_ms=append,
                        log_start_offset=start,
                        error_message=why[0] if isinstance(why, tuple) else why,
                        record_errors=[
                            BatchIndexAndErrorMessage(batch_index=position)
                            for position in (why[1] if isinstance(why, tuple) and version >= 8 else ())
                        ],
                    )
                    for p, error, base, append, start, why in partitions
                ],
            )
            for _, partitions in results
        ],
        throttle_time_ms=9,
    )
    assert hot.encode_produce_response(42, version, results, 9) == encode_response(
        PRODUCE, version, 42, response
    )
    assert decode_response(PRODUCE, version, hot.encode_produce_response(1, version, [], 0)[4:]) == (
        1,
        ProduceResponse(),
    )


def topic_of(version: int, topic) -> str | bytes:
    return topic.topic_id if version >= 13 else topic.topic


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_requests_read_as_the_general_codec_reads_them(version):
    for request in messages(FetchRequest, version, count=40):
        query = hot.parse_fetch(memoryview(b"head" + codec.encode(request, version)), 4, version)
        for name in FETCH_FIELDS:
            assert getattr(query, name) == getattr(request, name)
        assert query.topics == [
            (
                topic_of(version, topic),
                [
                    (
                        p.partition,
                        p.current_leader_epoch,
                        p.fetch_offset,
                        p.log_start_offset,
                        p.partition_max_bytes,
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        assert query.forgotten == [
            (topic_of(version, topic), topic.partitions) for topic in request.forgotten_topics_data
        ]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_fetch_request_tells_where_its_last_offset_stands(version):
    partitions = [
        FetchPartition(partition=1, fetch_offset=5),
        FetchPartition(partition=2, fetch_offset=1 << 40),
    ]
    for last in ([], partitions):
        topics = [FetchTopic(topic="tt", partitions=partitions), FetchTopic(topic="tt", partitions=last)]
        frame = b"head" + codec.encode(FetchRequest(topics=topics), version)
        at = hot.parse_fetch(memoryview(frame), 4, version).offset_at
        assert int.from_bytes(frame[at : at + 8], "big") == 1 << 40


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_fetch_request_cut_anywhere_names_the_field(version):
    for request in messages(FetchRequest, version, count=3):
        data = memoryview(codec.encode(request, version))
        for cut in range(len(data)):
            with pytest.raises(InvalidRequest, match=rf"FetchRequest v{version}: \w+\b.*: "):
                hot.parse_fetch(data[:cut], 0, version)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_responses_are_those_of_the_general_codec_without_copying_records(version):
    topic = TOPIC_ID if version >= 13 else "orders"
    big = memoryview(b"r" * 70_000)
    rows = [
        (0, 0, 10, 9, 1, None, [b"abc", big, b"def"]),
        (1, 0, 10, 9, 1, [], []),
        (2, 3, -1, -1, -1, [(7, 8), (9, 10)], [b"z"]),
    ]
    topics = [(topic, rows), (topic, [])]
    response = FetchResponse(
        throttle_time_ms=4,
        error_code=5,
        session_id=6,
        responses=[
            FetchableTopicResponse(
                topic="" if version >= 13 else "orders",
                topic_id=TOPIC_ID,
                partitions=[
                    PartitionData(
                        partition_index=p,
                        error_code=error,
                        high_watermark=high,
                        last_stable_offset=stable,
                        log_start_offset=start,
                        aborted_transactions=aborted
                        if aborted is None
                        else [AbortedTransaction(*pair) for pair in aborted],
                        records=b"".join(pieces),
                    )
                    for p, error, high, stable, start, aborted, pieces in partitions
                ],
            )
            for _, partitions in topics
        ],
    )
    chunks = hot.encode_fetch_response(42, version, 4, 5, 6, topics)
    assert any(chunk is big for chunk in chunks)
    assert b"".join(chunks) == encode_response(FETCH, version, 42, response)
    empty = b"".join(hot.encode_fetch_response(1, version, 0, 0, 0, []))
    assert empty == encode_response(FETCH, version, 1, FetchResponse())


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"\x7f\xff\xff\xff\x00\x01t" + bytes(30),  # too many topics
        HEAD + b"\x00\x00\x00\x01\x00\x01t\x7f\xff\xff\xff" + bytes(30),  # too many partitions
        HEAD + b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01" + bytes(4) + b"\x7f\xff\xff\xff",
        HEAD + b"\xff\xff\xff\xfe" + bytes(9),  # a negative count
        b"\xff\xfe" + HEAD[2:] + bytes(13),  # a negative length
    ],
)
def test_hostile_counts_and_lengths_in_produce_are_refused(data):
    with pytest.raises(InvalidRequest, match="ProduceRequest v7: .*(count|length) -?[0-9]+"):
        hot.parse_produce(memoryview(data), 0, 7)
