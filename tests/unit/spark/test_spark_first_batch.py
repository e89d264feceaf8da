"""Spark does not write down where a query began: what is told of a first batch that is repeated."""

import json

import pytest

from mainstem.client import Client, ClientSettings, TopicPartition, admin, parse_bootstrap
from mainstem.model.errors import DataLost
from mainstem.model.records import Record, encode_batch
from mainstem.spark.source import MainstemSource
from mainstem.testing import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        yield broker


def reader_of(broker, topic, start):
    options = {"kafka.bootstrap.servers": broker.kafka, "subscribe": topic, "startingOffsets": start}
    return MainstemSource(options).streamReader(None)


def shrunk(broker, topic):
    """A topic of 20 records that has lost the first 5 since a batch of all was planned; where that ended."""
    place = TopicPartition(topic, 0)
    with Client(ClientSettings(parse_bootstrap(broker.kafka))) as client:
        admin.create_topic(client, topic, 1)
        client.produce({place: encode_batch([Record(0, 1000, None, b"v")] * 20)})
        admin.delete_records(client, {place: 5})
    return {topic: {"0": 20}}


def test_from_offsets_that_were_given_a_loss_is_noticed(broker):
    end = shrunk(broker, "given")
    reader = reader_of(broker, "given", json.dumps({"given": {"0": 0}}))
    with pytest.raises(DataLost, match="offsets 0 to 4 are gone"):
        reader.partitions(reader.initialOffset(), end)
    reader.stop()


def test_from_the_beginning_it_is_not_as_the_documents_say(broker):
    end = shrunk(broker, "beginning")
    reader = reader_of(broker, "beginning", "earliest")
    (piece,) = reader.partitions(reader.initialOffset(), end)
    reader.stop()
    assert (piece.range.start, piece.range.end) == (5, 20)
