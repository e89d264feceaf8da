"""Options of the data source: what they mean, and what is said about those that mean nothing."""

from pathlib import Path

import pytest

from mainstem.client.client import EARLIEST, LATEST
from mainstem.client.settings import Address, Sasl, Tls
from mainstem.model.errors import InvalidRequest
from mainstem.spark.connecting import patience_s, settings_of
from mainstem.spark.options import NAMES, Bound, Options, ending, is_committed, starting, topics_of


def test_names_are_in_any_case():
    assert Options({"STARTINGoffsets": "earliest"}).text("startingOffsets") == "earliest"


def test_options_of_the_other_connector_that_mean_nothing_here_pass():
    Options({"kafkaConsumer.pollTimeoutMs": "1", "groupIdPrefix": "x", "kafka.max.poll.records": "5"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subscribed": "a"}, "did you mean 'subscribe'"),
        ({"zzz": "a"}, "there is no option 'zzz'$"),
    ],
)
def test_an_unknown_option_is_refused(given, message):
    with pytest.raises(InvalidRequest, match=message):
        Options(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "there is none"),
        ({"subscribe": "a", "assign": "{}"}, "there are subscribe and assign"),
        ({"subscribe": " , "}, "names no topic"),
        ({"assign": "[]"}, "assign is written"),
        ({"assign": '{"a": [-1]}'}, "assign is written"),
        ({"assign": "{"}, "assign is not JSON"),
    ],
)
def test_which_topics_must_be_clear(given, message):
    with pytest.raises(InvalidRequest, match=message):
        topics_of(Options(given))


def test_topics_are_named_in_three_ways():
    assert topics_of(Options({"subscribe": "b, a"})).names == ("b", "a")
    assert topics_of(Options({"subscribePattern": "a.*"})).pattern == "a.*"
    assert topics_of(Options({"assign": '{"b": [1, 0], "a": [2]}'})).assigned == (("a", (2,)), ("b", (0, 1)))


def test_where_a_read_starts():
    assert starting(Options({}), "batch") == Bound(EARLIEST)
    assert starting(Options({}), "stream") == Bound(LATEST)
    assert starting(Options({"startingOffsets": '{"a": {"0": -2}}'}), "batch") == Bound(
        offsets={"a": {0: -2}}
    )
    # One time goes before times, and those before offsets.
    given = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"a": {"0": 7}}'}
    assert starting(Options(given), "batch") == Bound(timestamps_ms={"a": {0: 7}})
    given |= {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "latest"}
    assert starting(Options(given), "batch") == Bound(timestamp_ms=5, latest_if_none=True)


def test_where_a_batch_ends():
    assert ending(Options({})) == Bound(LATEST)
    assert ending(Options({"endingTimestamp": "5"})) == Bound(timestamp_ms=5, latest_if_none=True)
    with pytest.raises(InvalidRequest, match="nothing lies before it"):
        ending(Options({"endingOffsets": "earliest"}))
    with pytest.raises(InvalidRequest, match="with numbers from -1 on"):
        ending(Options({"endingOffsets": '{"a": {"0": -2}}'}))


@pytest.mark.parametrize("name", ["isolationLevel", "kafka.isolation.level"])
def test_isolation_has_two_names(name):
    assert is_committed(Options({name: "read_committed"}))
    assert not is_committed(Options({}))


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", ""])
def test_a_number_is_above_zero(text):
    with pytest.raises(InvalidRequest, match="minPartitions is a number above 0"):
        Options({"minPartitions": text}).number("minPartitions")


def test_a_plain_connection():
    settings = settings_of(Options({"kafka.bootstrap.servers": "a:1, b:2"}))
    assert settings.bootstrap == (Address("a", 1), Address("b", 2))
    assert (settings.tls, settings.sasl) == (None, None)


def test_the_java_clients_way_to_log_in():
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="al" password="s e"; '
    settings = settings_of(
        Options(
            {
                "kafka.bootstrap.servers": "a",
                "kafka.security.protocol": "SASL_SSL",
                "kafka.sasl.mechanism": "SCRAM-SHA-256",
                "kafka.sasl.jaas.config": jaas,
                "kafka.ssl.truststore.location": "/ca.pem",
            }
        )
    )
    assert settings.sasl == Sasl("al", "s e", "SCRAM-SHA-256")
    assert settings.tls == Tls(ca_file="/ca.pem")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kafka.security.protocol": "TLS"}, "kafka.security.protocol is one of"),
        ({"kafka.security.protocol": "SASL_PLAINTEXT"}, "no user"),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "x.jks"}, "as a PEM file"),
    ],
)
def test_a_connection_that_cannot_be(given, message):
    with pytest.raises(InvalidRequest, match=message):
        settings_of(Options({"kafka.bootstrap.servers": "a", **given}))


def test_the_broker_must_be_named():
    with pytest.raises(InvalidRequest, match="kafka.bootstrap.servers is missing"):
        settings_of(Options({}))


def test_patience():
    assert patience_s(Options({})) == 120
    assert patience_s(Options({"brokerTimeoutMs": "1500"})) == 1.5


def test_every_option_is_documented():
    pages = Path(__file__).parents[3] / "docs" / "pipelines"
    told = "".join((pages / name).read_text() for name in ("source.md", "sink.md"))
    assert [name for name in NAMES if name not in told] == []
