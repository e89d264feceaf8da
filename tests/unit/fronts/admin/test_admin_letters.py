"""Messages over the door: named, shown, chosen and changed."""

from __future__ import annotations

import msgspec
import pytest

from mainstem.broker.partition import Partition
from mainstem.broker.queues import OpenBatch
from mainstem.broker.queues.browse import Seen
from mainstem.broker.queues.dead_letters import join_route, split_route
from mainstem.broker.queues.lanes import QueueLane
from mainstem.fronts.admin import properties
from mainstem.fronts.admin.letters import (
    Edit,
    Wish,
    body_shown,
    given_body,
    letter_id,
    parse_id,
    rewritten,
)
from mainstem.model import record_loop
from mainstem.model.errors import InvalidRequest
from mainstem.wire.amqp import properties as props


def seen(body: bytes, *headers: tuple[str, bytes | None], key: bytes = b"k") -> Seen:
    out = bytearray()
    record_loop.append_record(out, 0, 0, key, body, record_loop.encode_headers(headers))
    data = bytes(out)
    batch = OpenBatch(0, 1000, data, record_loop.scan(data, 1, 0))
    partition = Partition(1, 0, None)  # type: ignore[arg-type]
    return Seen(QueueLane(0, partition, None), 0, False, batch)  # type: ignore[arg-type]


RAW = properties.encode({"priority": 4, "expiration": "5000", "type": "t"}, {"a": 1, "b": "two"})
DEATHS = [["orders", "rejected", 2, 5, "shop", ["order.new"], None]]
DEAD = ("dead", msgspec.msgpack.encode(DEATHS))
ROUTE = ("route", join_route("", "orders.dead"))


@pytest.mark.parametrize(("lane", "offset", "text"), [(0, 17, "17"), (2, 17, "2:17")])
def test_ids_are_read_as_they_are_written(lane: int, offset: int, text: str):
    assert letter_id(lane, offset) == text
    assert parse_id(text) == (lane, offset)


@pytest.mark.parametrize("text", ["", "x", "1:", ":1", "1:2:3", "-1", "9" * 30, "١"])
def test_what_is_no_id_is_refused(text: str):
    with pytest.raises(InvalidRequest, match="no message id"):
        parse_id(text)


def test_a_body_is_shown_as_text_if_it_is_text_also_when_it_was_cut():
    assert body_shown("grün".encode()) == {"body": "grün"}
    assert body_shown("grün".encode()[:3]) == {"body": "gr"}
    assert body_shown(b"\xff\x00") == {"body_base64": "/wA="}
    assert body_shown(b"") == {"body": ""}


def test_a_body_is_given_as_text_or_as_base64():
    assert given_body("a", None) == b"a"
    assert given_body(None, "/wA=") == b"\xff\x00"
    assert given_body(None, None) is None
    with pytest.raises(InvalidRequest, match="not both"):
        given_body("a", "YQ==")
    with pytest.raises(InvalidRequest, match="base64"):
        given_body(None, "!")


@pytest.mark.parametrize(
    ("wish", "fits"),
    [
        (Wish(), True),
        (Wish(reason="rejected", died_in="orders"), True),
        (Wish(reason="expired"), False),
        (Wish(died_in="other"), False),
        (Wish(key="order.new"), True),
        (Wish(key="orders.dead"), True),
        (Wish(key="order"), False),
        (Wish(contains=b"ello"), True),
        (Wish(contains=b"bye"), False),
        (Wish(header=("a", "1")), True),
        (Wish(header=("a", "2")), False),
        (Wish(header=("c", "1")), False),
        (Wish(reason="rejected", contains=b"bye"), False),
    ],
)
def test_messages_are_chosen_by_all_that_is_wished(wish: Wish, fits: bool):
    assert wish.fits(seen(b"hello", ROUTE, ("amqp", RAW), DEAD)) is fits


def test_what_is_no_dead_letter_has_no_reason():
    assert not Wish(reason="rejected").fits(seen(b"x", ROUTE, ("amqp", RAW)))
    assert not Wish(reason="rejected").fits(seen(b"x", ("dead", b"no msgpack")))


def test_a_moved_message_is_as_it_was_but_for_its_expiration():
    made = rewritten(
        seen(b"x", ROUTE, ("amqp", RAW), DEAD, ("expires", None), ("since", b"12345678")),
        "shop",
        "new",
        Edit(),
    )
    headers = dict(made.headers)
    assert (made.key, made.body, made.priority) == (b"new", b"x", 4)
    assert list(headers) == ["route", "amqp", "dead"]
    assert split_route(headers["route"]) == ("shop", "new")
    raw = headers["amqp"]
    assert raw is not None
    assert properties.decode(raw) == ({"type": "t", "delivery_mode": 2, "priority": 4}, {"a": 1, "b": "two"})


def test_an_edit_changes_body_and_headers_and_forgets_deaths():
    edit = Edit(body=b"y", set_headers={"c": [True, None]}, drop_headers=("a",), fresh=True)
    made = rewritten(seen(b"x", ROUTE, ("amqp", RAW), DEAD), "", "q", edit)
    headers = dict(made.headers)
    assert made.body == b"y"
    assert "dead" not in headers
    raw = headers["amqp"]
    assert raw is not None
    assert props.headers(raw) == {"b": "two", "c": [True, None]}


def test_a_message_of_another_protocol_keeps_its_headers():
    made = rewritten(
        seen(b"x", ("trace", b"1"), ("n", None)), "", "q", Edit(set_headers={"trace": "2", "deep": {"a": 1}})
    )
    assert dict(made.headers) == {
        "route": join_route("", "q"),
        "n": None,
        "trace": b"2",
        "deep": b'{"a":1}',
    }


# --- properties ----------------------------------------------------------------------------------


def test_properties_and_headers_come_back_as_given():
    given = {"content_type": "text/plain", "delivery_mode": 1, "timestamp": 5, "message_id": "m"}
    headers = {"n": 1, "f": 1.5, "t": True, "none": None, "list": [1, "a"], "deep": {"x": {"y": 1}}}
    assert properties.decode(properties.encode(given, headers)) == (given, headers)
    assert properties.decode(properties.encode({}, {})) == ({"delivery_mode": 2}, {})


@pytest.mark.parametrize(
    ("given", "headers", "why"),
    [
        ({"colour": "red"}, {}, "no property 'colour'"),
        ({"priority": 256}, {}, "priority"),
        ({"priority": True}, {}, "priority"),
        ({"content_type": 5}, {}, "content_type"),
        ({"content_type": "x" * 256}, {}, "255 bytes"),
        ({}, {"x" * 256: 1}, "255 bytes"),
        ({}, {"n": 1 << 64}, "64 bits"),
    ],
)
def test_properties_that_make_no_sense_are_refused(
    given: dict[str, object], headers: dict[str, object], why: str
):
    with pytest.raises(InvalidRequest, match=why):
        properties.encode(given, headers)


def test_headers_that_are_too_deep_are_refused():
    deep: object = 1
    for _ in range(100):
        deep = [deep]
    with pytest.raises(InvalidRequest, match="deep"):
        properties.encode({}, {"x": deep})
