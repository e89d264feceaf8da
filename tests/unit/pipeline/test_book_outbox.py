from mainstem.pipeline.book_outbox import Outbox


def test_only_the_newest_status_of_a_pipeline_waits():
    box = Outbox()
    box.put_status(b"orders", b"1")
    box.put_status(b"clicks", b"2")
    box.put_status(b"orders", b"3")
    assert box.load().statuses == {b"orders": b"3", b"clicks": b"2"}


def test_what_was_not_sent_stays():
    box = Outbox()
    box.put_status(b"orders", b"1")
    box.put_event(b"orders", b"a")
    assert box.load() == box.load()
    box.sent(box.load())
    assert not box


def test_a_status_that_came_while_an_older_one_was_sent_is_sent_next():
    box = Outbox()
    box.put_status(b"orders", b"1")
    load = box.load()
    box.put_status(b"orders", b"2")
    box.sent(load)
    assert box.load().statuses == {b"orders": b"2"}


def test_the_oldest_events_are_given_up_and_counted():
    box = Outbox(max_events=2)
    for value in (b"a", b"b", b"c", b"d"):
        box.put_event(b"orders", value)
    assert [value for _, value in box.load().events] == [b"c", b"d"]
    assert box.lost == 2


def test_events_are_sent_in_order_in_batches_that_a_broker_takes():
    box = Outbox(max_batch_bytes=10)
    for number in range(5):
        box.put_event(b"k", bytes([number]) * 4)
    sizes, seen = [], []
    while box:
        load = box.load()
        sizes.append(len(load.events))
        seen += [value[0] for _, value in load.events]
        box.sent(load)
    assert sizes == [2, 2, 1]
    assert seen == [0, 1, 2, 3, 4]


def test_an_event_above_the_limit_goes_alone():
    box = Outbox(max_batch_bytes=10)
    box.put_event(b"k", b"x" * 100)
    box.put_event(b"k", b"y")
    assert len(box.load().events) == 1
