"""What a binding costs where there are very many of them."""

import gc
import tracemalloc

import pytest

from mainstem.kernel.routing.binding import Target
from mainstem.kernel.routing.router import Router

COUNT = 10_000


@pytest.mark.parametrize(
    ("kind", "key", "max_bytes"),
    [
        ("direct", "orders.{}", 400),
        ("fanout", "", 400),
        ("topic", "orders.{}.new", 400),
        ("topic", "orders.{}.#", 600),
        ("topic", "*.{}.*", 600),
        ("x-consistent-hash", "1", 600),
        ("x-local-random", "", 400),
    ],
)
def test_a_binding_costs_few_bytes_and_none_when_it_is_gone(kind, key, max_bytes):
    names = [f"queue-{number}" for number in range(COUNT)]
    router = Router(is_queue=bool)
    router.add_exchange("e", kind)
    gc.collect()
    tracemalloc.start()
    try:
        for number, name in enumerate(names):
            router.bind("e", Target("queue", name), key.format(number))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < COUNT * max_bytes
        for name in names:
            router.remove_queue(name)
        gc.collect()
        # Dicts keep their room; what they held is gone.
        assert tracemalloc.get_traced_memory()[0] < COUNT * 150
    finally:
        tracemalloc.stop()


def test_a_queue_may_have_many_bindings_and_an_exchange_many_queues_with_one_key():
    router = Router(is_queue=bool)
    router.add_exchange("e", "direct")
    for number in range(COUNT):
        router.bind("e", Target("queue", "q"), f"k{number}")
        router.bind("e", Target("queue", f"q{number}"), "same")
    assert len(router.route("e", ["same"])) == COUNT
    assert router.route("e", ["k77"]) == {"q"}
    # One by one from the front: would take minutes if each removal looked through the rest.
    for number in range(COUNT):
        assert router.unbind("e", Target("queue", "q"), f"k{number}")
        assert router.unbind("e", Target("queue", f"q{number}"), "same")
    assert not router.has_bindings("e")
