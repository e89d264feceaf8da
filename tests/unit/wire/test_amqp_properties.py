"""Properties as bytes: the few that a broker reads, and changes that leave everything else alone."""

from __future__ import annotations

import datetime
from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands
from pamqp import decode as pamqp_decode

from mainstem.wire.amqp import convert, properties, tables
from mainstem.wire.amqp.errors import AmqpError

NOON = datetime.datetime(2024, 5, 6, 12, tzinfo=datetime.UTC)


def made(**fields):
    return properties.encode(commands.Basic.Properties(**fields))


FULL = made(
    content_type="text/plain",
    content_encoding="utf-8",
    headers={"x-delay": 1500, "CC": ["a", "b"], "BCC": ["c"], "other": True},
    delivery_mode=2,
    priority=5,
    correlation_id="corr",
    reply_to="back",
    expiration="60000",
    message_id="id",
    timestamp=NOON,
    message_type="kind",
    user_id="guest",
    app_id="app",
)
# Types that Python has no word for must survive.
TYPED = b"\1aB\xff\1bu\xff\xff\1ci\xff\xff\xff\xff\1df\0\0\x80?\1eT\0\0\0\0\0\0\0\1\1fx\0\0\0\1z\1gV"


def with_table(inner, other=b""):
    return b"\x20\x00" + len(inner).to_bytes(4, "big") + inner + other


def test_what_a_broker_looks_at_is_read():
    assert properties.read(FULL) == properties.Wanted(
        priority=5,
        expiration_ms=60000,
        delivery_mode=2,
        reply_to="back",
        user_id="guest",
        delay_ms=1500,
        cc=("a", "b"),
        bcc=("c",),
    )
    assert properties.read(b"\0\0") == (None, None, None, None, None, None, (), ())


def test_each_flag_is_the_one_that_pamqp_has():
    names = [name.upper() for name in commands.Basic.Properties.flags]
    names[names.index("MESSAGE_TYPE")] = "TYPE"
    assert [getattr(properties, name) for name in names] == list(commands.Basic.Properties.flags.values())
    assert list(properties.FIELDS) == list(commands.Basic.Properties.flags.values())


@pytest.mark.parametrize("text", ["", "abc", "-1", "1.5", "1e3", "9" * 200, " 5", "٣"])
def test_an_expiration_that_is_no_number_of_milliseconds_is_refused(text):
    raw = b"\x01\x00" + bytes((len(text.encode()),)) + text.encode()
    with pytest.raises(AmqpError) as failed:
        properties.read(raw)
    assert (failed.value.code, failed.value.closes_connection) == (406, False)


@pytest.mark.parametrize("name", ["CC", "BCC"])
@pytest.mark.parametrize("value", ["a", 1, [1], ["a", None], {}])
def test_copies_must_be_a_list_of_strings(name, value):
    with pytest.raises(AmqpError) as failed:
        properties.read(made(headers={name: value}))
    assert failed.value.code == 406


@pytest.mark.parametrize(
    ("value", "delay_ms"),
    [(5, 5), ("250", 250), (0, None), (-5, None), ("x", None), (True, None), (2.5, None)],
)
def test_a_delay_is_a_number_above_zero(value, delay_ms):
    assert properties.read(made(headers={"x-delay": value})).delay_ms == delay_ms


def test_what_an_exchange_may_go_by_is_told_as_text():
    found = properties.labels(FULL)
    assert found == {"x-delay": 1500, "CC": ["a", "b"], "BCC": ["c"], "other": True}
    seconds = str(int(NOON.timestamp()))
    assert found.properties == {"correlation_id": "corr", "message_id": "id", "timestamp": seconds}
    assert properties.labels(b"\0\0") == {}
    assert properties.labels(b"\0\0").properties == {}
    assert properties.labels(b"\0\x80\1\xff").properties == {"message_id": "\udcff"}, (
        "not utf-8, and still told"
    )


def test_headers_are_decoded_as_pamqp_does():
    assert properties.headers(FULL)["CC"] == ["a", "b"]
    assert properties.headers(b"\x10\x00\x02") == {}


def test_a_change_leaves_everything_else_as_it_was():
    before = properties.decode(FULL)
    after = properties.decode(properties.patch(FULL, {"x-death": [{"count": 1}]}, ("BCC",)))
    expected = {**before.headers, "x-death": [{"count": 1}]}
    del expected["BCC"]
    assert after.headers == expected
    for name in commands.Basic.Properties.flags:
        if name != "headers":
            assert getattr(after, name) == getattr(before, name)


def test_values_that_are_not_changed_keep_their_types():
    raw = with_table(TYPED + b"\3BCCA\0\0\0\0")
    assert properties.without_bcc(raw) == with_table(TYPED)
    assert properties.patch(raw, {"a": 1}) == with_table(
        TYPED[4:] + b"\3BCCA\0\0\0\0" + b"\1al" + bytes(7) + b"\1"
    )


def test_properties_come_and_go():
    assert properties.with_reply_to(b"\0\0", "x") == b"\x02\x00\x01x"
    assert properties.decode(properties.with_reply_to(FULL, "elsewhere")).reply_to == "elsewhere"
    assert properties.patch(b"\x01\x00\x015", change={properties.EXPIRATION: None}) == b"\0\0"
    assert properties.patch(b"\0\0", change={properties.PRIORITY: b"\7"}) == b"\x08\x00\x07"
    assert properties.patch(b"\0\0", {"n": 1}) == with_table(b"\1nl" + bytes(7) + b"\1")


def test_properties_that_end_early_or_late_are_broken():
    for end in range(len(FULL)):
        for function in (properties.read, properties.headers, properties.decode, properties.without_bcc):
            with pytest.raises(AmqpError) as failed:
                function(FULL[:end])
            assert failed.value.code == 502
    with pytest.raises(AmqpError):
        properties.read(FULL + b"\0")


def test_tables_are_written_in_types_that_rabbitmq_uses():
    value = {
        "n": 1,
        "s": "x",
        "b": b"y",
        "t": True,
        "f": 1.5,
        "v": None,
        "time": tables.Seconds(9),
        "a": ["z"],
    }
    raw = tables.encode_value(value)
    kinds = dict(tables.entries(raw[1:]))
    assert {name.decode(): of[:1] for name, of in kinds.items()} == {
        "n": b"l",
        "s": b"S",
        "b": b"S",
        "t": b"t",
        "f": b"d",
        "v": b"V",
        "time": b"T",
        "a": b"A",
    }
    assert tables.decode(raw[1:])["time"] == datetime.datetime.fromtimestamp(9, datetime.UTC)


@given(st.binary(max_size=60))
def test_random_bytes_are_properties_or_a_typed_error(data):
    for function in (properties.read, properties.headers, properties.decode, convert.to_kafka):
        with suppress(AmqpError):
            function(data)


@given(st.binary(max_size=60))
def test_random_tables_stay_as_they_are_when_something_is_added(data):
    raw = with_table(data)
    try:
        before = tables.entries(raw[2:])
    except AmqpError:
        return
    after = tables.entries(properties.patch(raw, {"x-new": 1})[2:])
    assert after[-1] == (b"x-new", b"l" + bytes(7) + b"\1")
    assert after[:-1] == [entry for entry in before if entry[0] != b"x-new"]


short = st.text(min_size=1, max_size=20)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.text(max_size=20)
    | st.floats(allow_nan=False, width=32)
    | st.integers(0, 1 << 31).map(lambda number: datetime.datetime.fromtimestamp(number, datetime.UTC))
)
nested = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(short, inner, max_size=4),
    max_leaves=12,
)
any_properties = st.fixed_dictionaries(
    {},
    optional={
        "content_type": short,
        "headers": st.dictionaries(short, nested, min_size=1, max_size=5),
        "delivery_mode": st.sampled_from([1, 2]),
        "priority": st.integers(0, 255),
        "reply_to": short,
        "expiration": st.integers(0, 1 << 40).map(str),
        "timestamp": st.integers(0, 1 << 31).map(
            lambda number: datetime.datetime.fromtimestamp(number, datetime.UTC)
        ),
        "user_id": short,
        "app_id": short,
    },
)


@given(any_properties)
def test_properties_that_pamqp_wrote_are_read_as_pamqp_reads_them(given_fields):
    raw = made(**given_fields)
    expected = commands.Basic.Properties(**given_fields)
    assert properties.decode(raw) == expected
    assert properties.headers(raw) == (expected.headers or {})
    assert properties.patch(raw) == raw
    assert properties.join(properties.fields(raw)) == raw
    wanted = properties.read(raw)
    assert (wanted.priority, wanted.delivery_mode) == (expected.priority, expected.delivery_mode)
    assert (wanted.reply_to, wanted.user_id) == (expected.reply_to, expected.user_id)
    assert wanted.expiration_ms == (None if expected.expiration is None else int(expected.expiration))
    convert.to_kafka(raw)


@given(st.dictionaries(short, nested, max_size=5))
def test_tables_that_we_wrote_are_read_back(table):
    plain = {name: value for name, value in table.items() if isinstance(value, int | str | None)}
    raw = tables.encode_value(plain)
    assert tables.decode(raw[1:]) == plain == pamqp_decode.field_table(raw[1:])[1]


# --- to Kafka and from it ----------------------------------------------------------------------------------


def test_properties_become_headers_by_the_table():
    assert convert.to_kafka(FULL) == (
        ("content-type", b"text/plain"),
        ("content-encoding", b"utf-8"),
        ("priority", b"5"),
        ("correlation-id", b"corr"),
        ("reply-to", b"back"),
        ("expiration", b"60000"),
        ("message-id", b"id"),
        ("timestamp", b"%d" % NOON.timestamp()),
        ("type", b"kind"),
        ("user-id", b"guest"),
        ("app-id", b"app"),
        ("BCC", b'["c"]'),
        ("CC", b'["a", "b"]'),
        ("other", b"true"),
        ("x-delay", b"1500"),
    )


def test_values_of_a_table_become_bytes():
    headers = {
        "text": "ü",
        "number": -5,
        "real": 1.5,
        "none": None,
        "time": NOON,
        "raw": bytearray(b"\xff"),
        "money": Decimal("1.25"),
        "deep": {"a": [NOON, None, bytearray(b"z"), {"b": False}]},
    }
    seconds = b"%d" % NOON.timestamp()
    assert dict(convert.to_kafka(made(headers=headers))) == {
        "text": "ü".encode(),
        "number": b"-5",
        "real": b"1.5",
        "none": None,
        "time": seconds,
        "raw": b"\xff",
        "money": b"1.25",
        "deep": b'{"a": [' + seconds + b', null, "z", {"b": false}]}',
    }


@pytest.mark.parametrize("name", ["amqp", "route", "dead", "expires", "content-type", "header.x", "priority"])
def test_a_header_whose_name_has_another_meaning_gets_another_name(name):
    raw = made(headers={name: "mine"})
    assert convert.to_kafka(raw) == ((f"header.{name}", b"mine"),)
    back = convert.to_amqp(convert.to_kafka(raw), 0, 4000)
    assert properties.headers(back) == {name: "mine"}


def test_headers_become_properties_again():
    back = properties.decode(convert.to_amqp(convert.to_kafka(FULL), 5000, 4000))
    before = properties.decode(FULL)
    for name in commands.Basic.Properties.flags:
        if name not in ("headers", "user_id"):
            assert getattr(back, name) == getattr(before, name), name
    assert back.user_id is None
    assert back.headers == {
        "user-id": "guest",
        "x-delay": "1500",
        "CC": '["a", "b"]',
        "BCC": '["c"]',
        "other": "true",
    }


def test_headers_of_the_broker_are_left_out_and_a_clients_of_the_same_name_are_not():
    own = (("dead", b"x"), ("keys", b"y"), ("mine", b"z"))
    assert properties.headers(convert.to_amqp(own, 0, 4000)) == {"dead": "x", "keys": "y", "mine": "z"}
    assert properties.headers(convert.to_amqp((*own, ("route", b"\0\0")), 0, 4000)) == {"mine": "z"}


def test_headers_that_cannot_be_properties_stay_headers():
    headers = (
        ("content-type", b"\xff"),
        ("message-id", b"x" * 256),
        ("priority", b"256"),
        ("timestamp", b"noon"),
        ("reply-to", None),
    )
    found = properties.decode(convert.to_amqp(headers, -1, 4000))
    assert found.headers == {
        "content-type": b"\xff",
        "message-id": "x" * 256,
        "priority": "256",
        "timestamp": "noon",
        "reply-to": None,
    }
    assert (found.timestamp, found.delivery_mode) == (None, 2)


names = st.text(max_size=20)
values = st.none() | st.binary(max_size=20)


@given(
    st.lists(st.tuples(names, values), max_size=8).map(tuple), st.integers(-5, 1 << 42), st.integers(60, 300)
)
def test_any_headers_become_sound_properties_within_their_bound(headers, timestamp_ms, max_bytes):
    raw = convert.to_amqp(headers, timestamp_ms, max_bytes)
    properties.decode(raw)
    # Without any entry of a table it is as small as it can be.
    assert len(raw) <= max_bytes or properties.HEADERS not in properties.fields(raw)
