"""Fixtures for pytest, there as soon as Mainstem is installed.

    def test_orders(mainstem_broker):
        producer = Producer({"bootstrap.servers": mainstem_broker.kafka})

Override the fixture `mainstem_settings` to change how the brokers are set up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from mainstem.testing.broker import Broker


@pytest.fixture(scope="session")
def mainstem_settings() -> Mapping[str, object]:
    """Settings of both brokers, by key of mainstem.toml. Override it in a conftest.py or a test module."""
    return {}


@pytest.fixture
def mainstem_broker(mainstem_settings: Mapping[str, object]) -> Iterator[Broker]:
    """A broker of this test alone, empty at its start."""
    with Broker(mainstem_settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def mainstem_session_broker(mainstem_settings: Mapping[str, object]) -> Iterator[Broker]:
    """One broker for the whole run: faster, and topics of one test are there in the next."""
    with Broker(mainstem_settings) as broker:
        yield broker
