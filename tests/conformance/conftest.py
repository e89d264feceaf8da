"""Brokers for the tests over real sockets: one for all of them, and one for a test that stops or kills it."""

from collections.abc import Iterator

import pytest
from kafka_kit import Wire, new_name

from mainstem.testing.broker import Broker

# Members of the newer protocol learn of changes in heartbeats; a test need not wait seconds for each.
QUICK = {"groups.consumer_heartbeat_interval_ms": 50, "groups.consumer_session_timeout_ms": 3000}


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[Broker]:
    with Broker(QUICK, process=True) as broker:
        yield broker


@pytest.fixture
def address(shared_broker: Broker) -> str:
    """Where the broker that all tests share listens for Kafka clients."""
    return shared_broker.kafka


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """A broker of this test alone, in a process that it may kill."""
    with Broker(QUICK, process=True) as broker:
        yield broker


@pytest.fixture
def wire(address: str) -> Iterator[Wire]:
    with Wire(address) as connection:
        yield connection


@pytest.fixture
def topic() -> str:
    """A topic's name that no other test uses."""
    return new_name("topic")


@pytest.fixture
def group() -> str:
    return new_name("group")
