"""The shell around share groups: what survives, what is passed over, and who is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mainstem.broker.admin import delete_topic
from mainstem.broker.broker import Broker
from mainstem.broker.groups import ShareHeartbeat, VisibleTopics
from mainstem.broker.options import BrokerOptions
from mainstem.broker.partition import Partition
from mainstem.broker.shares import Acknowledgement, Delivered, Verdict, Wanted
from mainstem.broker.shares.reading import split
from mainstem.broker.shares.sessions import IDLE_MS, MAX_PARTITIONS, MAX_SESSIONS, ShareSession, ShareSessions
from mainstem.broker.shares.settings import age_ms, check_group_config
from mainstem.kernel.log.log import LogOptions
from mainstem.kernel.subs.leased_lane import Lent
from mainstem.model.errors import (
    GroupNotFound,
    InvalidConfig,
    InvalidRecordState,
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)
from mainstem.model.record import Record
from mainstem.model.records import encode_batch

LOG = LogOptions(file_bytes=8 << 20, reserve_bytes=1 << 20)
NOW = Wanted(max_records=100, max_bytes=1 << 20, max_wait_ms=0, strict=False)


def play(folder: Path, *acts: Callable[[Broker], Awaitable[None]]) -> None:
    """Each act on a broker of its own, over the same data."""

    async def run() -> None:
        for act in acts:
            broker = await Broker.open(BrokerOptions(str(folder), log=LOG))
            try:
                await act(broker)
            finally:
                await broker.close()

    asyncio.run(run())


async def publish(broker: Broker, partition: Partition, *values: str) -> None:
    data = encode_batch([Record(0, 1, None, value.encode(), ()) for value in values])
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    broker.publisher.publish(partition, data, lambda *_: done.set_result(None))
    await done


async def begin(broker: Broker, *values: str) -> Partition:
    """A topic with these records, and a share group that reads it from its start."""
    topic = await broker.create_topic("t")
    partition = topic.partitions[0]
    await broker.shares.configure("g", {"share.auto.offset.reset": "earliest"})
    join(broker)
    if values:
        await publish(broker, partition, *values)
    return partition


def join(broker: Broker) -> None:
    topics = VisibleTopics(broker.topics, lambda _: True)
    broker.groups.share_heartbeat("g", ShareHeartbeat("m", 0, topic_names=frozenset({"t"})), topics)


async def lent(broker: Broker, member: str = "m", wanted: Wanted = NOW) -> list[Lent]:
    found = await broker.shares.fetch("g", member, broker.topics.get("t").partitions, wanted)
    return [one for delivered in found for one in delivered.lent]


async def ack(broker: Broker, first: int, stop: int, verdict: Verdict = Verdict.DONE) -> None:
    partition = broker.topics.get("t").partitions[0]
    done = broker.shares.acknowledge("g", "m", partition, [Acknowledgement(first, stop, [verdict])])
    if done is not None:
        await done


# --- what survives -------------------------------------------------------------------------------


@pytest.mark.parametrize("with_snapshot", [False, True])
def test_what_is_done_with_stays_so_and_counts_are_kept(tmp_path, with_snapshot):
    async def before(broker: Broker) -> None:
        await begin(broker, "a", "b", "c", "d", "e")
        assert await lent(broker) == [Lent(0, 5, 1)]
        await ack(broker, 0, 1)
        await ack(broker, 2, 3)
        await ack(broker, 3, 4, Verdict.AGAIN)
        if with_snapshot:
            await broker.store.snapshot()

    async def after(broker: Broker) -> None:
        assert broker.groups.listed("g").kind.value == "share"
        join(broker)
        assert await lent(broker) == [Lent(1, 2, 1), Lent(3, 4, 2), Lent(4, 5, 1)]
        await ack(broker, 1, 2)
        await ack(broker, 3, 5)

    async def at_last(broker: Broker) -> None:
        assert await lent(broker) == []
        assert broker.shares.start_offset("g", broker.topics.get("t").partitions[0]) == (5, 0)

    play(tmp_path, before, after, at_last)


def test_snapshots_taken_while_it_changes_lose_nothing(tmp_path):
    total = 300

    async def before(broker: Broker) -> None:
        partition = await begin(broker)
        for number in range(total):
            await publish(broker, partition, str(number))
        stopped = False

        async def snap() -> None:
            while not stopped:
                await broker.store.snapshot(slice_ms=0)

        snapping = asyncio.create_task(snap())
        for _ in range(total // 3):
            found = await lent(broker, wanted=NOW._replace(max_records=3, strict=True))
            first, stop = found[0].first, found[-1].stop
            await ack(broker, first, stop - 1)
            await ack(broker, stop - 1, stop, Verdict.AGAIN)
        stopped = True
        await snapping

    async def after(broker: Broker) -> None:
        (lane,) = broker.share_book.groups["g"].values()
        left = [one for first, stop, _ in await lent(broker, "other") for one in range(first, stop)]
        done = [one for first, stop in lane.done() for one in range(first, stop)]
        assert sorted([*range(lane.floor), *done, *left]) == list(range(total))
        assert len(done) + lane.floor > total // 2

    play(tmp_path, before, after)


def test_a_deleted_topic_leaves_nothing_behind(tmp_path):
    async def before(broker: Broker) -> None:
        await begin(broker, "a")
        await lent(broker)
        await delete_topic(broker, broker.topics.get("t"))
        assert list(broker.share_book.dump())
        assert broker.share_book.groups == {"g": {}}
        assert broker.share_book.leases.count == 0

    async def after(broker: Broker) -> None:
        assert broker.share_book.groups == {"g": {}}

    play(tmp_path, before, after)


def test_a_deleted_group_is_gone_and_may_come_again(tmp_path):
    async def before(broker: Broker) -> None:
        await begin(broker, "a")
        await lent(broker)
        await ack(broker, 0, 1)
        topics = VisibleTopics(broker.topics, lambda _: True)
        broker.groups.share_heartbeat("g", ShareHeartbeat("m", -1), topics)
        await broker.groups.delete("g")
        with pytest.raises(GroupNotFound):
            broker.shares.check("g")

    async def after(broker: Broker) -> None:
        assert broker.groups.ids() == []
        join(broker)
        assert await lent(broker) == [Lent(0, 1, 1)]

    play(tmp_path, before, after)


# --- while it runs -------------------------------------------------------------------------------


def test_a_fetch_that_is_given_up_while_it_reads_leaves_nothing_lent(tmp_path):
    async def act(broker: Broker) -> None:
        partition = await begin(broker, "a", "b")
        fetching = asyncio.create_task(broker.shares.fetch("g", "m", [partition], NOW))
        await asyncio.sleep(0)  # it waits for its reader thread
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)
        assert broker.share_book.leases.count == 0
        assert await lent(broker) == [Lent(0, 2, 1)]

    play(tmp_path, act)


def test_who_waits_is_woken_once_and_leaves_no_trace(tmp_path):
    async def act(broker: Broker) -> None:
        partition = await begin(broker)
        waiting = asyncio.create_task(
            broker.shares.fetch("g", "m", [partition], NOW._replace(max_wait_ms=60_000))
        )
        await asyncio.sleep(0)
        await publish(broker, partition, "a")
        (delivered,) = await waiting
        assert isinstance(delivered, Delivered)
        assert delivered.lent == [Lent(0, 1, 1)]
        assert partition.waiters is None
        (lane,) = broker.share_book.groups["g"].values()
        assert lane.waiters == set()

    play(tmp_path, act)


def test_a_small_room_gives_the_first_batch_and_the_rest_later(tmp_path):
    async def act(broker: Broker) -> None:
        partition = await begin(broker, "a", "b")
        await publish(broker, partition, "c")
        assert await lent(broker, wanted=NOW._replace(max_bytes=1)) == [Lent(0, 2, 1)]
        assert await lent(broker, wanted=NOW._replace(max_bytes=1)) == [Lent(2, 3, 1)]

    play(tmp_path, act)


def test_scattered_records_are_read_without_what_lies_between(tmp_path):
    async def act(broker: Broker) -> None:
        partition = await begin(broker)
        for number in range(9):
            await publish(broker, partition, str(number) * 100)
        await lent(broker)
        for first, verdict in enumerate([Verdict.AGAIN, *[Verdict.DONE] * 7, Verdict.AGAIN]):
            await ack(broker, first, first + 1, verdict)
        (delivered,) = await broker.shares.fetch("g", "m", [partition], NOW)
        assert delivered.lent == [Lent(0, 1, 2), Lent(8, 9, 2)]
        assert b"0" * 100 in delivered.data
        assert b"4" * 100 not in delivered.data

    play(tmp_path, act)


def test_what_was_never_read_cannot_be_acknowledged(tmp_path):
    async def act(broker: Broker) -> None:
        await begin(broker, "a")
        with pytest.raises(InvalidRecordState):
            await ack(broker, 0, 1)
        await lent(broker)
        with pytest.raises(InvalidRequest):
            await ack(broker, 1, 1)

    play(tmp_path, act)


# --- parts ---------------------------------------------------------------------------------------


def test_lent_records_are_split_into_what_can_be_seen_and_what_cannot():
    lent_ones = [Lent(0, 10, 1), Lent(10, 12, 2), Lent(20, 30, 1)]
    seen, empty = split(lent_ones, [(2, 4), (4, 11), (25, 40)])
    assert seen == [Lent(2, 10, 1), Lent(10, 11, 2), Lent(25, 30, 1)]
    assert empty == [(0, 2), (11, 12), (20, 25)]
    assert split(lent_ones[:1], []) == ([], [(0, 10)])


def test_sessions_go_on_epoch_by_epoch_and_start_over_at_the_end():
    sessions = ShareSessions()
    with pytest.raises(ShareSessionNotFound):
        sessions.use("g", "m", 1, 0)
    opened = sessions.use("g", "m", 0, 0)
    assert sessions.use("g", "m", 1, 0) is opened
    with pytest.raises(InvalidShareSessionEpoch):
        sessions.use("g", "m", 1, 0)
    opened.epoch = 2**31 - 1
    sessions.use("g", "m", 2**31 - 1, 0)
    assert opened.epoch == 1
    sessions.remove("g", "m")
    assert len(sessions) == 0


def test_idle_sessions_make_room_and_busy_ones_do_not():
    sessions = ShareSessions()
    for number in range(MAX_SESSIONS):
        sessions.use("g", str(number), 0, number)
    with pytest.raises(ShareSessionLimitReached):
        sessions.use("g", "one more", 0, 0)
    sessions.use("g", "one more", 0, IDLE_MS + 1)
    assert len(sessions) == MAX_SESSIONS


def test_a_session_takes_turns_and_has_a_limit():
    session = ShareSession()
    session.change([(b"t", 0), (b"t", 1), (b"t", 2)], [(b"u", 0)])
    session.change([], [(b"t", 1)])
    assert [session.in_turn()[0][1] for _ in range(3)] == [0, 2, 0]
    with pytest.raises(InvalidRequest):
        session.change(((b"t", one) for one in range(MAX_PARTITIONS + 1)), [])


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("by_duration:PT1H", 3_600_000),
        ("by_duration:P1DT2M0.5S", 86_520_500),
        ("by_duration:P1D", 86_400_000),
        ("by_duration:PT", None),
        ("by_duration:P", None),
        ("by_duration:PT5", None),
        ("latest", None),
    ],
)
def test_an_age_is_told_as_a_duration(text, age):
    assert age_ms(text) == age


def test_a_misspelt_config_is_told_what_was_meant():
    with pytest.raises(InvalidConfig, match=r"share\.isolation\.level"):
        check_group_config("share.isolation.leve", "x")
