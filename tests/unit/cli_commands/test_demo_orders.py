import json
from random import Random

from mainstem.cli.demo_orders import CATALOGUE, Ledger, Orders, order_id
from mainstem.cli.demo_screen import verdict_text


def make(count):
    orders = Orders(Random(7))
    return [orders.next(1_700_000_000_000_000 + n)[1] for n in range(count)]


def ledger(values, partitions=2):
    made = Ledger()
    for number, value in enumerate(values):
        made.add(number % partitions, value)
    return made


def test_orders_are_plausible_and_numbered():
    prices = {name: cents for name, cents, _ in CATALOGUE}
    for number, value in enumerate(make(500), 1):
        order = json.loads(value)
        assert order["id"] == order_id(value) == number
        assert round(order["amount"] * 100) == prices[order["item"]] * order["quantity"]
        assert order["customer"].startswith("c-")
        assert order["time"].startswith("2023-11-14T")


def test_the_same_orders_in_the_same_order_are_no_difference():
    values = make(20)
    assert not list(ledger(values).differences(ledger(values)))


def test_a_lost_order_is_a_difference():
    values = make(20)
    assert list(ledger(values).differences(ledger(values[:-1]))) == [
        "partition 1: 10 were acknowledged, 9 were read"
    ]


def test_an_order_read_twice_is_a_difference():
    values, read = make(20), ledger(make(20))
    read.add(1, values[-1])
    found = list(ledger(values).differences(read))
    assert found == [
        "partition 1: 10 were acknowledged, 11 were read",
        "partition 1: 1 were read out of order",
    ]


def test_two_swapped_orders_are_a_difference():
    values = make(20)
    swapped = [*values]
    swapped[4], swapped[6] = swapped[6], swapped[4]
    assert list(ledger(values).differences(ledger(swapped))) == [
        "partition 0: the bytes that were read are not those that were sent",
        "partition 0: 1 were read out of order",
    ]


def test_a_changed_byte_is_a_difference():
    values = make(20)
    changed = [*values]
    changed[3] = changed[3].replace(b"amount", b"amounT")
    assert list(ledger(values).differences(ledger(changed))) == [
        "partition 1: the bytes that were read are not those that were sent"
    ]


def test_the_verdict_says_what_is_wrong():
    facts = {
        "seconds": 2.0,
        "sent": 10,
        "read": 9,
        "partitions": 1,
        "p50_ms": 1.0,
        "p99_ms": 2.0,
        "max_ms": 3.0,
    }
    assert "Right: what came out is what went in" in verdict_text({**facts, "wrong": []}, synced=True)
    text = verdict_text({**facts, "wrong": ["partition 0: 10 were acknowledged, 9 were read"]}, synced=False)
    assert "WRONG" in text
    assert "10 were acknowledged, 9 were read" in text
    assert "on disk" not in text
