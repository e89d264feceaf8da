import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.cli.formats import make_format
from mainstem.cli.produce import record_of_json
from mainstem.model.errors import InvalidRequest
from mainstem.model.records import Record

RECORD = Record(7, 1_700_000_000_123, b"key", b"va\x1b[31mlue", (("h", b"1"), ("h", None)))


def show(wish, record=RECORD, **more):
    return make_format(wish, **more)("orders", 2, record)


def test_text_is_the_value_as_it_is():
    assert show("text") == b"va\x1b[31mlue\n"
    assert show("text", key_separator="=") == b"key=va\x1b[31mlue\n"
    assert show("text", Record(0, 0, None, None)) == b"\n"


def test_on_a_terminal_a_message_cannot_drive_it():
    assert b"\x1b" not in show("text", terminal=True)
    assert b"\x1b" not in show("{value}", terminal=True)
    assert b"\x1b" not in show("hex")


def test_json_names_everything():
    assert json.loads(show("json")) == {
        "topic": "orders",
        "partition": 2,
        "offset": 7,
        "timestamp_ms": 1_700_000_000_123,
        "time": "2023-11-14T22:13:20.123+00:00",
        "key": "key",
        "value": "va\x1b[31mlue",
        "headers": [{"name": "h", "value": "1"}, {"name": "h", "value": None}],
    }


def test_hex_shows_bytes_and_letters():
    lines = show("hex", Record(0, 0, None, bytes(range(60, 80)))).decode().splitlines()
    assert "key none" in lines[0]
    assert lines[1].startswith("00000000  3c 3d 3e 3f")
    assert lines[1].endswith("<=>?@ABCDEFGHIJK")
    assert lines[2].startswith("00000010  4c 4d 4e 4f")


def test_a_template_is_filled_in_one_pass():
    assert show("{key}:{value}\\t{offset}", Record(7, 0, b"{value}", b"v")) == b"{value}:v\t7\n"
    assert show("{headers}") == b"h=1,h=\n"
    assert show("{value}", Record(0, 0, None, b"\xff")) == b"\xff\n"


def test_a_timestamp_that_is_no_time_is_shown_as_none():
    assert show("{time}|", Record(0, 1 << 61, None, b"")) == b"|\n"


@pytest.mark.parametrize("wish", ["xml", "", "{value", "{nothing} {value}", "{value.__class__}"])
def test_what_is_no_format_is_refused(wish):
    with pytest.raises(InvalidRequest):
        make_format(wish)


maybe_bytes = st.none() | st.binary(max_size=20)


@given(maybe_bytes, maybe_bytes, st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3))
def test_what_json_prints_produce_reads_back(key, value, headers):
    record = Record(3, 1000, key, value, tuple(headers))
    again, partition = record_of_json(show("json", record), 1, 0)
    assert partition == 2
    assert (again.key, again.value, again.headers) == (key, value, tuple(headers))
    assert again.timestamp_ms == 1000
