"""What is staged appears at once, once for each batch of a sink, and survives a kill."""

import pytest
from confluent_kafka import Consumer, Producer
from kafka_kit import new_name

from mainstem.client import Client, ClientSettings, TopicPartition, admin, parse_bootstrap, sinks
from mainstem.model.batch import read_header
from mainstem.model.errors import BrokerRefused
from mainstem.model.records import Record, encode_batch
from mainstem.testing.broker import Broker
from mainstem.wire.kafka.api_versions import ApiVersionsRequest, ApiVersionsResponse
from mainstem.wire.kafka.apis import ApiKey


def client_of(address):
    return Client(ClientSettings(parse_bootstrap(address)))


@pytest.fixture
def client(address):
    with client_of(address) as client:
        yield client


def batch(*values, key=b"k"):
    return encode_batch([Record(0, 1000 + i, key, value) for i, value in enumerate(values)])


def staged(client, *batches):
    sinks.prepare(client)
    return [sinks.stage(client, one) for one in batches]


def values(client, topic, partition=0):
    place = TopicPartition(topic, partition)
    found, offset = [], 0
    while True:
        (fetched,) = client.fetch({place: offset}, max_wait_ms=10)
        records = list(fetched.check().decoded())
        if not records:
            return found
        found += [(record.offset, record.value) for record in records]
        offset = records[-1].offset + 1


def test_batches_of_many_partitions_appear_together_in_order(client, topic):
    admin.create_topic(client, topic, 2)
    client.produce({TopicPartition(topic, 0): batch(b"before")})
    first, second, third = staged(client, batch(b"a", b"b"), batch(b"c"), batch(b"d"))
    assert values(client, topic) == [(0, b"before")]
    wanted = {TopicPartition(topic, 0): [third, first], TopicPartition(topic, 1): [second]}
    assert sinks.publish(client, new_name("sink"), 0, wanted)
    assert values(client, topic) == [(0, b"before"), (1, b"d"), (2, b"a"), (3, b"b")]
    assert values(client, topic, 1) == [(0, b"c")]
    client.produce({TopicPartition(topic, 0): batch(b"after")})
    assert values(client, topic)[-1] == (4, b"after")


def test_other_clients_read_them_as_any_others(client, address, topic):
    admin.create_topic(client, topic, 1)
    (offset,) = staged(client, batch(*[b"%d" % i for i in range(100)]))
    sinks.publish(client, new_name("sink"), 0, {TopicPartition(topic, 0): [offset]})
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": new_name("g"),
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    found = []
    while len(found) < 100:
        message = consumer.poll(30)
        assert message is not None, "waited in vain"
        assert message.error() is None
        found.append((message.offset(), message.value(), message.timestamp()[1]))
    consumer.close()
    assert found == [(i, b"%d" % i, 1000 + i) for i in range(100)]


def test_the_same_batch_again_is_a_replay_and_others_are_refused(client, topic):
    admin.create_topic(client, topic, 1)
    sink, place = new_name("sink"), TopicPartition(topic, 0)
    first, again, second = staged(client, batch(b"a"), batch(b"a"), batch(b"b"))
    assert sinks.publish(client, sink, 7, {place: [first]})
    assert not sinks.publish(client, sink, 7, {place: [again]})
    with pytest.raises(BrokerRefused, match="published with 1 records, and has 2 now.*a new checkpoint"):
        sinks.publish(client, sink, 7, {place: [again, second]})
    with pytest.raises(BrokerRefused, match="7 was published last, so 8 is next"):
        sinks.publish(client, sink, 9, {place: [second]})
    with pytest.raises(BrokerRefused, match="so 8 is next"):
        sinks.publish(client, sink, 6, {place: [second]})
    assert sinks.publish(client, sink, 8, {place: [second]})
    assert sinks.publish(client, sink, 9, {})
    assert values(client, topic) == [(0, b"a"), (1, b"b")]


def test_a_batch_that_shrank_before_it_was_repeated_is_a_replay_and_told_of(topic, caplog):
    """As compaction or retention may have done since it was published."""
    with Broker() as broker, client_of(broker.kafka) as client:
        admin.create_topic(client, topic, 1)
        place = TopicPartition(topic, 0)
        first, again, third = staged(client, batch(b"a", b"b", b"c"), batch(b"a", b"c"), batch(b"d"))
        assert sinks.publish(client, "s", 0, {place: [first]})
        assert not sinks.publish(client, "s", 0, {place: [again]})
        with pytest.raises(BrokerRefused, match="published with 3 records, and has 5 now"):
            sinks.publish(client, "s", 0, {place: [first, again]})
        assert sinks.publish(client, "s", 1, {place: [third]})
        assert [value for _, value in values(client, topic)] == [b"a", b"b", b"c", b"d"]
    (told,) = [one.facts for one in caplog.records if "fewer records" in one.message]
    assert told == {"sink": "s", "batch": 0, "published": 3, "repeated": 2}


def test_a_writer_that_may_leave_numbers_out_still_writes_none_twice(client, topic):
    admin.create_topic(client, topic, 1)
    sink, place = new_name("sink"), TopicPartition(topic, 0)
    first, second, third = staged(client, batch(b"a"), batch(b"b"), batch(b"c"))
    assert sinks.publish(client, sink, 3, {place: [first]}, may_skip=True)
    assert sinks.publish(client, sink, 7, {place: [second]}, may_skip=True)
    assert not sinks.publish(client, sink, 7, {place: [second]}, may_skip=True)
    with pytest.raises(BrokerRefused, match="7 was published last, so a later one is next"):
        sinks.publish(client, sink, 5, {place: [third]}, may_skip=True)
    assert values(client, topic) == [(0, b"a"), (1, b"b")]


def test_what_was_not_staged_cannot_be_published(client, topic):
    admin.create_topic(client, topic, 1)
    place = TopicPartition(topic, 0)
    first, _ = staged(client, batch(b"a", b"b"), batch(b"c"))
    for wrong in (first.offset + 1, first.offset + 100_000, -1):
        with pytest.raises(BrokerRefused, match=f"no batch was staged at offset {wrong}"):
            sinks.publish(client, new_name("sink"), 0, {place: [first, first._replace(offset=wrong)]})
    with pytest.raises(BrokerRefused, match="is another one"):
        sinks.publish(client, new_name("sink"), 0, {place: [first._replace(crc=1)]})
    with pytest.raises(BrokerRefused, match="3 records were to be published, and 2 are staged"):
        sinks.publish(client, new_name("sink"), 0, {place: [first._replace(records=3)]})
    with pytest.raises(BrokerRefused, match="named twice"):
        sinks.publish(client, new_name("sink"), 0, {place: [first, first]})
    assert values(client, topic) == []
    with pytest.raises(BrokerRefused, match="there is no topic"):
        sinks.publish(client, new_name("sink"), 0, {TopicPartition(f"{topic}-x", 0): [first]})


def test_a_compacted_topic_wants_keys(client, topic):
    admin.create_topic(client, topic, 1, {"cleanup.policy": "compact"})
    (offset,) = staged(client, batch(b"a", key=None))
    with pytest.raises(BrokerRefused, match="no key"):
        sinks.publish(client, new_name("sink"), 0, {TopicPartition(topic, 0): [offset]})


def test_only_our_own_client_is_told_of_it(address):
    settings = ClientSettings(parse_bootstrap(address))
    with Client(settings) as client:
        assert client.connection().offers(ApiKey.PUBLISH_STAGED)
        answer = client.ask(ApiVersionsRequest("apache-kafka-java", "4.3.1"), ApiVersionsResponse)
    assert int(ApiKey.PUBLISH_STAGED) not in {offer.api_key for offer in answer.api_keys}


@pytest.mark.parametrize("kill", [True, False])
def test_a_restart_keeps_what_was_published_and_its_number(kill, topic):
    with Broker(process=True) as broker:
        with client_of(broker.kafka) as client:
            admin.create_topic(client, topic, 1)
            place = TopicPartition(topic, 0)
            offsets = staged(client, *[batch(b"%d" % i) for i in range(3)])
            sinks.publish(client, "s", 0, {place: offsets[:2]})
        if kill:
            broker.kill()
        else:
            broker.stop()
        broker.start()
        with client_of(broker.kafka) as client:
            assert values(client, topic) == [(0, b"0"), (1, b"1")]
            assert not sinks.publish(client, "s", 0, {place: offsets[:2]})
            assert sinks.publish(client, "s", 1, {place: offsets[2:]})
            assert values(client, topic) == [(0, b"0"), (1, b"1"), (2, b"2")]


def test_bodies_outlive_their_staging(own_broker, topic):
    """Staged records may be deleted once they are published: the links keep their bytes."""
    with client_of(own_broker.kafka) as client:
        admin.create_topic(client, topic, 1)
        offsets = staged(client, *[batch(b"%d" % i * 1000) for i in range(50)])
        sinks.publish(client, "s", 0, {TopicPartition(topic, 0): offsets})
        admin.delete_records(client, {sinks.STAGING: -1})
        expected = [(i, b"%d" % i * 1000) for i in range(50)]
        assert values(client, topic) == expected
    own_broker.stop()
    own_broker.start()
    with client_of(own_broker.kafka) as client:
        assert values(client, topic) == expected


def test_a_fetch_takes_no_more_of_linked_batches_than_it_asked_for(client, topic):
    admin.create_topic(client, topic, 1)
    place = TopicPartition(topic, 0)
    some = staged(client, *[batch(b"%02d" % i * 50_000) for i in range(20)])
    sinks.publish(client, new_name("sink"), 0, {place: some})
    (fetched,) = client.fetch({place: 0}, partition_max_bytes=250_000)
    assert len(fetched.check().records) < 400_000
    (fetched,) = client.fetch({place: 0}, partition_max_bytes=1)
    assert [record.offset for record in fetched.check().decoded()] == [0]
    assert values(client, topic) == [(i, b"%02d" % i * 50_000) for i in range(20)]


def test_batches_of_producers_cannot_be_published(client, address, topic):
    admin.create_topic(client, topic, 1)
    sinks.prepare(client)
    producer = Producer({"bootstrap.servers": address, "transactional.id": new_name("tx")})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(sinks.STAGING.topic, b"v")
    producer.commit_transaction(30)
    _, end = client.bounds([sinks.STAGING.topic])[sinks.STAGING]
    for offset in (end - 2, end - 1):  # the batch and its marker
        (fetched,) = client.fetch({sinks.STAGING: offset})
        header = read_header(fetched.check().records)
        wanted = sinks.Staged(header.base_offset, header.crc, 1)
        with pytest.raises(BrokerRefused, match="has a producer"):
            sinks.publish(client, new_name("sink"), 0, {TopicPartition(topic, 0): [wanted]})


def test_staging_is_internal(client, address):
    sinks.prepare(client)
    assert sinks.STAGING.topic not in admin.topic_names(client)
    assert sinks.STAGING.topic in admin.topic_names(client, internal=True)
