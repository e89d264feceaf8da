"""Idempotent producers: what arrives twice is stored once, also across the broker's death."""

import pytest
from confluent_kafka import Producer
from kafka_kit import PATIENCE_S, Wire, batch, create_topic, read

from mainstem.testing.broker import Broker
from mainstem.wire.kafka.transactions import InitProducerIdRequest

OUT_OF_ORDER, DUPLICATE, INVALID_EPOCH, INVALID_TXN_STATE = 45, 46, 47, 48


def new_producer(wire: Wire) -> tuple[int, int]:
    made = wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 5)
    assert made.error_code == 0
    return made.producer_id, made.producer_epoch


@pytest.mark.parametrize("version", [3, 8, 12])
def test_a_batch_sent_again_is_answered_with_its_first_offset_and_stored_once(address, wire, topic, version):
    create_topic(address, topic)
    producer = new_producer(wire)
    first, second = batch(["a", "b"], producer, 0), batch(["c"], producer, 2)
    answers = [wire.produce(topic, sent, version=version) for sent in (first, second, first, second)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0), (0, 2), (0, 0), (0, 2)]
    assert read(address, topic, 3) == ["a", "b", "c"]


def test_a_gap_an_old_epoch_and_a_batch_too_old_to_remember_are_each_refused_by_name(address, wire, topic):
    create_topic(address, topic)
    producer_id, epoch = new_producer(wire)
    for sequence in range(7):
        assert wire.produce(topic, batch(["x"], (producer_id, epoch), sequence)).error_code == 0
    assert wire.produce(topic, batch(["gap"], (producer_id, epoch), 9)).error_code == OUT_OF_ORDER
    assert wire.produce(topic, batch(["x"], (producer_id, epoch), 0)).error_code == DUPLICATE
    assert wire.produce(topic, batch(["x"], (producer_id, epoch + 1), 3)).error_code == OUT_OF_ORDER
    assert wire.produce(topic, batch(["new"], (producer_id, epoch + 1), 0)).error_code == 0
    assert wire.produce(topic, batch(["old"], (producer_id, epoch), 7)).error_code == INVALID_EPOCH
    assert read(address, topic, 8) == ["x"] * 7 + ["new"]


def test_a_transactional_batch_without_a_transactional_id_is_refused(address, wire, topic):
    create_topic(address, topic)
    sent = batch(["x"], new_producer(wire), 0, txn=True)
    assert wire.produce(topic, sent).error_code == INVALID_TXN_STATE


def test_batches_sent_before_the_broker_was_killed_are_known_after_it_came_back(own_broker: Broker, topic):
    create_topic(own_broker.kafka, topic)
    with Wire(own_broker.kafka) as wire:
        producer = new_producer(wire)
        assert wire.produce(topic, batch(["a"], producer, 0)).base_offset == 0
    own_broker.kill()
    own_broker.restart()
    with Wire(own_broker.kafka) as wire:
        assert wire.produce(topic, batch(["a"], producer, 0)).base_offset == 0
        assert wire.produce(topic, batch(["c"], producer, 2)).error_code == OUT_OF_ORDER
        assert wire.produce(topic, batch(["b"], producer, 1)).base_offset == 1
        assert new_producer(wire)[0] > producer[0]
    assert read(own_broker.kafka, topic, 2) == ["a", "b"]


def test_an_idempotent_client_goes_on_in_order_while_the_broker_restarts(own_broker: Broker, topic):
    create_topic(own_broker.kafka, topic)
    producer = Producer(
        {
            "bootstrap.servers": own_broker.kafka,
            "enable.idempotence": True,
            "linger.ms": 0,
            "batch.num.messages": 10,
            "reconnect.backoff.max.ms": 200,
        }
    )
    values = [str(number) for number in range(3000)]
    for number, value in enumerate(values):
        producer.produce(topic, value.encode())
        if number == 1500:
            own_broker.kill()
            own_broker.restart()
    assert producer.flush(PATIENCE_S) == 0
    assert read(own_broker.kafka, topic, 3000) == values
