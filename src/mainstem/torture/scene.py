"""One scene of a run: fresh topics, the clients on them, and the ledger of what they did."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random  # noqa: TID251 - seeded by the run

from mainstem.client import Client, ClientSettings, TopicPartition, parse_bootstrap
from mainstem.client.admin import create_topic, delete_topic
from mainstem.torture.clients import SETTLE_S
from mainstem.torture.consumers import GroupMember, Watcher
from mainstem.torture.gate import Gate, Worker
from mainstem.torture.judge import Piping, judge
from mainstem.torture.ledger import Ledger, Repeats
from mainstem.torture.pipeline import Pipeline
from mainstem.torture.producers import Sender, TransactionalSender
from mainstem.torture.readback import read_back
from mainstem.torture.verdict import Verdict

PARTITIONS = 3


class Scene:
    """Its clients live through every fault of the scene; `judge` wants them at rest."""

    def __init__(self, number: int, bootstrap: str, chance: Random) -> None:
        self._bootstrap = bootstrap
        self._names = {kind: f"{kind}-{number}" for kind in ("orders", "payments", "copies")}
        self.gate = Gate()
        self.ledger = Ledger()
        self._piping = Piping(f"pipeline-{number}", self._names["payments"], self._names["copies"])
        self._make_topics()
        self.workers = self._make_workers(number, chance)
        for worker in self.workers:
            worker.start()

    def places(self, *kinds: str) -> list[TopicPartition]:
        return [TopicPartition(self._names[kind], p) for kind in kinds for p in range(PARTITIONS)]

    def _make_topics(self) -> None:
        with self._client() as client:
            for name in self._names.values():
                create_topic(client, name, PARTITIONS)

    def _client(self) -> Client:
        return Client(ClientSettings(parse_bootstrap(self._bootstrap), client_id="torture"))

    def _make_workers(self, number: int, chance: Random) -> list[Worker]:
        ledger, gate, bootstrap = self.ledger, self.gate, self._bootstrap
        orders, payments = self.places("orders"), self.places("payments")

        def own() -> Random:
            return Random(chance.random())

        def sender(
            name: str, repeats: Repeats, places: Sequence[TopicPartition], **settings: object
        ) -> Sender:
            return Sender(ledger.writer(name, repeats), bootstrap, places, own(), gate, ledger, **settings)

        def transactional(name: str, places: Sequence[TopicPartition]) -> TransactionalSender:
            writer = ledger.writer(name, Repeats.ONCE, transactional=True)
            return TransactionalSender(writer, bootstrap, places, own(), gate, ledger)

        return [
            sender("idempotent-a", Repeats.ONCE, payments, enable_idempotence=True),
            sender("idempotent-b", Repeats.ONCE, orders, enable_idempotence=True, compression_type="lz4"),
            sender("retrying", Repeats.OFTEN, orders, enable_idempotence=False, max_in_flight=1),
            sender("hoping", Repeats.ONCE_IF_FAILED, orders, enable_idempotence=False, retries=0),
            transactional(f"transactional-{number}a", [*orders, *payments]),
            transactional(f"transactional-{number}b", orders),
            Pipeline(self._piping.name, bootstrap, payments, self._names["copies"], own(), gate, ledger),
            GroupMember(f"group-{number}", bootstrap, list(self._names.values()), own(), gate, ledger),
            Watcher(bootstrap, self.places("orders", "payments", "copies"), gate, ledger),
        ]

    @property
    def acked(self) -> int:
        return self.ledger.acked_records()

    def struck(self, begun_s: float) -> None:
        self.ledger.struck()

    def rest(self, *, last: bool) -> None:
        """Every client brings its work to an end; one that cannot is a finding."""
        self.gate.close()
        if gone := self._lost_topics():
            self.ledger.remarks.append(f"the broker has lost {', '.join(gone)}")
            return  # the clients would wait for them in vain
        for worker in self.gate.wait_for_rest(self.workers, 2 * SETTLE_S):
            self.ledger.remarks.append(f"{worker.name} did not come to rest: {worker.whereabouts()}")

    def _lost_topics(self) -> list[str]:
        with self._client() as client:
            there = client.cluster(self._names.values()).topics
        return [name for name in self._names.values() if len(there[name].partitions) != PARTITIONS]

    def judge(self) -> Verdict:
        groups = [*self.ledger.groups, self._piping.name]
        readback = read_back(self._bootstrap, self.places("orders", "payments", "copies"), groups)
        return judge(self.ledger, readback, self._piping)

    def end(self, *, delete: bool) -> None:
        self.gate.end()
        for worker in self.workers:
            worker.join(SETTLE_S if delete else 1)
        if delete:
            with self._client() as client:
                for name in self._names.values():
                    delete_topic(client, name)
