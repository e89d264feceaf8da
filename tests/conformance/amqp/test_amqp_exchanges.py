"""Where a message goes: every kind of exchange, exchanges bound to exchanges, alternates, and their lives."""

from __future__ import annotations

import pika
import pytest
from amqp_kit import (
    OTHER,
    bound,
    channel_refused,
    declare,
    declare_exchange,
    everything,
    must_get,
    new_name,
    put,
    ready,
    until,
)


def send(channel, exchange, key="", body="m", mandatory=False, **properties):
    channel.basic_publish(exchange, key, body.encode(), pika.BasicProperties(**properties), mandatory)


# --- kinds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ],
)
def test_the_usual_exchanges_are_there(channel, name, kind):
    channel.exchange_declare(name, passive=True)
    channel.exchange_declare(name, kind, durable=True)


def test_the_default_exchange_leads_to_the_queue_of_that_name(channel):
    queue = declare(channel)
    send(channel, "", queue, "a")
    assert everything(channel, queue) == ["a"]


def test_direct_leads_to_every_queue_bound_with_that_key(channel):
    exchange = declare_exchange(channel, "direct")
    one, two, other = (bound(channel, exchange, key) for key in ("k", "k", "K"))
    send(channel, exchange, "k", "a")
    assert [ready(channel, queue) for queue in (one, two, other)] == [1, 1, 0]


def test_a_queue_bound_with_several_keys_takes_one_copy_of_each_message(channel):
    exchange = declare_exchange(channel, "topic")
    queue = bound(channel, exchange, "a.*")
    for key in ("a.b", "#", "*.b"):
        channel.queue_bind(queue, exchange, key)
    send(channel, exchange, "a.b", "once")
    assert everything(channel, queue) == ["once"]


def test_fanout_ignores_keys(channel):
    exchange = declare_exchange(channel, "fanout")
    queues = [bound(channel, exchange, key) for key in ("", "x", "y")]
    send(channel, exchange, "z", "a")
    assert [everything(channel, queue) for queue in queues] == [["a"]] * 3


@pytest.mark.parametrize(
    ("pattern", "key", "goes"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("*.b", "a.b", True),
        ("*", "", False),
        ("*", ".", False),
        ("*.*", ".", True),
        ("*", "a", True),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("a.#", "ab", False),
        ("#", "", True),
        ("#", "a.b", True),
        ("#.b", "b", True),
        ("#.b", "a.x.b", True),
        ("#.b", "a.b.c", False),
        ("#.#", "", True),
        ("a.#.b", "a.b", True),
        ("a.#.b", "a.x.y.b", True),
        ("a.#.b.#", "a.c.b.d", True),
        ("*.#", "", False),
        ("*.#", "a", True),
        ("#.*", "a.b", True),
        ("a..b", "a..b", True),
        ("a.*.b", "a..b", True),
        ("", "", True),
        ("", "a", False),
        ("a*", "ab", False),
        ("a*", "a*", True),
        ("ä.*", "ä.ö", True),
    ],
)
def test_topic_matches_word_by_word(channel, pattern, key, goes):
    exchange = declare_exchange(channel, "topic")
    queue = bound(channel, exchange, pattern, exclusive=True, durable=False)
    send(channel, exchange, key)
    assert ready(channel, queue) == int(goes)


@pytest.mark.parametrize(
    ("wanted", "headers", "goes"),
    [
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 0}, True),
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1}, False),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, True),
        ({"x-match": "any", "a": 1, "b": "x"}, {"a": 1}, True),
        ({"x-match": "any", "a": 1, "b": "x"}, {"a": 2, "b": "y"}, False),
        ({"x-match": "all", "a": 1}, {"a": "1"}, False),
        ({"x-match": "all", "a": None}, {"a": "whatever"}, True),
        ({"x-match": "all", "a": None}, {"b": 1}, False),
        ({"x-match": "all"}, {"a": 1}, True),
        ({"x-match": "all"}, {}, True),
        ({}, None, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"x-match": "all", "x-a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "any", "x-a": 1, "b": 2}, {"x-a": 1}, False),
        ({"x-match": "all-with-x", "x-a": 1, "b": 2}, {"b": 2}, False),
        ({"x-match": "all-with-x", "x-a": 1, "b": 2}, {"x-a": 1, "b": 2}, True),
        ({"x-match": "any-with-x", "x-a": 1, "b": 2}, {"x-a": 1}, True),
        ({"x-match": "all", "a": True}, {"a": True}, True),
        ({"x-match": "all", "a": True}, {"a": False}, False),
        ({"x-match": "all", "a": [1, "b"]}, {"a": [1, "b"]}, True),
    ],
)
def test_headers_match_by_value_and_type(channel, wanted, headers, goes):
    exchange = declare_exchange(channel, "headers")
    queue = declare(channel, exclusive=True, durable=False)
    channel.queue_bind(queue, exchange, "ignored", wanted)
    send(channel, exchange, "key", headers=headers)
    assert ready(channel, queue) == int(goes)


def test_bindings_that_differ_in_arguments_are_two(channel):
    exchange = declare_exchange(channel, "headers")
    queue = declare(channel)
    for value in (1, 2):
        channel.queue_bind(queue, exchange, "", {"x-match": "all", "a": value})
    channel.queue_unbind(queue, exchange, "", {"x-match": "all", "a": 1})
    send(channel, exchange, headers={"a": 1})
    send(channel, exchange, headers={"a": 2}, body="two")
    assert everything(channel, queue) == ["two"]


def test_an_unknown_x_match_is_refused(channel):
    exchange = declare_exchange(channel, "headers")
    queue = declare(channel)
    with channel_refused(406, "PRECONDITION_FAILED - "):
        channel.queue_bind(queue, exchange, "", {"x-match": "most"})


def test_consistent_hash_sends_a_key_to_one_queue_always_and_spreads_keys(channel):
    exchange = declare_exchange(channel, "x-consistent-hash")
    queues = [bound(channel, exchange, "10") for _ in range(3)]
    for number in range(60):
        send(channel, exchange, f"key-{number % 30}", f"key-{number % 30}")
    until(lambda: sum(ready(channel, queue) for queue in queues) == 60)
    found = [everything(channel, queue) for queue in queues]
    assert all(found)
    assert not set(found[0]) & set(found[1]) | set(found[1]) & set(found[2]) | set(found[0]) & set(found[2])


def test_consistent_hash_can_take_a_header_in_place_of_the_key(channel):
    exchange = declare_exchange(channel, "x-consistent-hash", arguments={"hash-header": "who"})
    queues = [bound(channel, exchange, "10") for _ in range(3)]
    for number in range(20):
        send(channel, exchange, str(number), headers={"who": "me"})
    until(lambda: sum(ready(channel, queue) for queue in queues) == 20)
    assert sorted(ready(channel, queue) for queue in queues) == [0, 0, 20]


@pytest.mark.parametrize("name", ["message_id", "correlation_id", "timestamp"])
def test_consistent_hash_can_take_a_property_in_place_of_the_key(channel, name):
    exchange = declare_exchange(channel, "x-consistent-hash", arguments={"hash-property": name})
    queues = [bound(channel, exchange, "10") for _ in range(3)]
    values = [1_700_000_000 + number if name == "timestamp" else f"id-{number}" for number in range(30)]
    for number, value in enumerate(values * 2):
        send(channel, exchange, f"key-{number}", str(value), **{name: value})
    until(lambda: sum(ready(channel, queue) for queue in queues) == 60)
    found = [everything(channel, queue) for queue in queues]
    assert all(found)
    assert all(one.count(body) == 2 for one in found for body in one)


def test_consistent_hash_sends_all_without_the_property_one_way(channel):
    exchange = declare_exchange(channel, "x-consistent-hash", arguments={"hash-property": "message_id"})
    queues = [bound(channel, exchange, "10") for _ in range(3)]
    for number in range(20):
        send(channel, exchange, str(number), headers={"message_id": str(number)} if number % 2 else None)
    until(lambda: sum(ready(channel, queue) for queue in queues) == 20)
    assert sorted(ready(channel, queue) for queue in queues) == [0, 0, 20]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        (
            {"hash-property": "message_id", "hash-header": "who"},
            "hash-header and hash-property are mutually exclusive",
        ),
    ],
)
def test_consistent_hash_refuses_what_it_cannot_go_by(channel, arguments, text):
    with channel_refused(406, f"PRECONDITION_FAILED - {text}"):
        declare_exchange(channel, "x-consistent-hash", arguments=arguments)


def test_local_random_spreads_messages_that_are_alike(channel):
    exchange = declare_exchange(channel, "x-local-random")
    queues = [bound(channel, exchange) for _ in range(2)]
    for _ in range(60):
        send(channel, exchange)
    until(lambda: sum(ready(channel, queue) for queue in queues) == 60)
    assert min(ready(channel, queue) for queue in queues) > 5


@pytest.mark.skipif(OTHER is not None, reason="RabbitMQ has delays only with a plugin that it does not ship")
def test_a_delayed_exchange_may_go_by_a_property(channel):
    arguments = {"x-delayed-type": "x-consistent-hash", "hash-property": "message_id"}
    exchange = declare_exchange(channel, "x-delayed-message", arguments=arguments)
    queues = [bound(channel, exchange, "1") for _ in range(3)]
    for number in range(30):
        headers = {"x-delay": 20} if number % 2 else None
        send(channel, exchange, "", f"id-{number % 15}", message_id=f"id-{number % 15}", headers=headers)
    until(lambda: sum(ready(channel, queue) for queue in queues) == 30)
    found = [everything(channel, queue) for queue in queues]
    assert all(one.count(body) == 2 for one in found for body in one)


@pytest.mark.skipif(OTHER is not None, reason="RabbitMQ has delays only with a plugin that it does not ship")
def test_a_delayed_exchange_holds_a_message_until_its_time(channel):
    exchange = declare_exchange(channel, "x-delayed-message", arguments={"x-delayed-type": "direct"})
    queue = bound(channel, exchange, "k")
    send(channel, exchange, "k", "late", headers={"x-delay": 150})
    send(channel, exchange, "k", "sooner", headers={"x-delay": 50})
    send(channel, exchange, "k", "now")
    assert [must_get(channel, queue).body for _ in range(3)] == ["now", "sooner", "late"]


# --- bindings ------------------------------------------------------------------------------------


def test_binding_twice_is_binding_once_and_unbinding_nothing_is_fine(channel):
    exchange = declare_exchange(channel, "direct")
    queue = bound(channel, exchange, "k")
    channel.queue_bind(queue, exchange, "k")
    send(channel, exchange, "k", "a")
    assert everything(channel, queue) == ["a"]
    channel.queue_unbind(queue, exchange, "k")
    channel.queue_unbind(queue, exchange, "k")
    send(channel, exchange, "k", "b")
    assert everything(channel, queue) == []


@pytest.mark.parametrize(
    "use",
    [
        lambda channel, name: channel.queue_unbind(name, "amq.direct", "k"),
        lambda channel, name: channel.queue_unbind(declare(channel), name, "k"),
        lambda channel, name: channel.exchange_unbind("amq.direct", name, "k"),
        lambda channel, name: channel.exchange_unbind(name, "amq.direct", "k"),
    ],
    ids=["queue", "exchange", "source", "target"],
)
def test_unbinding_what_is_not_there_is_fine(channel, use):
    use(channel, new_name("nothing"))


def test_deleting_a_queue_ends_its_bindings(channel):
    exchange = declare_exchange(channel, "fanout")
    queue = bound(channel, exchange)
    channel.queue_delete(queue)
    channel.queue_declare(queue, durable=True)
    send(channel, exchange)
    assert ready(channel, queue) == 0


def test_deleting_an_exchange_ends_its_bindings(channel):
    exchange = declare_exchange(channel, "fanout")
    queue = bound(channel, exchange)
    channel.exchange_delete(exchange)
    channel.exchange_declare(exchange, "fanout", durable=True)
    send(channel, exchange)
    assert ready(channel, queue) == 0


def test_exchanges_lead_to_exchanges_each_by_its_own_rule(channel):
    first, second = declare_exchange(channel, "topic"), declare_exchange(channel, "direct")
    channel.exchange_bind(second, first, "a.#")
    right, wrong = bound(channel, second, "a.b"), bound(channel, second, "a.c")
    send(channel, first, "a.b", "m")
    assert (everything(channel, right), everything(channel, wrong)) == (["m"], [])
    channel.exchange_unbind(second, first, "a.#")
    send(channel, first, "a.b", "m")
    assert everything(channel, right) == []


def test_rings_of_exchanges_end_and_many_paths_give_one_copy(channel):
    ring = [declare_exchange(channel, "fanout") for _ in range(3)]
    for source, target in zip(ring, [*ring[1:], ring[0]], strict=True):
        channel.exchange_bind(target, source)
    queue = declare(channel)
    for exchange in ring:
        channel.queue_bind(queue, exchange)
    send(channel, ring[1], body="once")
    assert everything(channel, queue) == ["once"]


def test_the_exchange_of_a_delivery_is_the_one_published_to(channel):
    first, second = declare_exchange(channel, "fanout"), declare_exchange(channel, "fanout")
    channel.exchange_bind(second, first)
    queue = bound(channel, second)
    send(channel, first, "key")
    method = must_get(channel, queue).method
    assert (method.exchange, method.routing_key) == (first, "key")


# --- more keys than one --------------------------------------------------------------------------


def test_cc_and_bcc_are_further_keys_and_bcc_stays_secret(channel):
    exchange = declare_exchange(channel, "direct")
    queues = [bound(channel, exchange, key) for key in ("to", "cc1", "cc2", "bcc", "nobody")]
    send(channel, exchange, "to", headers={"CC": ["cc1", "cc2"], "BCC": ["bcc"], "other": 1})
    found = [must_get(channel, queue).properties.headers for queue in queues[:4]]
    assert found == [{"CC": ["cc1", "cc2"], "other": 1}] * 4
    assert ready(channel, queues[4]) == 0


def test_cc_works_on_the_default_exchange_too(channel):
    one, two = declare(channel), declare(channel)
    put(channel, one, "m", headers={"CC": [two]})
    assert (everything(channel, one), everything(channel, two)) == (["m"], ["m"])


def test_a_cc_that_is_no_list_is_refused(channel):
    queue = declare(channel)
    with channel_refused(406, "PRECONDITION_FAILED - "):
        put(channel, queue, "m", headers={"CC": "text"})


# --- alternates ----------------------------------------------------------------------------------


def test_what_an_exchange_cannot_route_goes_to_its_alternate(channel):
    alternate = declare_exchange(channel, "fanout")
    exchange = declare_exchange(channel, "direct", arguments={"alternate-exchange": alternate})
    right, rest = bound(channel, exchange, "k"), bound(channel, alternate)
    send(channel, exchange, "k", "routed", mandatory=True)
    send(channel, exchange, "other", "unrouted", mandatory=True)
    assert (everything(channel, right), everything(channel, rest)) == (["routed"], ["unrouted"])


def test_alternates_have_alternates(channel):
    last = declare_exchange(channel, "fanout")
    middle = declare_exchange(channel, "direct", arguments={"alternate-exchange": last})
    first = declare_exchange(channel, "direct", arguments={"alternate-exchange": middle})
    queue = bound(channel, last)
    send(channel, first, "k", "m")
    assert everything(channel, queue) == ["m"]


def test_a_missing_alternate_and_a_ring_of_alternates_drop_the_message(channel):
    one, two = new_name(), new_name()
    channel.exchange_declare(one, "direct", arguments={"alternate-exchange": two})
    channel.exchange_declare(two, "direct", arguments={"alternate-exchange": one})
    lonely = declare_exchange(channel, "direct", arguments={"alternate-exchange": new_name()})
    for exchange in (one, lonely):
        with pytest.raises(pika.exceptions.UnroutableError):
            send(channel, exchange, "k", mandatory=True)


# --- lives ---------------------------------------------------------------------------------------


def gone(connection, exchange):
    channel = connection.channel()
    with channel_refused(404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"):
        channel.exchange_declare(exchange, passive=True)
    return True


def test_an_auto_delete_exchange_goes_with_its_last_binding(connection, channel):
    exchange = declare_exchange(channel, "fanout", auto_delete=True)
    channel.exchange_declare(exchange, passive=True)
    one, two = bound(channel, exchange), bound(channel, exchange)
    channel.queue_unbind(one, exchange, "")
    channel.exchange_declare(exchange, passive=True)
    channel.queue_delete(two)
    assert gone(connection, exchange)


def test_an_auto_delete_exchange_goes_with_its_last_binding_as_source_not_as_target(connection, channel):
    source = declare_exchange(channel, "fanout")
    exchange = declare_exchange(channel, "fanout", auto_delete=True)
    channel.exchange_bind(exchange, source)
    channel.exchange_unbind(exchange, source)
    channel.exchange_declare(exchange, passive=True)
    target = declare_exchange(channel, "fanout")
    channel.exchange_bind(target, exchange)
    channel.exchange_delete(target)
    assert gone(connection, exchange)


def test_an_internal_exchange_takes_messages_from_exchanges_only(connection, channel):
    inner = declare_exchange(channel, "fanout", internal=True)
    outer = declare_exchange(channel, "fanout")
    channel.exchange_bind(inner, outer)
    queue = bound(channel, inner)
    send(channel, outer, body="m")
    assert everything(channel, queue) == ["m"]
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{inner}' in vhost '/'"
    with channel_refused(403, text):
        send(channel, inner)


def test_delete_if_unused_spares_an_exchange_with_bindings(connection, channel):
    exchange = declare_exchange(channel, "fanout")
    queue = bound(channel, exchange)
    doomed = connection.channel()
    with channel_refused(406, f"PRECONDITION_FAILED - exchange '{exchange}' in vhost '/' in use"):
        doomed.exchange_delete(exchange, if_unused=True)
    channel.queue_unbind(queue, exchange, "")
    channel.exchange_delete(exchange, if_unused=True)
    assert gone(connection, exchange)


def test_deleting_what_is_not_there_is_fine(channel):
    channel.exchange_delete(new_name())
    channel.exchange_delete(new_name(), if_unused=True)


@pytest.mark.parametrize(
    ("other", "argument", "received", "current"),
    [
        ({"exchange_type": "fanout"}, "type", "'fanout'", "'direct'"),
        ({"durable": False}, "durable", "'false'", "'true'"),
        ({"auto_delete": True}, "auto_delete", "'true'", "'false'"),
        ({"internal": True}, "internal", "'true'", "'false'"),
        (
            {"arguments": {"alternate-exchange": "x"}},
            "alternate-exchange",
            "the value 'x' of type 'longstr'",
            "none",
        ),
    ],
)
def test_an_exchange_cannot_be_declared_differently(channel, other, argument, received, current):
    exchange = declare_exchange(channel, "direct")
    channel.exchange_declare(exchange, "direct", durable=True)
    with channel_refused(
        406,
        f"PRECONDITION_FAILED - inequivalent arg '{argument}' for exchange '{exchange}' in vhost '/': "
        f"received {received} but current is {current}",
    ):
        channel.exchange_declare(exchange, **{"exchange_type": "direct", "durable": True, **other})


def test_a_passive_declare_asks_only_for_the_name(channel):
    exchange = declare_exchange(channel, "direct")
    channel.exchange_declare(exchange, "fanout", passive=True, durable=False, auto_delete=True)


def test_an_unknown_kind_is_refused(channel):
    # RabbitMQ 3.10 closes the connection with 503.
    with channel_refused(406, "PRECONDITION_FAILED - "):
        channel.exchange_declare(new_name(), "nonsense")


def test_names_with_the_reserved_prefix_are_refused(channel):
    text = "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'"
    with channel_refused(403, text):
        channel.exchange_declare("amq.mine", "direct")


@pytest.mark.parametrize(
    "use",
    [
        lambda channel: channel.exchange_delete(""),
        lambda channel: channel.exchange_declare("", "direct", durable=True),
        lambda channel: channel.queue_bind(declare(channel, exclusive=True), "", "k"),
        lambda channel: channel.queue_unbind(declare(channel, exclusive=True), "", "k"),
        lambda channel: channel.exchange_bind("amq.fanout", "", "k"),
    ],
    ids=["delete", "declare", "bind", "unbind", "bind-exchange"],
)
def test_the_default_exchange_cannot_be_changed(channel, use):
    with channel_refused(403, "ACCESS_REFUSED - operation not permitted on the default exchange"):
        use(channel)


def test_the_usual_exchanges_cannot_be_deleted(channel):
    with channel_refused(403, "ACCESS_REFUSED - "):
        channel.exchange_delete("amq.direct")
