"""Methods, through pamqp but behind guards."""

from __future__ import annotations

import inspect
import warnings
from contextlib import suppress

import pytest
from amqp_samples import unmarshal_all
from hypothesis import given
from hypothesis import strategies as st
from pamqp import base, commands, frame

from mainstem.wire.amqp import methods, tables
from mainstem.wire.amqp.errors import NAMES, AmqpError

TABLE = {"text": "ü", "number": 5, "list": [1, "two", {"three": 3.5}], "none": None, "yes": True}
SAMPLES = {"shortstr": "name", "longstr": "a longer one", "table": TABLE, "bit": True}
ALL = sorted(commands.INDEX_MAPPING.values(), key=lambda kind: kind.name)


def sample(kind):
    made = kind.__new__(kind)
    for name in kind.__slots__:
        argument = kind.amqp_type(name)
        setattr(made, name, SAMPLES.get(argument, 7))
    return made


def payload_of(made):
    out = bytearray()
    methods.append(out, 5, made)
    return bytes(out[7:-1])


def test_pamqp_knows_the_methods():
    assert len(ALL) > 60
    assert all(inspect.isclass(kind) and issubclass(kind, base.Frame) for kind in ALL)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_every_method_reads_as_it_was_written(kind):
    made = sample(kind)
    out = bytearray()
    methods.append(out, 5, made)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # pamqp's, of basic.recover-async
        ((channel, by_pamqp),) = unmarshal_all(out)
    ours = methods.decode(bytes(out[7:-1]))
    assert channel == 5
    assert type(ours) is type(by_pamqp) is kind
    assert dict(ours) == dict(by_pamqp) == dict(made)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_every_method_that_ends_early_is_a_syntax_error(kind):
    payload = payload_of(sample(kind))
    for end in range(len(payload)):
        with pytest.raises(AmqpError) as failed:
            methods.decode(payload[:end])
        assert failed.value.code in (502, 503)
    with pytest.raises(AmqpError):
        methods.decode(payload + b"\0")


def test_what_pamqp_writes_is_what_we_write():
    made = commands.Connection.Start(0, 9, TABLE, "PLAIN AMQPLAIN", "en_US")
    out = bytearray()
    methods.append(out, 0, made)
    assert out == frame.marshal(made, 0)


def test_an_unknown_method_is_invalid():
    with pytest.raises(AmqpError) as failed:
        methods.decode(b"\0\x3c\0\x01")
    assert (failed.value.code, failed.value.class_id, failed.value.method_id) == (503, 60, 1)


def nested(depth):
    value = tables.encode_value({})
    for _ in range(depth - 1):
        inner = b"\x01a" + value
        value = b"F" + len(inner).to_bytes(4, "big") + inner
    return value[1:]


def declare(table):
    return b"\0\x32\0\x0a\0\0\x01q\0" + table


def test_tables_may_be_deep_but_not_too_deep():
    assert methods.decode(declare(nested(tables.MAX_DEPTH))).queue == "q"
    with pytest.raises(AmqpError, match="deep"):
        methods.decode(declare(nested(tables.MAX_DEPTH + 1)))
    with pytest.raises(AmqpError, match="deep"):
        methods.decode(declare(nested(5000)))


def test_tables_may_have_many_values_but_not_too_many():
    many = tables.encode_value({"a": [None] * (tables.MAX_VALUES - 1)})[1:]
    assert len(methods.decode(declare(many)).arguments["a"]) == tables.MAX_VALUES - 1
    with pytest.raises(AmqpError, match="more than"):
        methods.decode(declare(tables.encode_value({"a": [None] * tables.MAX_VALUES})[1:]))


@pytest.mark.parametrize("value", [b"T" + b"\xff" * 8, b"Z", b"S\0\0\0\5abc", b"D\xff"])
def test_a_value_that_cannot_be_is_a_syntax_error(value):
    inner = b"\x01a" + value
    with pytest.raises(AmqpError) as failed:
        methods.decode(declare(len(inner).to_bytes(4, "big") + inner))
    assert (failed.value.code, failed.value.class_id, failed.value.method_id) == (502, 50, 10)


def test_a_queue_may_have_any_name_that_a_client_gave_it():
    out = bytearray()
    methods.append(out, 1, methods.declare_ok("a&ü{}", 3, 4))
    ((_channel, made),) = unmarshal_all(out)
    assert (made.queue, made.message_count, made.consumer_count) == ("a&ü{}", 3, 4)


@pytest.mark.parametrize("multiple", [False, True])
def test_confirms_are_acks_and_nacks(multiple):
    out = bytearray()
    methods.append_ack(out, 3, 1 << 40, multiple)
    methods.append_nack(out, 4, 9, multiple)
    (one, ack), (two, nack) = unmarshal_all(out)
    assert (one, ack.delivery_tag, ack.multiple) == (3, 1 << 40, multiple)
    assert (two, nack.delivery_tag, nack.multiple, nack.requeue) == (4, 9, multiple, False)
    assert isinstance(ack, commands.Basic.Ack)
    assert isinstance(nack, commands.Basic.Nack)


def test_a_heartbeat_is_one():
    assert unmarshal_all(methods.HEARTBEAT)[0][1].name == "Heartbeat"


@given(st.sampled_from(sorted(commands.INDEX_MAPPING)), st.binary(max_size=80))
def test_random_arguments_are_a_method_or_a_typed_error(index, data):
    with suppress(AmqpError):
        made = methods.decode(index.to_bytes(4, "big") + data)
        assert type(made) is commands.INDEX_MAPPING[index]


@given(st.binary(max_size=80))
def test_random_tables_are_read_or_a_typed_error(data):
    table = len(data).to_bytes(4, "big") + data
    with suppress(AmqpError):
        assert isinstance(methods.decode(declare(table)).arguments, dict)


# --- errors ----------------------------------------------------------------------------------------------


def test_codes_tell_what_they_close():
    soft = {code for code in NAMES if not AmqpError(code, "").closes_connection}
    assert soft == {311, 312, 313, 403, 404, 405, 406}
    assert AmqpError(403, "who?", closes_connection=True).closes_connection


def test_a_text_for_the_wire_is_cut_between_characters():
    error = AmqpError(404, "ü" * 300, 50, 10)
    assert error.reply_text.startswith("NOT_FOUND - ü")
    assert 254 <= len(error.reply_text.encode()) <= 255
    assert str(AmqpError(999, "x")) == "999 INTERNAL_ERROR - x"
