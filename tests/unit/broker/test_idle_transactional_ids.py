"""Transactional ids that nobody uses are forgotten now and then: it takes a look at all there are."""

from __future__ import annotations

import asyncio

from test_broker_groups import Clock, with_broker

from mainstem.broker.broker import Broker
from mainstem.kernel.txn.coordinator import IDLE_EXPIRY_MS
from mainstem.model.errors import DiskFull

SWEEP_MS = 600_000
MANY = 2000  # more than are looked at in a few turns of the loop
LAST = f"t{MANY - 1}"


async def init(broker: Broker, *names: str) -> list[tuple[int, int]]:
    asked = (broker.transactions.init_producer_id(name, 60_000, -1, -1) for name in names)
    return await asyncio.gather(*asked)


def test_idle_ids_are_not_looked_for_every_second(tmp_path, monkeypatch):
    async def work(broker: Broker, clock: Clock) -> None:
        await init(broker, "t")
        looks: list[int] = []
        idle = broker.coordinator.idle
        monkeypatch.setattr(broker.coordinator, "idle", lambda *asked: looks.append(1) or idle(*asked))
        for _ in range(10):
            clock.ahead_ms += 1000
            await broker.transactions.tick()
        assert not looks
        clock.ahead_ms += SWEEP_MS
        await broker.transactions.tick()
        await broker.transactions.tick()
        assert len(looks) == 1

    with_broker(tmp_path, work)


def test_what_a_full_disk_keeps_is_looked_for_again_soon(tmp_path, monkeypatch):
    async def work(broker: Broker, clock: Clock) -> None:
        await init(broker, "t")

        def refuse(*_: object, **__: object) -> None:
            raise DiskFull("injected")

        clock.ahead_ms += IDLE_EXPIRY_MS + SWEEP_MS
        with monkeypatch.context() as full:
            full.setattr(broker.transactions._store, "commit", refuse)
            await broker.transactions.tick()
        assert broker.coordinator.ids() == ["t"]
        clock.ahead_ms += 10_000
        await broker.transactions.tick()
        assert not broker.coordinator.ids()

    with_broker(tmp_path, work)


def test_all_idle_ids_are_forgotten_in_one_sweep_and_those_used_meanwhile_are_not(tmp_path):
    async def work(broker: Broker, clock: Clock) -> None:
        *_, (producer_id, epoch) = await init(broker, *(f"t{number}" for number in range(MANY)))
        assert epoch == 0
        clock.ahead_ms += IDLE_EXPIRY_MS + SWEEP_MS
        sweep = asyncio.ensure_future(broker.transactions.tick())
        await asyncio.sleep(0)  # the first few are gone
        assert 0 < len(broker.coordinator) < MANY
        used = asyncio.ensure_future(init(broker, LAST))
        await asyncio.sleep(0)  # its producer asks, and the next few are gone
        assert LAST in broker.coordinator.ids()
        assert len(broker.coordinator) > 1
        # Forgotten, it would be another producer, and what the old one wrote could not be fenced.
        assert await used == [(producer_id, 1)]
        await sweep
        assert broker.coordinator.ids() == [LAST]
        assert await init(broker, LAST) == [(producer_id, 2)]

    async def look(broker: Broker, _: Clock) -> None:
        assert broker.coordinator.ids() == [LAST]

    with_broker(tmp_path, work)
    with_broker(tmp_path, look)
