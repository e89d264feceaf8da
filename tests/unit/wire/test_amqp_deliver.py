"""Published messages as records, records as deliveries, read back by pamqp."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest
from amqp_samples import FRAME_MAX, feed, pamqp_publish, publish_frames, scan_all, scanner, unmarshal_all
from hypothesis import given
from hypothesis import strategies as st
from pamqp import body, commands, header

from mainstem.model import record_loop
from mainstem.model.record import Record
from mainstem.wire.amqp import properties
from mainstem.wire.amqp.deliver import Deliveries, GetOk, encode_get_ok, encode_return
from mainstem.wire.amqp.scan import encode_record, encode_records

TIME_MS = 1_700_000_000_123


@dataclass
class Batch:
    data: bytes
    count: int
    base_ms: int = TIME_MS
    base_offset: int = 500

    def __post_init__(self):
        self.spans = record_loop.scan(self.data, self.count, self.count)

    def records(self):
        return record_loop.decode(self.data, self.count, self.count, self.base_offset, self.base_ms, None)


def batch_of(*records):
    """Of records made by hand."""
    out = bytearray()
    record_loop.encode(out, records, TIME_MS)
    return Batch(bytes(out), len(records))


def written(data, **limits):
    """All messages of a stream as one batch."""
    _used, events = scan_all(data, **limits)
    out, count = bytearray(), 0
    for run in events:
        encode_records(out, count, run, 0, run.count)
        count += run.count
    return Batch(bytes(out), count)


def messages(data):
    """(channel, method, properties, body) of every message in these frames."""
    frames = unmarshal_all(data)
    found = []
    for channel, value in frames:
        if isinstance(value, header.ContentHeader):
            found[-1][2:] = [value.properties, b""]
            left = value.body_size
        elif isinstance(value, body.ContentBody):
            found[-1][3] += value.value
            left -= len(value.value)
            assert left >= 0
            assert channel == found[-1][0]
        else:
            found.append([channel, value])
    assert all(len(each) == 4 for each in found)
    return found


def delivered(batch, frame_max=FRAME_MAX, **options):
    out = bytearray()
    assert Deliveries(2, "tag", frame_max, **options).encode(out, 7, False, batch, 0, batch.count) == (
        7 + batch.count
    )
    return messages(out)


# --- records ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 62, 63, 64, 65, 8190, 8192, 70_000])
def test_a_published_message_is_a_record_with_its_route_and_its_properties(size):
    data = b"".join(publish_frames(1, b"logs", b"a.b", b"x" * size, b"\x10\x00\x02", part=FRAME_MAX - 8))
    (record,) = written(data).records()
    assert (record.key, record.value, record.timestamp_ms) == (b"a.b", b"x" * size, TIME_MS)
    assert record.headers == (("route", b"\x04logs\x03a.b"), ("amqp", b"\x10\x00\x02"))


def test_a_run_can_be_written_in_parts_and_from_any_message_on():
    data = b"".join(pamqp_publish(1, "", "q", b"%d" % number * (number % 9)) for number in range(300))
    _used, (run,) = scan_all(data)
    out = bytearray(b"before")
    encode_records(out, 0, run, 100, 200)
    encode_records(out, 100, run, 200, 300)
    encode_records(out, 200, run, 0, 100)
    encode_records(out, 300, run, 5, 5)
    assert out[:6] == b"before"
    values = [record.value for record in Batch(bytes(out[6:]), 300).records()]
    bodies = [run.body(index) for index in range(300)]
    assert values == bodies[100:] + bodies[:100]


@pytest.mark.parametrize(("i", "j"), [(0, 3), (-1, 1), (2, 3)])
def test_messages_that_are_not_there_are_not_written(i, j):
    _used, (run,) = scan_all(pamqp_publish(1, "", "q", b"1") * 2)
    out = bytearray()
    with pytest.raises(IndexError):
        encode_records(out, 0, run, i, j)
    assert not out


def test_a_record_can_have_other_properties_and_more_headers():
    _used, (run,) = scan_all(pamqp_publish(1, "e", "k", b"body", reply_to="x"))
    out = bytearray()
    encode_record(out, 0, run, 0, b"\x10\x00\x01", (("expires", bytes(8)),))
    (record,) = Batch(bytes(out), 1).records()
    assert record.value == b"body"
    assert record.headers == (("route", b"\x01e\x01k"), ("amqp", b"\x10\x00\x01"), ("expires", bytes(8)))


# --- deliveries ------------------------------------------------------------------------------------------


def test_a_run_is_delivered_with_rising_tags_and_untouched_properties():
    data = b"".join(pamqp_publish(1, "e", f"k.{n // 4}", b"x" * n, message_id=str(n)) for n in range(20))
    batch = written(data)
    out = bytearray()
    consumer = Deliveries(3, "ctag-ü", FRAME_MAX)
    assert consumer.encode(out, 5, True, batch, 2, 20) == 23
    for number, (channel, method, found, content) in zip(range(2, 20), messages(out), strict=True):
        assert isinstance(method, commands.Basic.Deliver)
        assert (channel, method.consumer_tag, method.delivery_tag) == (3, "ctag-ü", number + 3)
        assert (method.exchange, method.routing_key, method.redelivered) == ("e", f"k.{number // 4}", True)
        assert (found.message_id, content) == (str(number), b"x" * number)


def test_a_body_larger_than_a_frame_is_cut():
    content = bytes(range(256)) * 50
    batch = written(b"".join(publish_frames(1, b"", b"q", content, b"\x10\x00\x02")))
    out = bytearray()
    Deliveries(1, "t", FRAME_MAX).encode(out, 1, False, batch, 0, 1)
    assert all(len(value.value) <= FRAME_MAX - 8 for _, value in unmarshal_all(out)[2:])
    assert messages(out)[0][3] == content


@pytest.mark.parametrize("size", [FRAME_MAX - 9, FRAME_MAX - 8, FRAME_MAX - 7])
def test_a_body_of_about_a_frame_comes_whole(size):
    batch = written(b"".join(publish_frames(1, b"", b"q", bytes(size), b"\x10\x00\x02")))
    ((_channel, _method, _found, content),) = delivered(batch)
    assert content == bytes(size)


def test_a_record_of_a_kafka_client_gets_properties_from_its_headers_and_time():
    headers = (("content-type", b"text/plain"), ("trace", b"abc"), ("empty", None), ("trace", b"last"))
    batch = batch_of(
        Record(0, TIME_MS, b"key", b"value", headers),
        Record(0, TIME_MS + 5000, None, None),
        Record(0, TIME_MS, b"\xff" * 300, b""),
    )
    first, second, third = delivered(batch)
    assert (first[1].exchange, first[1].routing_key, first[3]) == ("", "key", b"value")
    assert first[2].content_type == "text/plain"
    assert first[2].headers == {"trace": "last", "empty": None}
    assert (first[2].delivery_mode, int(first[2].timestamp.timestamp())) == (2, TIME_MS // 1000)
    assert int(second[2].timestamp.timestamp()) == TIME_MS // 1000 + 5
    assert (second[1].routing_key, second[3], third[1].routing_key) == ("", b"", "")


def test_usual_and_unusual_records_mix():
    usual = (("route", b"\x00\x01q"), ("amqp", b"\x10\x00\x02"))
    rows = [usual, (), usual, (*usual, ("expires", bytes(8))), usual, usual[::-1], usual[:1], usual]
    batch = batch_of(*[Record(0, TIME_MS, b"q", b"%d" % n, headers) for n, headers in enumerate(rows)])
    found = delivered(batch)
    assert [content for *_, content in found] == [b"%d" % n for n in range(len(rows))]
    assert {method.routing_key for _, method, *_ in found} == {"q"}
    assert [method.delivery_tag for _, method, *_ in found] == list(range(7, 7 + len(rows)))


def test_of_headers_with_the_same_name_the_last_one_counts():
    headers = (("route", b"\x00\x01a"), ("amqp", b"\x10\x00\x01"), ("route", b"\x01x\x01b"))
    ((_channel, method, found, _content),) = delivered(batch_of(Record(0, TIME_MS, b"a", b"", headers)))
    assert (method.exchange, method.routing_key, found.delivery_mode) == ("x", "b", 1)


def test_a_dead_letter_tells_its_history():
    dead = [
        ["second", "rejected", 1, TIME_MS + 9000, "dlx", ["k"], None],
        ["first", "expired", 2, TIME_MS, "", ["first", "cc"], "5000"],
    ]
    raw = properties.encode(commands.Basic.Properties(expiration="5000", headers={"mine": 1}))
    headers = (("route", b"\x00\x01q"), ("amqp", raw), ("dead", msgspec.msgpack.encode(dead)))
    ((_channel, _method, found, _content),) = delivered(batch_of(Record(0, TIME_MS, b"q", b"", headers)))
    assert found.expiration is None
    assert found.headers["mine"] == 1
    second, first = found.headers["x-death"]
    assert (second["count"], second["reason"], second["queue"], second["exchange"]) == (
        1,
        "rejected",
        "second",
        "dlx",
    )
    assert "original-expiration" not in second
    assert (first["count"], first["routing-keys"], first["original-expiration"]) == (
        2,
        ["first", "cc"],
        "5000",
    )
    assert int(first["time"].timestamp()) == TIME_MS // 1000
    assert found.headers["x-first-death-queue"] == "first"
    assert found.headers["x-first-death-reason"] == "expired"
    assert found.headers["x-last-death-queue"] == "second"


def test_a_stream_tells_offsets():
    usual = (("route", b"\x00\x01q"), ("amqp", b"\x10\x00\x02"))
    batch = batch_of(Record(0, TIME_MS, b"q", b"1", usual), Record(0, TIME_MS, b"q", b"2"))
    found = delivered(batch, with_offset=True)
    assert [each[2].headers for each in found] == [{"x-stream-offset": 500}, {"x-stream-offset": 501}]


def test_a_stream_of_records_that_differ_tells_each_as_it_is():
    own = properties.encode(commands.Basic.Properties(app_id="me", headers={"x": 1, "x-stream-offset": 9}))
    rows = [
        Record(0, TIME_MS, b"a", b"1"),
        Record(0, TIME_MS, b"b", b"2"),
        Record(0, TIME_MS + 3000, b"b", None),
        Record(0, TIME_MS, None, b"4", (("h", b"v"),)),
        Record(0, TIME_MS, b"c", b"5", (("route", b"\x01e\x01r"), ("amqp", own))),
        Record(0, TIME_MS, b"d", b"6", (("route", b"\x01e\x01r"), ("amqp", own))),
    ]
    found = delivered(batch_of(*rows), with_offset=True)
    assert [method.routing_key for _, method, *_ in found] == ["a", "b", "b", "", "r", "r"]
    assert [content for *_, content in found] == [b"1", b"2", b"", b"4", b"5", b"6"]
    assert [made.headers["x-stream-offset"] for _, _, made, _ in found] == list(range(500, 506))
    assert found[3][2].headers["h"] == "v"
    assert (found[5][2].headers["x"], found[5][2].app_id) == (1, "me")
    assert int(found[2][2].timestamp.timestamp()) == TIME_MS // 1000 + 3


@pytest.mark.parametrize(
    "headers",
    [
        (("route", b"\x05a"), ("amqp", b"garbage")),
        (("route", b""), ("amqp", b"")),
        (("route", None), ("amqp", None), ("dead", None)),
        (("route", b"\x01"), ("dead", b"garbage")),
        (("amqp", b"\x20\x00\x00\x00\x00\x03\x01aZ"),),  # a table with an unknown type
        (("amqp", b"\x20\x00\x00\x00\x00\x0b\x01aT" + b"\xff" * 8),),  # a time beyond all calendars
        (("amqp", b"\x80\x00\x01\xff"),),  # a string that is no text
    ],
)
def test_headers_that_a_kafka_client_forged_do_not_reach_a_consumer(headers):
    batch = batch_of(Record(0, TIME_MS, b"key", b"value", headers))
    ((_channel, method, found, content),) = delivered(batch, with_offset=True)
    assert (method.exchange, method.routing_key, content) == ("", "key", b"value")
    assert found.delivery_mode == 2


def test_headers_beyond_the_size_of_a_frame_are_left_out():
    headers = tuple((f"h{n}", b"x" * 500) for n in range(50))
    batch = batch_of(Record(0, TIME_MS, b"key", b"value", headers))
    out = bytearray()
    Deliveries(1, "t", FRAME_MAX).encode(out, 1, False, batch, 0, 1)
    scan = scanner()
    buffer = bytearray(out)
    scan.scan(buffer, 0, len(buffer))  # every frame within the limit, or this would say so
    ((_channel, _method, found, _content),) = messages(out)
    assert list(found.headers) == [f"h{n}" for n in range(len(found.headers))]
    assert 5 < len(found.headers) < 10


def test_a_delivery_count_can_be_added():
    batch = written(pamqp_publish(1, "", "q", b"x", app_id="me"))
    out = bytearray()
    Deliveries(1, "t", FRAME_MAX).encode_one(out, 9, True, batch, 0, {"x-delivery-count": 2})
    ((_channel, method, found, _content),) = messages(out)
    assert (method.delivery_tag, found.headers, found.app_id) == (9, {"x-delivery-count": 2}, "me")


def test_a_message_that_is_no_record_is_delivered():
    out = bytearray()
    consumer = Deliveries(1, "t", FRAME_MAX)
    consumer.encode_message(out, 1, b"\x00\x05reply", b"\x10\x00\x01", b"answer")
    ((_channel, method, found, content),) = messages(out)
    assert (method.routing_key, found.delivery_mode, content) == ("reply", 1, b"answer")


def test_an_answer_to_get_tells_what_is_left():
    batch = written(pamqp_publish(1, "e", "q", b"x" * 5000, app_id="me"), frame_max=9000)
    out = bytearray()
    encode_get_ok(out, GetOk(4, FRAME_MAX, 11, True, 3), batch, 0)
    ((channel, method, found, content),) = messages(out)
    assert isinstance(method, commands.Basic.GetOk)
    assert (channel, method.delivery_tag, method.redelivered, method.message_count) == (4, 11, True, 3)
    assert (method.exchange, method.routing_key, found.app_id, content) == ("e", "q", "me", b"x" * 5000)


def test_a_message_that_went_nowhere_is_returned():
    _used, (run,) = scan_all(pamqp_publish(6, "e", "k", b"1", app_id="me") * 2)
    out = bytearray()
    encode_return(out, FRAME_MAX, 312, "NO_ROUTE", run, 1)
    ((channel, method, found, content),) = messages(out)
    assert isinstance(method, commands.Basic.Return)
    assert (channel, method.reply_code, method.reply_text) == (6, 312, "NO_ROUTE")
    assert (method.exchange, method.routing_key, found.app_id, content) == ("e", "k", "me", b"1")


keys = st.text(max_size=70).map(str.encode).filter(lambda key: len(key) < 256)
contents = st.one_of(st.binary(max_size=200), st.integers(0, 9000).map(lambda size: b"z" * size))
raws = st.sampled_from([b"\0\0", b"\x10\0\1", b"\x88\0\1a\7", b"\x20\0\0\0\0\0"]) | st.text(max_size=60).map(
    lambda text: properties.encode(commands.Basic.Properties(content_type=text or "a", headers={"h": text}))
)


@given(st.lists(st.tuples(keys, keys, contents, raws), max_size=10))
def test_what_is_published_is_what_is_delivered(made):
    stream = b"".join([part for row in made for part in publish_frames(1, *row)])
    batch = written(stream)
    out = bytearray()
    Deliveries(1, "t", FRAME_MAX).encode(out, 1, False, batch, 0, batch.count)
    # Deliveries have the shape of publishes: their route follows the tags, in place of the reserved bytes.
    before = len(b"\0\x3c\0\x3c\1t") + 9
    frames = []
    at = 0
    while at < len(out):
        stop = at + int.from_bytes(out[at + 3 : at + 7], "big") + 8
        frames.append(bytes(out[at:stop]))
        at = stop
    again = []
    for frame in frames:
        if frame[0] == 1:
            payload = b"\0\x3c\0\x28\0\0" + frame[7 + before : -1] + b"\0"
            again.append(frame[:3] + len(payload).to_bytes(4, "big") + payload + b"\xce")
        else:
            again.append(frame)
    assert feed(scanner(), again) == feed(scanner(), [stream])
