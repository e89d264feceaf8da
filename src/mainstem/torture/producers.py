"""Producers: plain, idempotent, transactional. Every acknowledgement goes into the ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random  # noqa: TID251 - seeded by the run, for its load only
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Position

from mainstem.client import TopicPartition
from mainstem.torture.clients import CALL_S, SETTLE_S, producer_settings
from mainstem.torture.gate import Gate, Worker
from mainstem.torture.ledger import NO_OFFSET, Ledger, Outcome, Repeats, Transaction, Writer, value_of

MAX_IN_FLIGHT = 500  # records
LARGEST_BYTES = 1000
TRANSACTION_TIMEOUT_MS = 120_000  # longer than any outage: nobody but their producer ends transactions
PAUSE_S = 0.005


def noting(writer: Writer, number: int) -> Callable[[KafkaError | None, Message], None]:
    """A delivery report that goes into the ledger."""

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            offset = message.offset()
            writer.acked[number] = NO_OFFSET if offset is None or offset < 0 else offset
        else:
            writer.failed[number] = error.str()

    return delivered


class Sender(Worker):
    """Sends bursts to random places. Not transactional."""

    def __init__(
        self,
        writer: Writer,
        bootstrap: str,
        places: Sequence[TopicPartition],
        chance: Random,
        gate: Gate,
        ledger: Ledger,
        **settings: Any,
    ) -> None:
        super().__init__(writer.name, gate, ledger.remarks.append)
        self._writer = writer
        self._places = places
        self._chance = chance
        self._producer = Producer(producer_settings(bootstrap, **settings))

    def step(self) -> None:
        writer, chance = self._writer, self._chance
        if len(self._producer) < MAX_IN_FLIGHT:
            for _ in range(chance.randrange(1, 20)):
                number, place = writer.next_number(), chance.choice(self._places)
                value = value_of(writer.name, number, chance.randrange(LARGEST_BYTES))
                writer.sent[number] = place
                self._producer.produce(
                    place.topic, value, partition=place.partition, on_delivery=noting(writer, number)
                )
        self._producer.poll(0)
        time.sleep(chance.random() * 2 * PAUSE_S)

    def settle(self) -> None:
        left = self._producer.flush(SETTLE_S)
        if left:
            self._remark(f"{self.name}: {left} records were neither acknowledged nor refused")
        if self._writer.failed and self._writer.repeats is not Repeats.ONCE_IF_FAILED:
            number, why = next(iter(self._writer.failed.items()))
            count = len(self._writer.failed)
            self._remark(f"{self.name}: {count} records were given up, though it may retry: {number}: {why}")

    def finish(self) -> None:
        self._producer.purge()
        self._producer.flush(1)


class TransactionMaker:
    """A transactional producer that lives through errors, and knows how its transactions ended."""

    def __init__(self, name: str, bootstrap: str, ledger: Ledger) -> None:
        self.name = name
        self._address = bootstrap
        self._ledger = ledger
        self.producer = self._new()

    def _new(self) -> Producer:
        producer = Producer(
            producer_settings(
                self._address,
                transactional_id=self.name,
                transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            )
        )
        insist(lambda: producer.init_transactions(CALL_S))
        return producer

    def begin(self, writer: str) -> Transaction:
        self.producer.begin_transaction()
        transaction = Transaction(writer)
        self._ledger.transactions.append(transaction)
        return transaction

    def send_offsets(self, transaction: Transaction, positions: list[Position], group: object) -> None:
        insist(lambda: self.producer.send_offsets_to_transaction(positions, group, CALL_S))
        transaction.has_offsets = True

    def commit(self, transaction: Transaction) -> None:
        # From here on it may be committed, whatever becomes of us.
        transaction.outcome = Outcome.UNKNOWN
        try:
            insist(lambda: self.producer.commit_transaction(CALL_S))
            transaction.outcome = Outcome.COMMITTED
        except KafkaException as error:
            self.recover(transaction, error)

    def abort(self, transaction: Transaction) -> None:
        # What librdkafka takes back at an abort it believes unsent, and gives its sequence numbers to others.
        # If a broker that just died has it on disk, those are refused, and rightly so: send it all first.
        self.producer.flush(SETTLE_S)
        try:
            insist(lambda: self.producer.abort_transaction(CALL_S))
            transaction.outcome = Outcome.ABORTED
        except KafkaException as error:
            if error.args[0].code() == KafkaError.INVALID_TXN_STATE and not self._is_known(transaction):
                # The broker died before it heard of this transaction; the client asks to end it all the same.
                self.abandon(transaction)
            else:
                self.recover(transaction, error)

    def _is_known(self, transaction: Transaction) -> bool:
        """To the broker, by its own word."""
        writer = self._ledger.writers.get(transaction.writer)
        acked = writer.acked if writer is not None else {}
        return transaction.has_offsets or any(number in acked for number in transaction.numbers)

    def abandon(self, transaction: Transaction) -> None:
        """As if the producer's process died: the next one with its name ends what it left open."""
        self.producer.purge()
        self.producer = self._new()
        if transaction.outcome is Outcome.OPEN:
            transaction.outcome = Outcome.ABORTED

    def recover(self, transaction: Transaction, error: KafkaException) -> None:
        """After an error within a transaction, as a client's manual says."""
        why: KafkaError = error.args[0]
        if why.txn_requires_abort():
            self.abort(transaction)
            return
        self._ledger.remarks.append(
            f"{self.name}: its producer cannot go on ({transaction}): {why.name()}: {why.str()}"
        )
        self.abandon(transaction)


def insist(call: Callable[[], object]) -> None:
    """Repeat what may be repeated, until it is done."""
    until = time.monotonic() + SETTLE_S
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > until:
                raise


class TransactionalSender(Worker):
    """Transactions over several partitions; most are committed, some aborted, some just left behind."""

    def __init__(
        self,
        writer: Writer,
        bootstrap: str,
        places: Sequence[TopicPartition],
        chance: Random,
        gate: Gate,
        ledger: Ledger,
    ) -> None:
        super().__init__(writer.name, gate, ledger.remarks.append)
        self._writer = writer
        self._places = places
        self._chance = chance
        self._address = bootstrap
        self._ledger = ledger
        self._maker: TransactionMaker | None = None

    def step(self) -> None:
        writer, chance = self._writer, self._chance
        if self._maker is None:  # made by the worker's own thread: it waits for the broker
            self._maker = TransactionMaker(writer.name, self._address, self._ledger)
        maker = self._maker
        transaction = maker.begin(writer.name)
        try:
            for _ in range(chance.randrange(1, 30)):
                number, place = writer.next_number(), chance.choice(self._places)
                value = value_of(writer.name, number, chance.randrange(LARGEST_BYTES))
                writer.sent[number] = place
                transaction.numbers.append(number)
                maker.producer.produce(
                    place.topic, value, partition=place.partition, on_delivery=noting(writer, number)
                )
            if chance.random() < 0.5:
                maker.producer.flush(0.05)  # or one that is abandoned has sent nothing yet
        except KafkaException as error:
            maker.recover(transaction, error)
            return
        what = chance.random()
        if what < 0.75:
            maker.commit(transaction)
        elif what < 0.95:
            maker.abort(transaction)
        else:
            maker.abandon(transaction)
        time.sleep(chance.random() * 4 * PAUSE_S)
