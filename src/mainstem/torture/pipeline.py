"""Consume, transform, produce: each input becomes one output, and its offset goes with it, or none of it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random  # noqa: TID251 - seeded by the run, for its load only

from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as Position

from mainstem.client import TopicPartition
from mainstem.torture.clients import SETTLE_S, consumer_settings
from mainstem.torture.consumers import place_of
from mainstem.torture.gate import Gate, Worker
from mainstem.torture.ledger import Ledger, Outcome, Transaction
from mainstem.torture.producers import TransactionMaker, insist

AT_ONCE = 50  # messages


class Pipeline(Worker):
    """Partition n of `output` gets what is in partition n of `inputs`, unchanged and in order."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        inputs: Sequence[TopicPartition],
        output: str,
        chance: Random,
        gate: Gate,
        ledger: Ledger,
    ) -> None:
        super().__init__(name, gate, ledger.remarks.append)
        self._inputs = inputs
        self._output = output
        self._chance = chance
        self._address = bootstrap
        self._ledger = ledger
        self._maker: TransactionMaker | None = None
        self._consumer = Consumer(consumer_settings(bootstrap, name))

    def step(self) -> None:
        if self._maker is None:
            self._maker = TransactionMaker(self.name, self._address, self._ledger)
            self._rewind()
        read = [message for message in self._consumer.consume(AT_ONCE, 0.1) if message.error() is None]
        if not read:
            return
        transaction = self._maker.begin("")  # its outputs are known by their inputs, not by numbers
        try:
            self._write(self._maker, transaction, read)
        except KafkaException as error:
            self._maker.recover(transaction, error)
        else:
            self._end(self._maker, transaction)
        if transaction.outcome is not Outcome.COMMITTED:
            self._rewind()

    def _write(self, maker: TransactionMaker, transaction: Transaction, read: Sequence[Message]) -> None:
        following: dict[TopicPartition, int] = {}
        for message in read:
            place, offset = place_of(message)
            maker.producer.produce(self._output, message.value(), partition=place.partition)
            following[place] = offset + 1
        positions = [Position(place.topic, place.partition, offset) for place, offset in following.items()]
        maker.send_offsets(transaction, positions, self._consumer.consumer_group_metadata())

    def _end(self, maker: TransactionMaker, transaction: Transaction) -> None:
        what = self._chance.random()
        if what < 0.85:
            maker.commit(transaction)
        elif what < 0.95:
            maker.abort(transaction)
        else:
            maker.abandon(transaction)

    def _rewind(self) -> None:
        """Go on where the last committed transaction left off."""
        wanted = [Position(place.topic, place.partition) for place in self._inputs]
        insist(lambda: self._go_to(self._consumer.committed(wanted, SETTLE_S)))

    def _go_to(self, positions: list[Position]) -> None:
        for position in positions:
            position.offset = max(position.offset, 0)  # negative: nothing committed yet
        self._consumer.assign(positions)

    def finish(self) -> None:
        self._consumer.close()
