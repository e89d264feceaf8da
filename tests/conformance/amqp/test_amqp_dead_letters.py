"""Dead letters: why a message left its queue, where it went, and what is told of its past."""

from __future__ import annotations

import datetime
import time
from contextlib import suppress

import pika
import pytest
from amqp_kit import (
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


def dying(channel, exchange="", key=None, **more):
    """A queue whose dead letters go to the exchange, and (by default) from there to a queue: both names."""
    graveyard = declare(channel, "graveyard")
    arguments = {"x_dead_letter_exchange": exchange}
    if not exchange:
        arguments["x_dead_letter_routing_key"] = graveyard
    elif key is not None:
        arguments["x_dead_letter_routing_key"] = key
    return declare(channel, "dying", **arguments, **more), graveyard


def reject_one(channel, queue):
    channel.basic_reject(must_get(channel, queue, ack=False).tag, requeue=False)


def test_a_rejected_message_goes_to_the_dead_letter_exchange_with_its_history(channel):
    exchange = declare_exchange(channel, "fanout")
    queue = declare(channel, x_dead_letter_exchange=exchange)
    grave = bound(channel, exchange)
    before = int(time.time())
    put(channel, queue, "m", content_type="text/plain", delivery_mode=2, headers={"mine": 1})
    reject_one(channel, queue)
    dead = must_get(channel, grave)
    assert (dead.body, dead.method.exchange, dead.method.routing_key) == ("m", exchange, queue)
    assert (dead.properties.content_type, dead.properties.delivery_mode) == ("text/plain", 2)
    headers = dead.properties.headers
    (death,) = headers["x-death"]
    died = death.pop("time")
    assert death == {
        "queue": queue,
        "reason": "rejected",
        "count": 1,
        "exchange": "",
        "routing-keys": [queue],
    }
    assert before <= died.replace(tzinfo=datetime.UTC).timestamp() <= time.time() + 1
    assert headers["mine"] == 1
    first = {name: headers[f"x-first-death-{name}"] for name in ("queue", "reason", "exchange")}
    assert first == {"queue": queue, "reason": "rejected", "exchange": ""}
    # RabbitMQ 3.10 did not tell of the last death.
    last = {name: headers[f"x-last-death-{name}"] for name in ("queue", "reason", "exchange")}
    assert last == first


def test_nack_without_requeue_dead_letters_all_in_order(connection, channel):
    queue, grave = dying(channel)
    put(channel, queue, *"abc")
    held = [must_get(channel, queue, ack=False) for _ in range(3)]
    channel.basic_nack(held[-1].tag, multiple=True, requeue=False)
    until(lambda: ready(channel, grave) == 3)
    assert everything(channel, grave) == ["a", "b", "c"]


def test_the_dead_letter_routing_key_replaces_the_key(channel):
    exchange = declare_exchange(channel, "direct")
    queue, _ = dying(channel, exchange, "dead")
    grave = bound(channel, exchange, "dead")
    put(channel, queue, "m")
    reject_one(channel, queue)
    dead = must_get(channel, grave)
    assert dead.method.routing_key == "dead"
    assert dead.properties.headers["x-death"][0]["routing-keys"] == [queue]


def test_the_key_of_publishing_is_kept_without_one(channel):
    source, exchange = declare_exchange(channel, "topic"), declare_exchange(channel, "topic")
    queue = bound(channel, source, "a.#", x_dead_letter_exchange=exchange)
    grave = bound(channel, exchange, "#")
    channel.basic_publish(source, "a.b", b"m")
    reject_one(channel, queue)
    dead = must_get(channel, grave)
    assert dead.method.routing_key == "a.b"
    (death,) = dead.properties.headers["x-death"]
    assert (death["exchange"], death["routing-keys"]) == (source, ["a.b"])


def test_a_message_that_outlives_its_queues_time_dies_as_expired(channel):
    queue, grave = dying(channel, x_message_ttl=10)
    put(channel, queue, "m")
    dead = must_get(channel, grave)
    (death,) = dead.properties.headers["x-death"]
    assert (dead.body, death["reason"], death["queue"]) == ("m", "expired", queue)
    assert "original-expiration" not in death


def test_a_messages_own_expiration_is_moved_to_its_history(channel):
    queue, grave = dying(channel)
    put(channel, queue, "m", expiration="10")
    dead = must_get(channel, grave)
    (death,) = dead.properties.headers["x-death"]
    assert (death["reason"], death["original-expiration"]) == ("expired", "10")
    assert dead.properties.expiration is None


def test_the_expiration_of_a_rejected_message_is_moved_too(channel):
    queue, grave = dying(channel)
    put(channel, queue, "m", expiration="60000")
    reject_one(channel, queue)
    dead = must_get(channel, grave)
    (death,) = dead.properties.headers["x-death"]
    assert (death["reason"], death["original-expiration"]) == ("rejected", "60000")
    assert dead.properties.expiration is None


def test_the_oldest_die_when_a_queue_is_full(channel):
    queue, grave = dying(channel, x_max_length=2)
    put(channel, queue, *"abcd")
    until(lambda: ready(channel, grave) == 2)
    dead = [must_get(channel, grave) for _ in range(2)]
    assert [each.body for each in dead] == ["a", "b"]
    assert [each.properties.headers["x-death"][0]["reason"] for each in dead] == ["maxlen", "maxlen"]
    assert everything(channel, queue) == ["c", "d"]


def test_reject_publish_dlx_dead_letters_what_it_refuses(channel):
    queue, grave = dying(channel, x_max_length=1, x_overflow="reject-publish-dlx")
    put(channel, queue, "a")
    with pytest.raises(pika.exceptions.NackError):
        put(channel, queue, "b")
    dead = must_get(channel, grave)
    assert (dead.body, dead.properties.headers["x-death"][0]["reason"]) == ("b", "maxlen")
    assert everything(channel, queue) == ["a"]


def test_dying_again_for_the_same_reason_in_the_same_queue_counts_up(channel):
    queue = new_name()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    channel.queue_declare(queue, durable=True, arguments=arguments)
    put(channel, queue, "m")
    for count in range(1, 4):
        reject_one(channel, queue)
        dead = must_get(channel, queue, ack=False)
        (death,) = dead.properties.headers["x-death"]
        assert (death["count"], death["reason"]) == (count, "rejected")
        channel.basic_nack(dead.tag, requeue=True)


def test_history_is_one_entry_per_queue_and_reason_the_latest_first(channel):
    last = declare(channel, "last")
    second = declare(channel, x_dead_letter_exchange="", x_dead_letter_routing_key=last)
    first = declare(channel, x_dead_letter_exchange="", x_dead_letter_routing_key=second, x_message_ttl=10)
    put(channel, first, "m")
    reject_one(channel, second)
    headers = must_get(channel, last).properties.headers
    deaths = [(death["queue"], death["reason"], death["count"]) for death in headers["x-death"]]
    assert deaths == [(second, "rejected", 1), (first, "expired", 1)]
    assert headers["x-death"][0]["routing-keys"] == [second]
    assert (headers["x-first-death-queue"], headers["x-first-death-reason"]) == (first, "expired")
    assert (headers["x-last-death-queue"], headers["x-last-death-reason"]) == (second, "rejected")


def test_an_entry_that_counts_up_moves_to_the_front(channel):
    queue, other = new_name(), new_name()
    for name, target, ttl in ((queue, other, {}), (other, queue, {"x-message-ttl": 10})):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target, **ttl}
        channel.queue_declare(name, durable=True, arguments=arguments)
    put(channel, queue, "m")
    for count in (1, 2):
        reject_one(channel, queue)
        dead = must_get(channel, queue, ack=False)
        deaths = [(death["queue"], death["count"]) for death in dead.properties.headers["x-death"]]
        assert deaths == [(other, count), (queue, count)]
        channel.basic_nack(dead.tag, requeue=True)
    assert must_get(channel, queue).body == "m"


def test_a_ring_in_which_nobody_rejects_drops_the_message(channel):
    ring = declare_exchange(channel, "fanout")
    back = declare(channel, x_dead_letter_exchange=ring, x_message_ttl=10)
    tap = bound(channel, ring)
    queue = bound(channel, ring, x_message_ttl=10, x_dead_letter_exchange="", x_dead_letter_routing_key=back)
    channel.basic_publish(ring, "k", b"m")
    until(lambda: ready(channel, tap) == 2)
    until(lambda: ready(channel, queue) == ready(channel, back) == 0)
    assert len(everything(channel, tap)) == 2


def test_dead_letters_to_an_exchange_that_is_not_there_are_dropped_until_it_is(channel):
    exchange = new_name()
    queue = declare(channel, x_dead_letter_exchange=exchange)
    put(channel, queue, "lost", "found")
    reject_one(channel, queue)
    until(lambda: ready(channel, queue) == 1)
    channel.exchange_declare(exchange, "fanout", durable=True)
    grave = bound(channel, exchange)
    reject_one(channel, queue)
    assert must_get(channel, grave).body == "found"
    assert everything(channel, grave) == []


def test_one_dead_letter_reaches_every_queue_that_the_exchange_leads_to(channel):
    exchange = declare_exchange(channel, "fanout")
    queue = declare(channel, x_dead_letter_exchange=exchange)
    graves = [bound(channel, exchange) for _ in range(3)]
    put(channel, queue, "m")
    reject_one(channel, queue)
    assert [must_get(channel, grave).body for grave in graves] == ["m"] * 3


def test_cc_is_told_in_the_history_and_leads_nowhere_when_the_key_is_replaced(channel):
    # RabbitMQ 3.10 takes the header out of the dead letter, 4 leaves it in.
    queue, grave = dying(channel)
    aside = declare(channel)
    put(channel, queue, "m", headers={"CC": [aside]})
    reject_one(channel, queue)
    headers = must_get(channel, grave).properties.headers
    assert headers["x-death"][0]["routing-keys"] == [queue, aside]
    assert everything(channel, aside) == ["m"]


def test_cc_leads_dead_letters_too_when_the_key_is_kept(channel):
    exchange = declare_exchange(channel, "direct")
    queue = declare(channel, x_dead_letter_exchange=exchange)
    grave = bound(channel, exchange, "copy")
    put(channel, queue, "m", headers={"CC": ["copy"]})
    reject_one(channel, queue)
    assert must_get(channel, grave).properties.headers["CC"] == ["copy"]


def test_purged_and_deleted_messages_are_no_dead_letters(channel):
    queue, grave = dying(channel)
    put(channel, queue, "a")
    channel.queue_purge(queue)
    put(channel, queue, "b")
    channel.queue_delete(queue)
    put(channel, grave, "fence")
    assert everything(channel, grave) == ["fence"]


def test_a_message_given_back_too_often_dies_of_the_delivery_limit(channel):
    grave = declare(channel)
    queue = declare(
        channel,
        x_queue_type="quorum",
        x_delivery_limit=2,
        x_dead_letter_exchange="",
        x_dead_letter_routing_key=grave,
    )
    put(channel, queue, "m")
    for _ in range(3):
        channel.basic_reject(must_get(channel, queue, ack=False).tag, requeue=True)
    dead = must_get(channel, grave)
    (death,) = dead.properties.headers["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("delivery_limit", queue, 1)


def test_a_forbidden_dead_letter_exchange_is_not_looked_up_when_declared(channel):
    channel.queue_declare(new_name(), durable=True, arguments={"x-dead-letter-exchange": new_name()})
    with channel_refused(406, "PRECONDITION_FAILED - invalid arg 'x-dead-letter-routing-key' for queue"):
        channel.queue_declare(new_name(), durable=True, arguments={"x-dead-letter-routing-key": "k"})


def test_dead_letters_of_any_reason_go_where_their_own_headers_lead(channel):
    exchange = declare_exchange(channel, "headers")
    graves = {name: declare(channel) for name in "ab"}
    for name, grave in graves.items():
        channel.queue_bind(grave, exchange, "", {"to": name})
    rejecting = declare(channel, x_dead_letter_exchange=exchange)
    for name in "abba":
        put(channel, rejecting, f"rejected {name}", headers={"to": name})
    for _ in range(3):
        must_get(channel, rejecting, ack=False)
    channel.basic_nack(must_get(channel, rejecting, ack=False).tag, multiple=True, requeue=False)
    until(lambda: sum(ready(channel, grave) for grave in graves.values()) == 4)
    full = declare(channel, x_max_length=1, x_overflow="reject-publish-dlx", x_dead_letter_exchange=exchange)
    for name in "aba":
        with suppress(pika.exceptions.NackError):
            put(channel, full, f"refused {name}", headers={"to": name})
    until(lambda: sum(ready(channel, grave) for grave in graves.values()) == 6)
    assert everything(channel, graves["a"]) == ["rejected a", "rejected a", "refused a"]
    assert everything(channel, graves["b"]) == ["rejected b", "rejected b", "refused b"]
