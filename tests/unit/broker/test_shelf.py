"""What lanes keep opened is bounded for the whole broker, and no delivery depends on it."""

from __future__ import annotations

from pathlib import Path

from queue_kit import Eager, declare, eventually, publish, run, take_all

from mainstem.broker.queues import Namespace, Queue, Queues, Target
from mainstem.broker.queues.opened import open_written
from mainstem.broker.queues.shelf import LEAST_READ_BYTES, MOST_READ_BYTES, Shelf
from mainstem.model import record_loop
from mainstem.model.batch import BATCH_OVERHEAD


class Book:
    """Keeps nothing, and says whether it had to forget it."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.forgotten = 0

    def make_room(self) -> None:
        self.forgotten += 1
        self.shelf.remove(self)


def test_beyond_its_size_the_shelf_lets_those_forget_that_were_put_longest_ago() -> None:
    shelf = Shelf(100)
    books = [Book(shelf) for _ in range(4)]
    for book in books[:3]:
        shelf.put(book, 30)
    shelf.put(books[0], 35)  # the last in line now
    shelf.put(books[3], 30)
    assert [book.forgotten for book in books] == [0, 1, 0, 0]
    assert (shelf.bytes, len(shelf)) == (95, 3)
    shelf.put(books[2], 1000)  # one that is too large stands alone
    assert [book.forgotten for book in books] == [1, 1, 0, 1]
    assert (shelf.bytes, len(shelf)) == (1000, 1)
    shelf.remove(books[2])
    shelf.remove(books[2])
    assert (shelf.bytes, len(shelf)) == (0, 0)


def test_many_are_let_go_at_once() -> None:
    shelf = Shelf(10_000)
    books = [Book(shelf) for _ in range(10_000)]
    for book in books:
        shelf.put(book, 1)
    shelf.put(Book(shelf), 10_000)
    assert (shelf.bytes, len(shelf)) == (10_000, 1)
    assert all(book.forgotten == 1 for book in books)


def test_the_fuller_the_shelf_the_less_is_read_at_first() -> None:
    shelf = Shelf(64 << 20)
    reads = []
    for size in (0, 32 << 20, 48 << 20, 60 << 20, 64 << 20):
        shelf.put(Book(shelf), size - shelf.bytes)
        reads.append(shelf.read_bytes)
    assert reads == sorted(reads, reverse=True)
    assert (reads[0], reads[-1]) == (MOST_READ_BYTES, LEAST_READ_BYTES)


def test_a_part_of_an_opened_batch_is_a_batch_of_the_same_messages() -> None:
    out = bytearray(BATCH_OVERHEAD)
    for number in range(50):
        headers = record_loop.encode_headers((("number", b"%d" % number),))
        key = None if number % 3 else b"k%d" % number
        record_loop.append_record(out, number, number, key, b"v" * number, headers)
    whole = open_written(out, 1000, 50, 5000)
    for first, most_bytes in ((1000, 1), (1000, 1 << 20), (1017, 3000), (1049, 1)):
        part = whole.part(first, most_bytes)
        assert part.base_offset == first
        assert part.stop - first == len(part.spans) >= 1
        assert part.kept_bytes <= most_bytes or len(part.spans) == 1
        for index, span in enumerate(part.spans):
            other = whole.spans[first - 1000 + index]
            assert part.data[span[0] : span[1]] == whole.data[other[0] : other[1]]
            assert (span[3], span[2], span[5], span[7]) == (index, other[2], other[5], other[7])
            assert (
                part.data[span[4] : span[4] + max(span[5], 0)] == whole.data[other[4] :][: max(other[5], 0)]
            )
            assert part.data[span[6] : span[6] + span[7]] == whole.data[other[6] : other[6] + other[7]]
            assert part.headers(index) == whole.headers(first - 1000 + index)
    assert whole.part(1000, 1 << 20).stop == whole.stop


# --- with queues over a real log -----------------------------------------------------------------


async def filled(queues: Queues, ns: Namespace, count: int, messages: int, size: int) -> list[Queue]:
    """So many queues, each with a backlog in batches of nine small messages and of one large one."""
    found = [await declare(queues, ns, f"q{number}") for number in range(count)]
    for at in range(0, messages, 10):
        for queue in found:
            await publish(queues, ns, queue.name, *(b"%d" % number for number in range(at, at + 9)))
            await publish(queues, ns, queue.name, b"%d" % (at + 9) + b"." * size)
    return found


def kept(queues: list[Queue]) -> int:
    return sum(lane.reader.kept_bytes for queue in queues for lane in queue.lanes)


def test_queues_whose_consumers_take_nothing_keep_no_more_than_the_shelf_holds(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queues.shelf.most_bytes = 400_000
        found = [await declare(queues, ns, f"q{number}") for number in range(40)]
        for queue in found:
            await publish(queues, ns, queue.name, b"a" * 30_000, b"b" * 30_000)
        takers = [Eager(1) for _ in found]
        for queue, taker in zip(found, takers, strict=True):
            queue.subscribe(taker)
        for taker in takers:
            assert await taker.until(1) == [b"a" * 30_000]
        assert 0 < kept(found) <= queues.shelf.bytes <= queues.shelf.most_bytes
        assert sum(1 for queue in found if not kept([queue])) >= 20, "most of them had to forget"

    run(tmp_path, act)


def test_a_lane_that_had_to_forget_goes_on_where_it_was(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queues.shelf.most_bytes = 100_000  # less than two of them need
        found = await filled(queues, ns, 6, 30, 30_000)
        takers = [Eager(1) for _ in found]
        for queue, taker in zip(found, takers, strict=True):
            queue.subscribe(taker)
        for number in range(30):
            for queue, taker in zip(found, takers, strict=True):
                await taker.until(number + 1)
                taker._credit = 1
                queue.wake()
                assert queues.shelf.bytes <= queues.shelf.most_bytes
        for queue, taker in zip(found, takers, strict=True):
            assert [int(body.rstrip(b".")) for *_, body in taker.got] == list(range(30))
            assert not any(again for _, _, again, _ in taker.got)
            queue.ack(0, 0, 30)
            assert (queue.ready, queue.unacked) == (0, 0)

    run(tmp_path, act)


def test_lanes_that_are_taken_from_in_turn_come_to_share_the_shelf(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queues.shelf.most_bytes = 2_000_000  # about four of these batches, opened
        found = [await declare(queues, ns, f"q{number}") for number in range(20)]
        for queue in found:
            await publish(queues, ns, queue.name, *(b"%d" % number for number in range(2000)))
        takers = [Eager(1) for _ in found]
        for queue, taker in zip(found, takers, strict=True):
            queue.subscribe(taker)
        for number in range(1, 40):
            for queue, taker in zip(found, takers, strict=True):
                await taker.until(number)
                taker._credit = 1
                queue.wake()
        for taker in takers:
            assert await taker.until(40) == [b"%d" % number for number in range(40)]
        assert queues.shelf.bytes <= queues.shelf.most_bytes
        assert all(kept([queue]) for queue in found), "each has some of its messages at hand"
        takers[0]._credit = -1
        found[0].wake()
        assert await takers[0].until(2000) == [b"%d" % number for number in range(2000)]

    run(tmp_path, act)


def test_what_was_just_written_and_is_not_taken_is_bounded_too(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queues.shelf.most_bytes = 200_000
        found = [await declare(queues, ns, f"q{number}") for number in range(30)]
        takers = [Eager(0) for _ in found]
        for queue, taker in zip(found, takers, strict=True):
            queue.subscribe(taker)
        for queue in found:
            await publish(queues, ns, queue.name, b"x" * 30_000)
        assert 0 < kept(found) <= queues.shelf.bytes <= queues.shelf.most_bytes
        for queue, taker in zip(found, takers, strict=True):
            taker._credit = 1
            queue.wake()
        for taker in takers:
            assert await taker.until(1) == [b"x" * 30_000]

    run(tmp_path, act)


def test_nothing_is_kept_once_all_was_taken_or_nobody_takes(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        eager, idle = await declare(queues, ns, "eager"), await declare(queues, ns, "idle")
        taker, waiting = Eager(), Eager(1)
        eager.subscribe(taker)
        idle.subscribe(waiting)
        await publish(queues, ns, "eager", b"a", b"b")
        await publish(queues, ns, "idle", b"a", b"b")
        await taker.until(2)
        await waiting.until(1)
        await eventually(lambda: not kept([eager]))
        assert kept([idle]) > 0
        idle.unsubscribe(waiting)
        assert (kept([idle]), queues.shelf.bytes, len(queues.shelf)) == (0, 0, 0)

    run(tmp_path, act)


def test_a_queue_that_is_deleted_leaves_nothing_on_the_shelf(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work")
        await publish(queues, ns, "work", b"a", b"b")
        assert await queue.get() is not None
        assert len(queues.shelf) == 1
        await queues.topology.delete_queue(queue)
        assert (len(queues.shelf), queues.shelf.bytes) == (0, 0)

    run(tmp_path, act)


def test_lanes_that_share_a_body_share_its_weight(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        found = [await declare(queues, ns, f"q{number}") for number in range(10)]
        for queue in found:
            await queues.topology.bind(ns, "amq.fanout", Target("queue", queue.name), "", {})
            queue.subscribe(Eager(0))
        await publish(queues, ns, "", b"x" * 50_000, exchange="amq.fanout")
        assert 50_000 <= queues.shelf.bytes < 60_000
        for queue in found:
            assert await take_all(queue) == [b"x" * 50_000]

    run(tmp_path, act)
