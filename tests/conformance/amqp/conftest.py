"""A broker that AMQP clients reach, for the tests of one module.

By default it is a Mainstem of its own. To see how another broker does, name its address (user and password
guest): `MAINSTEM_TEST_AMQP=127.0.0.1:5672 pytest tests/conformance/amqp`. So these tests were proven against
RabbitMQ 4.3.6 and, but for the differences that the tests name, 3.10.8; both with the plugin for
consistent hashing, and 4.3 with `deprecated_features.permit` for transient queues and global prefetch.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from amqp_kit import OTHER, confirming, connected
from amqp_raw import Raw
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from mainstem.testing.broker import Broker


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """HOST:PORT for AMQP clients."""
    if OTHER:
        yield OTHER
        return
    with Broker(process=True) as broker:
        yield broker.amqp


@pytest.fixture
def connection(address: str) -> Iterator[BlockingConnection]:
    with connected(address) as connection:
        yield connection


@pytest.fixture
def other_connection(address: str) -> Iterator[BlockingConnection]:
    with connected(address) as connection:
        yield connection


@pytest.fixture
def channel(connection: BlockingConnection) -> BlockingChannel:
    """A channel on which each publish waits for its confirm."""
    return confirming(connection)


@pytest.fixture
def raw(address: str) -> Iterator[Raw]:
    """A connection by hand with channel 1 open."""
    with Raw(address) as raw:
        raw.open()
        raw.open_channel(1)
        yield raw
