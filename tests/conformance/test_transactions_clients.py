"""Transactions as three client libraries make them: whole or not at all, one owner, offsets included."""

import asyncio
from collections.abc import Callable, Iterable

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaProducer
from kafka_kit import PATIENCE_S, create_topic, new_name, publish, read, take

Run = Callable[[str, str, str, Iterable[tuple[list[str], bool]]], None]


def confluent(address: str, txn_id: str, topic: str, transactions: Iterable[tuple[list[str], bool]]) -> None:
    producer = Producer({"bootstrap.servers": address, "transactional.id": txn_id})
    producer.init_transactions(PATIENCE_S)
    for values, commit in transactions:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value.encode())
        producer.flush(PATIENCE_S)
        (producer.commit_transaction if commit else producer.abort_transaction)(PATIENCE_S)


def aio(address: str, txn_id: str, topic: str, transactions: Iterable[tuple[list[str], bool]]) -> None:
    async def run() -> None:
        async with AIOKafkaProducer(bootstrap_servers=address, transactional_id=txn_id) as producer:
            for values, commit in transactions:
                await producer.begin_transaction()
                for value in values:
                    await producer.send_and_wait(topic, value.encode())
                await (producer.commit_transaction() if commit else producer.abort_transaction())

    asyncio.run(run())


def python(address: str, txn_id: str, topic: str, transactions: Iterable[tuple[list[str], bool]]) -> None:
    producer = KafkaProducer(bootstrap_servers=address, transactional_id=txn_id)
    producer.init_transactions()
    for values, commit in transactions:
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value.encode()).get(PATIENCE_S)
        (producer.commit_transaction if commit else producer.abort_transaction)()
    producer.close()


@pytest.mark.parametrize("client", [confluent, aio, python])
def test_committed_transactions_are_read_whole_and_aborted_ones_not_at_all(address, topic, client: Run):
    create_topic(address, topic)
    client(address, new_name("txn"), topic, [(["a", "b"], True), (["lost", "too"], False), (["c"], True)])
    assert read(address, topic, 3, committed=True) == ["a", "b", "c"]
    assert read(address, topic, 5, committed=False) == ["a", "b", "lost", "too", "c"]


@pytest.mark.parametrize("client", [confluent, aio, python])
def test_the_next_owner_of_an_id_aborts_what_the_last_one_left_open(address, topic, client: Run):
    create_topic(address, topic)
    txn_id = new_name("txn")
    zombie = Producer({"bootstrap.servers": address, "transactional.id": txn_id})
    zombie.init_transactions(PATIENCE_S)
    zombie.begin_transaction()
    zombie.produce(topic, b"left open")
    zombie.flush(PATIENCE_S)
    client(address, txn_id, topic, [(["mine"], True)])
    assert read(address, topic, 1) == ["mine"]
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(PATIENCE_S)
    assert fenced.value.args[0].fatal()
    assert read(address, topic, 1) == ["mine"]


def test_an_open_transaction_holds_back_committed_readers_until_its_time_is_up(address, topic):
    create_topic(address, topic)
    settings = {
        "bootstrap.servers": address,
        "transactional.id": new_name("txn"),
        "transaction.timeout.ms": 1000,
    }
    owner = Producer(settings)
    owner.init_transactions(PATIENCE_S)
    owner.begin_transaction()
    owner.produce(topic, b"never committed")
    owner.flush(PATIENCE_S)
    publish(address, topic, ["plain"])
    assert read(address, topic, 2, committed=False) == ["never committed", "plain"]
    assert read(address, topic, 1, committed=True) == ["plain"]
    with pytest.raises(KafkaException) as fenced:
        owner.commit_transaction(PATIENCE_S)
    assert fenced.value.args[0].fatal()


def consumer_of(address: str, group: str, topic: str, protocol: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "group.protocol": protocol,
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.subscribe([topic])
    return consumer


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_sent_to_a_transaction_count_when_it_commits_and_only_then(address, topic, group, protocol):
    source, target = create_topic(address, topic), create_topic(address, topic + "-out")
    publish(address, source, ["1", "2", "3"])
    consumer = consumer_of(address, group, source, protocol)
    producer = Producer({"bootstrap.servers": address, "transactional.id": new_name("txn")})
    producer.init_transactions(PATIENCE_S)

    def committed() -> int:
        return consumer.committed([TopicPartition(source, 0)], PATIENCE_S)[0].offset

    def transform(commit: bool) -> None:
        producer.begin_transaction()
        for message in take([consumer], 3):
            producer.produce(target, b"seen " + message.value())
        position = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), PATIENCE_S)
        (producer.commit_transaction if commit else producer.abort_transaction)(PATIENCE_S)

    transform(commit=False)
    assert committed() < 0
    consumer.seek(TopicPartition(source, 0, 0))
    transform(commit=True)
    assert committed() == 3
    assert read(address, target, 3) == ["seen 1", "seen 2", "seen 3"]
    consumer.close()


def test_offsets_go_with_the_transaction_of_a_client_that_does_not_say_who_it_consumes_as(
    address, topic, group
):
    create_topic(address, topic)
    publish(address, topic, ["1", "2"])
    source = AioTopicPartition(topic, 0)

    async def run() -> None:
        async with AIOKafkaProducer(bootstrap_servers=address, transactional_id=new_name("txn")) as producer:
            async with producer.transaction():
                await producer.send_and_wait(topic + "-out", b"x")
                await producer.send_offsets_to_transaction({source: 2}, group)
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({source: 1}, group)
            await producer.abort_transaction()

    asyncio.run(run())
    with Consumer({"bootstrap.servers": address, "group.id": group}) as consumer:
        assert consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)[0].offset == 2
