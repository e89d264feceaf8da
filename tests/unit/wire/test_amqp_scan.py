"""What a connection sends, found by the run, in any pieces; typed errors for anything else."""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest
from amqp_samples import (
    FRAME_MAX,
    MAX_BODY_BYTES,
    Published,
    feed,
    only_error,
    pamqp_publish,
    publish_frames,
    raw_frame,
    scan_all,
    scanner,
    spread,
)
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, frame

from mainstem.wire.amqp.errors import AmqpError
from mainstem.wire.amqp.scan import ACK, DROP, FAIL, REQUEUE, Acks, Method, Publishes, Refused

HEARTBEAT = raw_frame(8, 0, b"")
OPEN = frame.marshal(commands.Channel.Open(), 3)


def ack(tag, multiple=False, channel=1):
    return frame.marshal(commands.Basic.Ack(tag, multiple), channel)


def nack(tag, multiple=False, requeue=True, channel=1):
    return frame.marshal(commands.Basic.Nack(tag, multiple, requeue), channel)


def reject(tag, requeue=True, channel=1):
    return frame.marshal(commands.Basic.Reject(tag, requeue), channel)


# --- publishes -------------------------------------------------------------------------------------------


def test_publishes_to_the_same_place_are_one_event():
    data = b"".join(pamqp_publish(1, "logs", "a.b", b"x" * size, delivery_mode=2) for size in range(5))
    used, events = scan_all(data)
    assert used == len(data)
    (run,) = events
    assert (run.channel, run.exchange, run.key, run.count, run.plain) == (1, "logs", "a.b", 5, True)
    assert run.route == b"\x04logs\x03a.b"
    assert [run.body(index) for index in range(5)] == [b"x" * size for size in range(5)]
    assert run.bytes == 5 * 3 + 10


@pytest.mark.parametrize(
    "other",
    [
        pamqp_publish(2, "e", "k", b"1"),
        pamqp_publish(1, "f", "k", b"1"),
        pamqp_publish(1, "e", "l", b"1"),
        pamqp_publish(1, "e", "k", b"1", mandatory=True),
        pamqp_publish(1, "e", "k", b"1", priority=1),
        pamqp_publish(1, "e", "k", b"1", expiration="5"),
        pamqp_publish(1, "e", "k", b"1", headers={"a": 1}),
    ],
)
def test_a_publish_that_differs_begins_a_new_run(other):
    one = pamqp_publish(1, "e", "k", b"1")
    _used, events = scan_all(one + one + other + one)
    assert [run.count for run in events] == [2, 1, 1]


def test_a_run_tells_what_properties_its_messages_have():
    data = pamqp_publish(1, "", "q", b"", reply_to="me") + pamqp_publish(1, "", "q", b"", app_id="us")
    _used, (run,) = scan_all(data)
    assert run.present == 0x0200 | 0x0008
    assert run.plain
    _used, (run,) = scan_all(pamqp_publish(1, "", "q", b"", headers={"a": 1}))
    assert not run.plain


def test_mandatory_and_immediate_are_told_apart():
    method = commands.Basic.Publish(exchange="", routing_key="q", mandatory=False, immediate=True)
    tail = pamqp_publish(1, "", "q", b"")[len(frame.marshal(method, 1)) :]
    _used, (run,) = scan_all(frame.marshal(method, 1) + tail)
    assert (run.mandatory, run.immediate) == (False, True)


def test_an_exchange_that_is_not_utf_8_is_an_error_when_it_is_read():
    _used, (run,) = scan_all(b"".join(publish_frames(1, b"\xff", b"k", b"")))
    with pytest.raises(AmqpError) as failed:
        _ = run.exchange
    assert failed.value.code == 502
    assert run.key == "k"


def test_a_body_of_several_frames_is_put_together():
    body = bytes(range(256)) * 40
    frames = publish_frames(1, b"", b"q", body, b"\x10\x00\x02")
    assert len(frames) > 4
    _used, (run,) = scan_all(b"".join(frames))
    assert (run.body(0), run.properties(0), run.count) == (body, b"\x10\x00\x02", 1)


def test_frames_of_other_channels_may_lie_between_those_of_a_message():
    one = publish_frames(1, b"", b"a", b"1" * 6000)
    two = publish_frames(2, b"", b"b", b"2" * 6000)
    mixed = [part for pair in zip(one, two, strict=True) for part in pair]
    mixed.insert(3, HEARTBEAT)
    mixed.insert(5, ack(9, channel=4))
    scan = scanner()
    found = feed(scan, [b"".join(mixed)])
    assert found == [
        Acks(4, 9, 9, False, ACK),
        Published(1, "", "a", False, b"\0\0", b"1" * 6000),
        Published(2, "", "b", False, b"\0\0", b"2" * 6000),
    ]
    assert (scan.heartbeats, scan.held_bytes) == (1, 0)


@pytest.mark.parametrize(
    "short", [HEARTBEAT, frame.marshal(commands.Channel.CloseOk(), 2), ack(1, channel=2)]
)
def test_a_message_that_is_not_complete_does_not_hold_up_what_follows_it(short):
    begun = publish_frames(1, b"", b"q", b"0123456789")
    for count in (1, 2):
        scan = scanner()
        data = bytearray(b"".join(begun[:count]) + short)
        used, events = scan.scan(data, 0, len(data))
        assert used == len(data)
        assert len(events) + scan.heartbeats == 1
        (message,) = feed(scan, begun[count:])
        assert message.body == b"0123456789"


def test_a_message_that_is_not_there_is_an_index_error():
    _used, (run,) = scan_all(pamqp_publish(1, "", "q", b"x"))
    for index in (-1, 1):
        with pytest.raises(IndexError):
            run.body(index)


# --- acks ------------------------------------------------------------------------------------------------


def test_acks_in_a_row_are_one_event():
    _used, events = scan_all(b"".join(ack(tag) for tag in range(3, 50)))
    assert events == [Acks(1, 3, 49, False, ACK)]


def test_acks_that_do_not_follow_each_other_are_told_apart():
    data = [ack(1), ack(2), ack(4), ack(3), ack(9, multiple=True), ack(10), ack(11, channel=2), nack(12)]
    data += [nack(13), nack(14, requeue=False), reject(15, requeue=False), reject(16), ack(0, multiple=True)]
    _used, events = scan_all(b"".join(data))
    assert events == [
        Acks(1, 1, 2, False, ACK),
        Acks(1, 4, 4, False, ACK),
        Acks(1, 3, 3, False, ACK),
        Acks(1, 9, 9, True, ACK),
        Acks(1, 10, 10, False, ACK),
        Acks(2, 11, 11, False, ACK),
        Acks(1, 12, 13, False, REQUEUE),
        Acks(1, 14, 14, False, DROP),
        Acks(1, 15, 15, False, DROP),
        Acks(1, 16, 16, False, FAIL),
        Acks(1, 0, 0, True, ACK),
    ]


def test_a_nack_and_a_reject_that_requeue_are_not_one_event():
    _used, events = scan_all(nack(1) + reject(2) + reject(3) + nack(4) + reject(5, requeue=False) + nack(6))
    assert [(one.first, one.last, one.kind) for one in events] == [
        (1, 1, REQUEUE),
        (2, 3, FAIL),
        (4, 4, REQUEUE),
        (5, 5, DROP),
        (6, 6, REQUEUE),
    ]


def test_a_tag_of_64_bits_is_read_whole():
    last = (1 << 63) - 1
    _used, events = scan_all(
        ack(last - 1) + ack(last) + raw_frame(1, 1, b"\0\x3c\0\x50" + b"\xff" * 8 + b"\0")
    )
    assert events == [Acks(1, last - 1, last, False, ACK), Acks(1, (1 << 64) - 1, (1 << 64) - 1, False, ACK)]


# --- everything else ------------------------------------------------------------------------------------


def test_other_methods_come_with_their_payload():
    _used, events = scan_all(OPEN + HEARTBEAT)
    assert events == [Method(3, OPEN[7:-1])]


def test_a_channel_may_be_closed_in_the_middle_of_a_message():
    first = publish_frames(1, b"", b"q", b"x" * 9000)[:3]
    for method in (commands.Channel.CloseOk(), commands.Channel.Close(200, "bye", 0, 0)):
        scan = scanner()
        found = feed(scan, [*first, frame.marshal(method, 1), pamqp_publish(1, "", "q", b"y")])
        assert [type(event) for event in found] == [Method, Published]
        assert scan.held_bytes == 0


def test_half_a_message_can_be_forgotten():
    scan = scanner()
    assert feed(scan, publish_frames(1, b"", b"q", b"x" * 9000)[:3]) == []
    assert scan.held_bytes > FRAME_MAX - 8
    scan.forget(1)
    scan.forget(2)
    assert scan.held_bytes == 0
    assert feed(scan, [ack(1)]) == [Acks(1, 1, 1, False, ACK)]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (raw_frame(1, 1, bytes(FRAME_MAX - 7)), 501),  # larger than agreed
        (b"\x01\0\x01\xff\xff\xff\xff\0", 501),  # and before any of it has come
        (raw_frame(1, 1, b"\0\x14\0\x0a\0", end=b"\xcd"), 501),  # end octet
        (raw_frame(4, 1, b""), 501),  # unknown type
        (raw_frame(0, 1, b""), 501),
        (b"AMQP\0\0\x09\x01", 501),
        (raw_frame(1, 1, b"\0\x14"), 501),  # no method id
        (raw_frame(8, 1, b""), 505),  # heartbeats belong to the connection
        (raw_frame(8, 0, b"x"), 505),
        (raw_frame(2, 0, bytes(14)), 505),  # content on channel 0
        (raw_frame(2, 1, bytes(14)), 505),  # content without a publish
        (raw_frame(3, 1, b"x"), 505),
        (raw_frame(1, 11, OPEN[7:-1]), 504),  # channel above the agreed one
        (raw_frame(1, 0, publish_frames(1, b"", b"", b"")[0][7:-1]), 504),
        (raw_frame(1, 0, ack(1)[7:-1]), 504),
        (raw_frame(1, 1, b"\0\x3c\0\x28\0\0\0\5abc\0"), 502),  # routing key cut short
        (raw_frame(1, 1, b"\0\x3c\0\x28\0\0\xff"), 502),
        (raw_frame(1, 1, b"\0\x3c\0\x28"), 502),
        (raw_frame(1, 1, b"\0\x3c\0\x50\0"), 502),  # ack cut short
    ],
)
def test_a_broken_frame_ends_the_connection(data, code):
    error = only_error(data)
    assert (error.code, error.closes_connection) == (code, True)


METHOD, HEADER, BODY = publish_frames(1, b"", b"q", b"0123456789")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (METHOD + METHOD, 505),
        (METHOD + ack(1), 505),
        (METHOD + OPEN + BODY, 505),
        (METHOD + BODY, 505),
        (METHOD + HEADER + HEADER + BODY, 505),
        (METHOD + HEADER + METHOD, 505),
        (METHOD + HEADER + raw_frame(3, 1, bytes(11)), 501),  # more body than announced
        (METHOD + HEADER + raw_frame(3, 1, bytes(6)) + raw_frame(3, 1, bytes(5)), 501),
        (METHOD + raw_frame(2, 1, b"\0\x3d" + HEADER[9:-1]), 505),  # class
        (METHOD + raw_frame(2, 1, b"\0\x3c\0\1" + HEADER[11:-1]), 501),  # weight
        (METHOD + raw_frame(2, 1, HEADER[7:-3]), 501),  # no flags
        (METHOD + HEADER[:-1] + b"\0" + BODY, 501),
        (METHOD + HEADER + BODY[:-1] + b"\0", 501),
    ],
)
def test_content_out_of_order_or_shape_ends_the_connection(data, code):
    assert only_error(data).code == code


@pytest.mark.parametrize(
    "properties",
    [
        b"\x80\x00",  # a string that is not there
        b"\x80\x00\x05abc",
        b"\x10\x00",
        b"\x10\x00\x02\x00",
        b"\x00\x40" + bytes(7),
        b"\x20\x00\x00\x00",
        b"\x20\x00\x00\x00\x00\x09",
        b"\x00\x01\x00\x00",  # a second word of flags
        b"\x00\x02",
        b"\x00\x00\x01",
    ],
)
def test_properties_that_do_not_fill_their_place_end_the_connection(properties):
    assert only_error(b"".join(publish_frames(1, b"", b"q", b"x", properties))).code == 502


def test_what_came_before_an_error_is_still_told_and_after_it_nothing():
    scan = scanner()
    data = bytearray(ack(1) + pamqp_publish(1, "", "q", b"x") + raw_frame(9, 0, b"") + ack(2))
    used, events = scan.scan(data, 0, len(data))
    assert used == len(data)
    assert [type(event) for event in events] == [Acks, Publishes, Refused]
    assert scan.scan(bytearray(ack(3)), 0, 21) == (21, [events[-1]])


def test_a_body_that_is_too_large_is_refused_before_it_comes_and_closes_only_its_channel():
    frames = publish_frames(1, b"", b"q", bytes(MAX_BODY_BYTES + 1))
    scan = scanner()
    (refused,) = feed(scan, frames[:2])
    assert (refused.channel, refused.error.code, refused.error.closes_connection) == (1, 406, False)
    found = feed(scan, [*frames[2:], pamqp_publish(2, "", "q", b"y"), pamqp_publish(1, "", "q", b"z")])
    assert [event.body for event in found] == [b"y", b"z"]
    assert scan.held_bytes == 0


def test_a_small_limit_on_bodies_holds_for_bodies_of_one_frame():
    (refused,) = feed(scanner(max_body_bytes=3), [pamqp_publish(1, "", "q", b"1234")])
    assert refused.error.code == 406
    assert len(feed(scanner(max_body_bytes=3), [pamqp_publish(1, "", "q", b"123")])) == 1


def test_many_channels_together_cannot_hold_more_than_a_few_large_messages():
    frames = [publish_frames(channel, b"", b"q", bytes(5000))[:3] for channel in range(1, 100)]
    scan = scanner(channel_max=1000, max_body_bytes=5000)
    found = feed(scan, [b"".join(each) for each in frames])
    assert isinstance(found[0], Refused)
    assert found[0].error.code == 506
    assert scan.held_bytes == 0


# --- in pieces, and at random -----------------------------------------------------------------------------

STREAM = [
    OPEN,
    *[b"".join(publish_frames(1, b"e", b"k", b"x" * size, b"\x10\x00\x02")) for size in (5, 0, 300)],
    HEARTBEAT,
    *[ack(tag) for tag in range(1, 4)],
    *publish_frames(2, b"e", b"\xc3\xbc", b"long" * 30, part=50),
    *[b"".join(publish_frames(1, b"e", b"k", b"y", b"\x08\x00\x05"))] * 2,
    nack(9, requeue=False),
]


def test_a_stream_cut_anywhere_is_the_same_stream():
    data = b"".join(STREAM)
    whole = feed(scanner(), [data])
    assert len(whole) == 11
    for cut in range(len(data) + 1):
        assert feed(scanner(), [data[:cut], data[cut:]]) == whole


def test_a_stream_that_ends_early_is_no_error_and_its_start_is_told():
    data = b"".join(STREAM)
    whole = feed(scanner(), [data])
    for end in range(len(data)):
        found = feed(scanner(), [data[:end]])
        assert found == whole[: len(found)]


def test_a_stream_that_comes_byte_by_byte_is_the_same_stream():
    data = b"".join(STREAM)
    assert feed(scanner(), [data[at : at + 1] for at in range(len(data))]) == feed(scanner(), [data])


names = st.text(max_size=8).map(str.encode)
messages = st.tuples(
    st.integers(1, 3),
    st.sampled_from([b"", b"e", "ü".encode()]),
    st.one_of(st.just(b"k"), names),
    st.one_of(st.binary(max_size=40), st.integers(0, 5000).map(bytes)),
    st.sampled_from([b"\0\0", b"\x10\0\1", b"\x88\0\1a\7", b"\x20\0\0\0\0\0"]),
    st.booleans(),
)


@given(
    st.lists(messages, max_size=12), st.integers(1, 5000), st.lists(st.integers(1, 3), max_size=60), st.data()
)
def test_messages_of_many_channels_in_any_mixture_and_pieces_come_out_as_they_went_in(
    made, part, turns, data
):
    frames = {channel: [] for channel in (1, 2, 3)}
    expected = {channel: [] for channel in (1, 2, 3)}
    for channel, exchange, key, body, properties, mandatory in made:
        part = min(part, FRAME_MAX - 8)
        frames[channel] += publish_frames(channel, exchange, key, body, properties, mandatory, part)
        message = Published(channel, exchange.decode(), key.decode(), mandatory, properties, body)
        expected[channel].append(message)
    stream = bytearray()
    for channel in itertools.chain(turns, *([channel] * len(frames[channel]) for channel in frames)):
        if frames[channel]:
            stream += frames[channel].pop(0)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [bytes(stream[a:b]) for a, b in itertools.pairwise([0, *cuts, len(stream)])]
    scan = scanner()
    found = feed(scan, pieces)
    assert {ch: [each for each in found if each.channel == ch] for ch in expected} == expected
    assert scan.held_bytes == 0


@given(st.binary(max_size=300), st.integers(0, 300))
def test_random_bytes_give_events_and_nothing_else(data, cut):
    feed(scanner(), [data[:cut], data[cut:]])


@given(st.lists(st.tuples(st.integers(0, len(b"".join(STREAM)) - 1), st.integers(0, 255)), max_size=4))
def test_a_stream_with_wrong_bytes_gives_events_and_nothing_else(changes):
    data = bytearray(b"".join(STREAM))
    for at, value in changes:
        data[at] = value
    scan = scanner()
    _used, events = scan.scan(data, 0, len(data))
    for event in events:
        if isinstance(event, Publishes):
            with suppress(AmqpError):  # a name that is not utf-8
                list(spread([event]))
