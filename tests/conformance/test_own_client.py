"""Our own small client against a broker, and against what other clients wrote."""

import itertools

import pytest
from confluent_kafka import Producer as ConfluentProducer

from mainstem.client import EARLIEST, LATEST, Client, ClientSettings, TopicPartition, admin, parse_bootstrap
from mainstem.client.producing import Producer, partition_of
from mainstem.model.batch import GZIP, LZ4, NO_CODEC, SNAPPY, ZSTD, iter_batches
from mainstem.model.errors import BrokerRefused, UnknownTopic
from mainstem.model.records import Record, encode_batch
from mainstem.testing import Broker

NOW_MS = 1_700_000_000_000
names = (f"topic-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def broker():
    with Broker({"topics.default_partitions": 3, "topics.retention_ms": -1}) as running:
        yield running


@pytest.fixture
def client(broker):
    with Client(ClientSettings(parse_bootstrap(broker.kafka))) as made:
        yield made


def records(*values, at_ms=NOW_MS):
    return [Record(0, at_ms + n, None, value) for n, value in enumerate(values)]


def read(client, place, offset=0):
    (fetched,) = client.fetch({place: offset})
    return [record.value for record in fetched.check().decoded()]


def test_a_topic_is_made_when_asked_for_and_only_then(client):
    name = next(names)
    with pytest.raises(UnknownTopic):
        client.topic(name)
    assert len(client.topic(name, create=True).partitions) == 3
    assert len(client.topic(name).partitions) == 3


def test_what_is_produced_is_fetched_as_the_same_batch(client):
    place = TopicPartition(next(names), 1)
    client.topic(place.topic, create=True)
    batch = encode_batch(records(b"a", b"b"))
    assert client.produce({place: batch}) == {place: 0}
    assert client.produce({place: batch}) == {place: 2}
    (fetched,) = client.fetch({place: 0})
    assert fetched.high_watermark == 4
    assert [header.base_offset for _, header in iter_batches(fetched.records)] == [0, 2]
    assert fetched.next_offset == 4
    assert bytes(fetched.records[16 : len(batch)]) == bytes(batch[16:])


def test_a_fetch_from_within_a_batch_gives_the_records_from_there(client):
    place = TopicPartition(next(names), 0)
    client.topic(place.topic, create=True)
    client.produce({place: encode_batch(records(b"a", b"b", b"c"))})
    assert read(client, place, 1) == [b"b", b"c"]
    assert read(client, place, 3) == []


def test_offsets_are_found_by_time(client):
    place = TopicPartition(next(names), 0)
    client.topic(place.topic, create=True)
    client.produce({place: encode_batch(records(b"a", b"b", b"c"))})
    assert client.offsets({place: NOW_MS + 1})[place].offset == 1
    assert client.offsets({place: NOW_MS + 99})[place].offset == -1
    assert client.offsets({place: EARLIEST})[place].offset == 0
    assert client.offsets({place: LATEST})[place].offset == 3
    assert client.bounds([place.topic])[place] == (0, 3)


def test_several_partitions_are_asked_at_once(client):
    topic = next(names)
    client.topic(topic, create=True)
    places = [TopicPartition(topic, partition) for partition in range(3)]
    client.produce({place: encode_batch(records(str(place.partition).encode())) for place in places})
    fetched = client.fetch(dict.fromkeys(places, 0))
    assert {one.place.partition: [r.value for r in one.decoded()] for one in fetched} == {
        0: [b"0"],
        1: [b"1"],
        2: [b"2"],
    }


def test_an_offset_beyond_the_end_is_told_per_partition(client):
    place = TopicPartition(next(names), 0)
    client.topic(place.topic, create=True)
    (fetched,) = client.fetch({place: 17}, max_wait_ms=0)
    with pytest.raises(BrokerRefused, match="offset 17: offset out of range"):
        fetched.check()


def test_acks_0_is_sent_and_not_waited_for(client):
    place = TopicPartition(next(names), 0)
    client.topic(place.topic, create=True)
    assert client.produce({place: encode_batch(records(b"quick"))}, acks=0) == {place: -1}
    assert read(client, place) == [b"quick"]  # same connection, so after it


@pytest.mark.parametrize("codec", [NO_CODEC, GZIP, SNAPPY, LZ4, ZSTD])
def test_the_producer_fills_batches_and_puts_keys_where_kafka_would(client, codec):
    topic = next(names)
    sent = []
    producer = Producer(
        client, topic, codec=codec, batch_bytes=2000, sent=lambda place, at, n: sent.append((place, at, n))
    )
    made = [Record(0, NOW_MS, f"k{n % 20}".encode(), b"v%d" % n, (("h", b"x"),)) for n in range(500)]
    for record in made:
        producer.add(record)
    producer.flush()
    assert sum(count for _, _, count in sent) == 500
    got = []
    for partition in range(3):
        place = TopicPartition(topic, partition)
        (fetched,) = client.fetch({place: 0})
        found = list(fetched.decoded())
        assert all(partition_of(record.key, 3) == partition for record in found)
        got += found
    key = lambda record: int(record.value[1:])  # noqa: E731
    assert [(r.key, r.value, r.headers) for r in sorted(got, key=key)] == [
        (r.key, r.value, r.headers) for r in made
    ]


def test_records_without_a_key_go_round_the_partitions(client):
    topic = next(names)
    producer = Producer(client, topic, batch_bytes=1000)
    for record in records(*[b"x" * 100] * 100):
        producer.add(record)
    producer.flush()
    counts = [end for _, end in client.bounds([topic]).values()]
    assert sum(counts) == 100
    assert min(counts) > 10


def test_it_reads_what_librdkafka_wrote(broker, client):
    topic = next(names)
    client.topic(topic, create=True)
    producer = ConfluentProducer({"bootstrap.servers": broker.kafka, "compression.type": "lz4"})
    for number in range(10):
        producer.produce(topic, str(number), "key", partition=2, headers={"n": str(number)})
    assert producer.flush(30) == 0
    (fetched,) = client.fetch({TopicPartition(topic, 2): 0})
    found = list(fetched.decoded())
    assert [record.value for record in found] == [str(number).encode() for number in range(10)]
    assert found[3].key == b"key"
    assert found[3].headers == (("n", b"3"),)


def test_it_finds_a_broker_that_was_restarted():
    with Broker() as broker, Client(ClientSettings(parse_bootstrap(broker.kafka))) as client:
        place = TopicPartition("kept", 0)
        client.topic("kept", create=True)
        client.produce({place: encode_batch(records(b"a"))})
        broker.restart()
        assert read(client, place) == [b"a"]
        broker.restart()
        assert client.produce({place: encode_batch(records(b"b"))}) == {place: 1}


def test_topics_are_created_changed_and_deleted(client):
    name = next(names)
    assert admin.create_topic(client, name, 2, {"retention.ms": "1000"}) == 2
    with pytest.raises(BrokerRefused, match="already exists"):
        admin.create_topic(client, name)
    admin.add_partitions(client, name, 5)
    assert len(client.topic(name).partitions) == 5
    admin.change_configs(client, admin.TOPIC, name, {"max.message.bytes": "2000"}, ["retention.ms"])
    own = {
        one.name: one.value for one in admin.configs_of(client, admin.TOPIC, name) if one.source == "topic"
    }
    assert own == {"max.message.bytes": "2000"}
    assert name in admin.topic_names(client)
    admin.delete_topic(client, name)
    with pytest.raises(UnknownTopic):
        client.topic(name)


def test_records_are_deleted_up_to_an_offset(client):
    place = TopicPartition(next(names), 0)
    client.topic(place.topic, create=True)
    client.produce({place: encode_batch(records(b"a", b"b", b"c"))})
    assert admin.delete_records(client, {place: 2}) == {place: 2}
    assert client.bounds([place.topic])[place] == (2, 3)
    assert read(client, place, 2) == [b"c"]
