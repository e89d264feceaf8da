"""Settings of a client become options of the source, and are read back as they were."""

import pytest

from mainstem.client.settings import ClientSettings, Sasl, Tls, parse_bootstrap
from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.broker_options import source_options
from mainstem.spark.connecting import settings_of
from mainstem.spark.options import Options

ADDRESSES = parse_bootstrap("one:9092,[::1]:9093")


@pytest.mark.parametrize("tls", [None, Tls(), Tls("ca.pem", "own.pem", "own.key")])
@pytest.mark.parametrize("sasl", [None, Sasl("alice", "s'ec\"ret", "PLAIN"), Sasl("bob", "x")])
def test_the_source_reads_back_the_same_way_to_the_broker(tls, sasl):
    read = settings_of(Options(source_options(ClientSettings(ADDRESSES, tls=tls, sasl=sasl))))

    assert (read.bootstrap, read.tls, read.sasl) == (ADDRESSES, tls, sasl)


def test_tls_without_a_check_is_refused_because_tasks_would_check():
    with pytest.raises(InvalidRequest, match="authority"):
        source_options(ClientSettings(ADDRESSES, tls=Tls(verify=False)))
