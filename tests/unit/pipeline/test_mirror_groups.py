"""Groups that follow a mirror, between two topics of one real broker; no Spark."""

import threading

import msgspec
import pytest

from mainstem.client import Client, ClientSettings, TopicPartition, admin, groups, parse_bootstrap
from mainstem.model.errors import BrokerUnreachable, InvalidRequest
from mainstem.model.records import Record, encode_batch
from mainstem.pipeline.jobs.mirror_groups import MappingReader, Wanted, move_groups, target_of
from mainstem.pipeline.jobs.mirror_mapping import Mapping, Run, Stretch
from mainstem.pipeline.jobs.mirror_topics import Copier, Selection
from mainstem.testing.broker import Broker

COPIES = Selection(names=("orders",), prefix="copy.")
ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("copy.orders", 0)


@pytest.fixture
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def client(broker):
    with Client(settings_of(broker)) as client:
        for topic in ("orders", "copy.orders", "mapping"):
            admin.create_topic(client, topic, 1, {})
        yield client


def settings_of(broker):
    return ClientSettings(parse_bootstrap(broker.kafka), attempts=1)


def fill(client, place, count):
    client.produce({place: encode_batch([Record(0, 1, None, b"%d" % i) for i in range(count)])})


def stretch(client, records):
    return Stretch(
        query="q",
        batch=0,
        topic="orders",
        partition=0,
        target="copy.orders",
        target_id=target_of(client, "copy.orders").id,
        source_end=records,
        target_start=0,
        records=records,
        runs=(Run(0, 0, records),),
    )


def mapping_of(*stretches):
    mapping = Mapping()
    for number, one in enumerate(stretches):
        mapping.apply(str(number), one)
    return mapping


class Choosy(Selection):
    """Fails for groups that have read one topic."""

    def selects(self, topic):
        if topic == "bad":
            raise InvalidRequest("topic 'bad' may not be seen")
        return super().selects(topic)


def test_a_group_that_cannot_be_moved_does_not_stop_the_others(client, caplog):
    admin.create_topic(client, "bad", 1, {})
    fill(client, COPY, 10)
    groups.commit_offsets(client, "a-first", {TopicPartition("bad", 0): 0})
    groups.commit_offsets(client, "b-second", {ORDERS: 7})
    choosy = Choosy(names=("orders",), prefix="copy.")
    assert move_groups(client, client, mapping_of(stretch(client, 10)), choosy, Wanted()) == {
        "b-second": {COPY: 7}
    }
    told = [record.facts for record in caplog.records if "was not moved" in record.message]
    assert [facts["group"] for facts in told] == ["a-first"]


def test_a_copy_that_was_deleted_and_made_anew_is_read_from_its_beginning(client):
    fill(client, COPY, 10)
    mapping = mapping_of(stretch(client, 10))
    groups.commit_offsets(client, "readers", {ORDERS: 7})
    assert move_groups(client, client, mapping, COPIES, Wanted()) == {"readers": {COPY: 7}}
    admin.delete_topic(client, "copy.orders")
    admin.create_topic(client, "copy.orders", 1, {})
    fill(client, COPY, 20)
    assert move_groups(client, client, mapping, COPIES, Wanted()) == {"readers": {COPY: 0}}


def test_what_somebody_else_wrote_into_the_mapping_is_passed_over(client):
    place = TopicPartition("mapping", 0)
    told = msgspec.json.encode(stretch(client, 3))
    values = [(b"k", b"nonsense"), (b"\xff", told), (b"k", b'{"query": 1}'), (b"k", told)]
    client.produce({place: encode_batch([Record(0, 1, key, value) for key, value in values])})
    mapping = MappingReader(client, place).catch_up()
    assert mapping.translate("orders", 0, 2, target_of(client, "copy.orders")) == 2


def test_a_task_waits_for_a_broker_that_is_away_when_it_makes_a_topic(broker, client):
    def copier(patience_s):
        return Copier(COPIES, settings_of(broker), client, with_configs=True, patience_s=patience_s)

    admin.delete_topic(client, "copy.orders")
    broker.stop()
    with pytest.raises(BrokerUnreachable):
        copier(0).ensure("orders", 1)
    made = []
    thread = threading.Thread(target=lambda: made.append(copier(60).ensure("orders", 1)))
    thread.start()
    broker.start()
    thread.join()
    assert made == ["copy.orders"]
    assert len(client.topic("copy.orders").partitions) == 1
