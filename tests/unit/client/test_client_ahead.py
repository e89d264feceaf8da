"""A reader of a stretch gets all of it, and does not fetch much of what lies behind."""

import pytest

from mainstem.client import Client, ClientSettings, TopicPartition, parse_bootstrap
from mainstem.client.ahead import LEAST_BYTES, Ahead
from mainstem.client.cluster import FetchLimits
from mainstem.model.records import Record, encode_batch
from mainstem.testing import Broker

PLACE = TopicPartition("long", 0)
BATCHES, ROWS, VALUE = 120, 100, b"x" * 1000  # 12 MB
LIMITS = FetchLimits(max_bytes=8 << 20, partition_max_bytes=8 << 20)


@pytest.fixture(scope="module")
def client():
    with Broker() as broker, Client(ClientSettings(parse_bootstrap(broker.kafka))) as client:
        client.topic("long", create=True)
        batch = encode_batch([Record(0, 1000 + i, None, VALUE) for i in range(ROWS)])
        for _ in range(BATCHES):
            client.produce({PLACE: batch})
        yield client


@pytest.mark.parametrize(("start", "end"), [(0, 1), (50, 150), (0, 9000), (11_000, 12_000), (0, 12_000)])
def test_a_stretch_is_read_whole_and_little_behind_it(client, start, end):
    parts = list(Ahead(client, PLACE, LIMITS).read(start, end))
    offsets = [record.offset for part in parts for record in part.decoded() if record.offset < end]
    assert offsets == list(range(start, end))
    wanted = (end - start) * len(VALUE)
    assert sum(len(part.records) for part in parts) < wanted * 1.2 + LEAST_BYTES + 2 * ROWS * len(VALUE)


def test_records_that_become_larger_only_cost_more_requests(client):
    place = TopicPartition("growing", 0)
    client.topic("growing", create=True)
    for size in (1, 10, 1000, 100_000, 500_000):
        client.produce({place: encode_batch([Record(0, 1000, None, b"y" * size)])})
    sizes = [len(one.value) for part in Ahead(client, place, LIMITS).read(0, 5) for one in part.decoded()]
    assert sizes == [1, 10, 1000, 100_000, 500_000]
