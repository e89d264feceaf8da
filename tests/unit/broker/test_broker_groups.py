"""The shells around groups and transactions: hung-up clients, time, what is seen before it is on disk, and
snapshots taken while all of it changes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mainstem.app import broker_options
from mainstem.broker.admin import delete_topic
from mainstem.broker.broker import Broker
from mainstem.broker.groups import (
    CommittedOffset,
    ConsumerHeartbeat,
    JoinRequest,
    ShareHeartbeat,
    VisibleTopics,
)
from mainstem.broker.options import DAY_MS, BrokerOptions
from mainstem.broker.system import SystemClock
from mainstem.config import load
from mainstem.kernel.log.log import LogOptions
from mainstem.model.errors import (
    CoordinatorClosing,
    GroupFull,
    GroupNotFound,
    InvalidGroupId,
    UnknownMember,
)

LOG = LogOptions(file_bytes=8 << 20, reserve_bytes=1 << 20)


class Clock(SystemClock):
    """The real one, and as far ahead of it as a test wants."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms


def with_broker(folder: Path, work: Callable[[Broker, Clock], Awaitable[None]], **options: int) -> None:
    async def run() -> None:
        clock = Clock()
        broker = await Broker.open(
            BrokerOptions(str(folder), log=LOG, group_initial_delay_ms=0, **options), clock=clock
        )
        try:
            await work(broker, clock)
        finally:
            await broker.close()

    asyncio.run(run())


def at(topic_id: bytes, offset: int, broker: Broker) -> CommittedOffset:
    return CommittedOffset(topic_id, 0, offset, -1, "", broker.groups.now_ms())


def join_request(broker: Broker, member_id: str = "") -> JoinRequest:
    return JoinRequest(
        member_id,
        broker.groups.new_member_id("me"),
        "consumer",
        (("range", b""),),
        10_000,
        10_000,
        id_required=False,
    )


def test_an_offset_is_seen_once_it_is_on_disk_also_if_its_client_hung_up(tmp_path):
    async def work(broker: Broker, _: Clock) -> None:
        topic = await broker.create_topic("t")
        commit = asyncio.ensure_future(broker.groups.commit("g", [at(topic.id, 5, broker)]))
        await asyncio.sleep(0)
        commit.cancel()
        assert broker.groups.committed("g", topic.id, 0) is None
        await broker.store.barrier()
        found = broker.groups.committed("g", topic.id, 0)
        assert found is not None
        assert found.offset == 5

    with_broker(tmp_path, work)


def test_a_commit_on_its_way_does_not_bring_back_the_offsets_of_a_deleted_topic(tmp_path):
    async def work(broker: Broker, _: Clock) -> None:
        topic = await broker.create_topic("t")
        commit = asyncio.ensure_future(broker.groups.commit("g", [at(topic.id, 5, broker)]))
        await asyncio.sleep(0)
        await delete_topic(broker, topic)
        await commit
        with pytest.raises(GroupNotFound):
            broker.groups.describe("g")

    with_broker(tmp_path, work)


def test_a_transaction_whose_client_hangs_up_while_it_ends_is_ended_all_the_same(tmp_path):
    async def work(broker: Broker, _: Clock) -> None:
        topic = await broker.create_topic("t")
        transactions = broker.transactions
        who = await transactions.init_producer_id("x", 1000, -1, -1)
        await transactions.add_partitions("x", *who, [topic.partitions[0].id])
        await transactions.commit_offsets(
            "x", *who, "g", [at(topic.id, 7, broker)], adds_group=True, abortable_known=True
        )
        end = asyncio.ensure_future(transactions.end_txn("x", *who, True, bump=False))
        await asyncio.sleep(0)
        end.cancel()
        await broker.store.barrier()
        found = broker.groups.committed("g", topic.id, 0)
        assert found is not None
        assert found.offset == 7
        assert await transactions.end_txn("x", *who, True, bump=False) == who

    with_broker(tmp_path, work)


def test_a_member_that_hung_up_while_it_waited_leaves_its_answer_to_nobody(tmp_path):
    async def work(broker: Broker, _: Clock) -> None:
        first = await broker.groups.join("g", join_request(broker))
        waiting = asyncio.ensure_future(broker.groups.join("g", join_request(broker)))
        await asyncio.sleep(0)
        waiting.cancel()
        again = await broker.groups.join("g", join_request(broker, first.member_id))
        assert len(again.members) == 2

    with_broker(tmp_path, work)


def test_members_that_fall_silent_are_put_out_in_time(tmp_path):
    async def work(broker: Broker, clock: Clock) -> None:
        first = await broker.groups.join("g", join_request(broker))
        waiting = asyncio.ensure_future(broker.groups.join("g", join_request(broker)))
        await asyncio.sleep(0)
        clock.ahead_ms = 10_001
        broker.groups._time_is_up()
        assert (await waiting).generation == 2
        with pytest.raises(UnknownMember):
            broker.groups.heartbeat("g", first.member_id, None, 1)

    with_broker(tmp_path, work)


def test_whoever_waits_is_told_when_the_broker_stops(tmp_path):
    async def work(broker: Broker, _: Clock) -> None:
        await broker.groups.join("g", join_request(broker))
        waiting = asyncio.ensure_future(broker.groups.join("g", join_request(broker)))
        await asyncio.sleep(0)
        broker.drain()
        with pytest.raises(CoordinatorClosing):
            await waiting
        with pytest.raises(CoordinatorClosing):
            await broker.groups.join("g", join_request(broker))

    with_broker(tmp_path, work)


def test_a_group_id_is_a_name_of_bounded_length(tmp_path):
    async def work(broker: Broker, _: Clock) -> None:
        for name in ("", "x" * 5000):
            with pytest.raises(InvalidGroupId):
                await broker.groups.join(name, join_request(broker))

    with_broker(tmp_path, work)


def test_offsets_of_a_group_without_members_expire_and_stay_gone(tmp_path):
    async def work(broker: Broker, clock: Clock) -> None:
        topic = await broker.create_topic("t")
        await broker.groups.commit("g", [at(topic.id, 5, broker)])
        await broker.groups.expire_offsets()
        assert broker.groups.committed("g", topic.id, 0) is not None
        clock.ahead_ms = 8 * DAY_MS
        await broker.groups.tick()
        await broker.store.barrier()
        assert broker.groups.committed("g", topic.id, 0) is None

    async def look(broker: Broker, _: Clock) -> None:
        assert list(broker.offsets.groups()) == []

    with_broker(tmp_path, work)
    with_broker(tmp_path, look)


def test_a_transaction_open_beyond_its_time_is_aborted_and_an_idle_id_forgotten(tmp_path):
    async def work(broker: Broker, clock: Clock) -> None:
        topic = await broker.create_topic("t")
        transactions = broker.transactions
        who = await transactions.init_producer_id("x", 1000, -1, -1)
        await transactions.add_partitions("x", *who, [topic.partitions[0].id])
        clock.ahead_ms = 1100
        await transactions.tick()
        await broker.store.barrier()
        assert transactions.coordinator.describe("x").state.value == "CompleteAbort"
        assert topic.partitions[0].high_watermark == 1
        clock.ahead_ms = 8 * DAY_MS
        await transactions.tick()
        assert len(transactions.coordinator) == 0

    with_broker(tmp_path, work)


def state_of(broker: Broker) -> tuple[list[str], list[str]]:
    return (
        sorted(map(repr, broker.offsets.dump())),
        sorted(repr(delta) for delta in broker.coordinator.dump() if "Reserved" not in repr(delta)),
    )


def test_a_snapshot_taken_while_groups_and_transactions_change_is_the_truth_after_a_restart(tmp_path):
    before: list[object] = []

    async def go_on(broker: Broker, topic_id: bytes, name: str, who: tuple[int, int], bump: bool) -> None:
        """End the open transaction, and leave another one open."""
        transactions, groups = broker.transactions, broker.groups
        who = await transactions.end_txn(name, *who, True, bump=bump)
        await groups.delete(f"{name}-old")
        await groups.commit(f"{name}-new", [at(topic_id, 3, broker)])
        await stage(broker, topic_id, name, who, offset=2)

    async def stage(broker: Broker, topic_id: bytes, name: str, who: tuple[int, int], offset: int) -> None:
        staged = [at(topic_id, offset, broker)]
        await broker.transactions.commit_offsets(
            name, *who, f"{name}-group", staged, adds_group=True, abortable_known=True
        )

    async def work(broker: Broker, _: Clock) -> None:
        topic_id = (await broker.create_topic("t")).id
        for number in range(30):
            await broker.groups.commit(f"g{number}", [at(topic_id, number, broker)])
        owners: dict[str, tuple[int, int]] = {}
        for number in range(6):
            name = f"x{number}"
            owners[name] = await broker.transactions.init_producer_id(name, 60_000, -1, -1)
            await broker.groups.commit(f"{name}-old", [at(topic_id, 1, broker)])
            await stage(broker, topic_id, name, owners[name], offset=1)
        in_background, slices = broker.store.in_background, 0

        async def change_between_slices(write: Callable[[], None]) -> None:
            nonlocal slices
            slices += 1
            if slices == 20:  # some groups are written, others not
                for number, (name, who) in enumerate(owners.items()):
                    await go_on(broker, topic_id, name, who, bump=number % 2 == 0)
            await in_background(write)

        broker.store.in_background = change_between_slices  # type: ignore[method-assign]
        await broker.store.snapshot(slice_ms=0)  # each delta is a slice
        assert slices > 40
        before.append(state_of(broker))

    async def look(broker: Broker, _: Clock) -> None:
        assert state_of(broker) == before[0]
        topic_id = broker.topics.get("t").id
        for number in range(6):
            found = broker.groups.committed(f"x{number}-group", topic_id, 0)
            assert found is not None
            assert found.offset == 1
            assert broker.groups.is_unstable(f"x{number}-group", topic_id, 0)

    with_broker(tmp_path, work)
    with_broker(tmp_path, look)


def test_settings_say_how_much_members_may_want(tmp_path):
    small = {"groups.max_subscription_bytes": "1 MiB", "groups.max_total_subscription_bytes": "3 MiB"}
    options = broker_options(load(small, {}))

    async def work(broker: Broker, _: Clock) -> None:
        topics = VisibleTopics(broker.topics, lambda _: True)

        def consumer(group: str, names: int) -> None:
            wanted = frozenset(f"{number:06}" for number in range(names))
            request = ConsumerHeartbeat("m", 0, "", None, None, 1000, wanted, owned=frozenset())
            broker.groups.consumer_heartbeat(group, request, topics)

        def share(group: str, names: int) -> None:
            wanted = frozenset(f"{number:06}" for number in range(names))
            broker.groups.share_heartbeat(group, ShareHeartbeat("m", 0, None, wanted), topics)

        for join in (consumer, share):
            with pytest.raises(GroupFull, match=r"max_subscription_bytes is 1048576"):
                join("large", 10_000)
        consumer("a", 7000)
        share("b", 7000)
        consumer("c", 7000)
        for join in (consumer, share):
            with pytest.raises(GroupFull, match=r"max_total_subscription_bytes is 3145728"):
                join("d", 7000)

    with_broker(
        tmp_path,
        work,
        group_subscription_bytes=options.group_subscription_bytes,
        group_total_subscription_bytes=options.group_total_subscription_bytes,
    )


def test_the_settings_of_a_broker_give_what_a_broker_has_by_itself():
    options = broker_options(load({}, {}))
    usual = BrokerOptions("")
    assert options.group_subscription_bytes == usual.group_subscription_bytes
    assert options.group_total_subscription_bytes == usual.group_total_subscription_bytes
    assert options.group_total_subscription_bytes >= 4 * options.group_subscription_bytes
