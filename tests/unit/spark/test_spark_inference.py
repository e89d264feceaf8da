"""Fields are told from values, whatever their names are and however slowly a broker gives them."""

import pytest

from mainstem.client import Client, ClientSettings, TopicPartition, parse_bootstrap
from mainstem.client.ahead import Ahead
from mainstem.client.cluster import FetchLimits
from mainstem.model.records import Record, encode_batch
from mainstem.spark.inference import infer_ddl, infer_fields
from mainstem.spark.options import Topics
from mainstem.testing import Broker


class Throttled(Client):
    """What comes from a broker that throttles: at times an answer without any partition."""

    answers = 0

    def fetched(self, answer, offsets):
        self.answers += 1
        if self.answers % 2:
            answer.responses.clear()
        return super().fetched(answer, offsets)


@pytest.fixture(scope="module")
def settings():
    with Broker() as broker:
        yield ClientSettings(parse_bootstrap(broker.kafka))


def fill(client, topic, *values):
    client.topic(topic, create=True)
    for value in values:
        client.produce({TopicPartition(topic, 0): encode_batch([Record(0, 1000, None, value)])})


def test_names_are_quoted(settings):
    with Client(settings) as client:
        fill(client, "quoted", b'{"a`b": 1, "c": {"d`": "x"}}')
    assert infer_ddl(settings, Topics(names=("quoted",))) == "`a``b` BIGINT, `c` STRUCT<`d```: STRING>"


def test_what_is_not_utf_8_has_no_say():
    assert infer_fields([b'{"a": 1}', b'{"\xff": 1}', b'{"b": "\xff"}']) == {"a": "BIGINT"}


def test_a_broker_that_throttles_is_asked_again(settings):
    with Throttled(settings) as client:
        fill(client, "slow", b"a", b"b", b"c")
        place = TopicPartition("slow", 0)
        (fetched,) = client.fetch({place: 0})
        assert client.answers == 2
        assert next(iter(fetched.decoded())).value == b"a"
        one_batch = FetchLimits(partition_max_bytes=1)
        found = [one for part in Ahead(client, place, one_batch).read(0, 3) for one in part.decoded()]
        assert [record.value for record in found] == [b"a", b"b", b"c"]
        assert client.answers == 8


def test_times_with_parts_of_a_second_are_times_and_what_only_looks_so_once_is_text():
    values = [
        b'{"at": "2031-05-04T12:00:00.123456Z", "day": "2031-05-04T12:00:00", "note": "2031-05-04 12:00:00"}',
        b'{"at": "2031-05-04 12:00:00.5+02:00", "day": null, "note": "soon"}',
        b"not JSON",
    ]
    assert infer_fields(values) == {"at": "TIMESTAMP", "day": "TIMESTAMP", "note": "STRING"}
