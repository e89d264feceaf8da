import pytest

from mainstem.kernel.routing.binding import Binding, Target
from mainstem.kernel.routing.router import Router
from mainstem.model.errors import InvalidRequest, UnknownExchange


def queue(name):
    return Target("queue", name)


def exchange(name):
    return Target("exchange", name)


def router_with(*queues, **kinds):
    router = Router(is_queue=set(queues).__contains__)
    for name, kind in kinds.items():
        router.add_exchange(name, kind)
    return router


def test_the_default_exchange_leads_to_the_queue_of_that_name():
    router = router_with("a", "b")
    assert router.route("", ["a"], None) == {"a"}
    assert router.route("", ["a", "b", "c"], None) == {"a", "b"}
    assert router.route("", ["c"], None) == frozenset()
    assert "" in router


def test_the_default_exchange_can_neither_be_made_nor_bound():
    router = router_with("q", e="direct")
    with pytest.raises(InvalidRequest):
        router.add_exchange("", "direct")
    with pytest.raises(InvalidRequest):
        router.bind("", queue("q"), "k")
    with pytest.raises(InvalidRequest):
        router.bind("e", exchange(""), "k")


def test_a_direct_exchange_asks_for_the_whole_key():
    router = router_with(e="direct")
    router.bind("e", queue("q"), "a.b")
    router.bind("e", queue("r"), "a.b")
    router.bind("e", queue("s"), "")
    assert router.route("e", ["a.b"]) == {"q", "r"}
    assert router.route("e", ["a"]) == frozenset()
    assert router.route("e", [""]) == {"s"}


def test_a_fanout_exchange_ignores_keys():
    router = router_with(e="fanout")
    router.bind("e", queue("q"), "a")
    router.bind("e", queue("r"), "b")
    assert router.route("e", ["c"]) == {"q", "r"}


def test_a_wildcard_is_a_plain_word_to_a_direct_exchange():
    router = router_with(e="direct")
    router.bind("e", queue("q"), "#")
    assert router.route("e", ["a"]) == frozenset()
    assert router.route("e", ["#"]) == {"q"}


def test_a_queue_gets_one_copy_however_many_ways_lead_there():
    router = router_with(a="direct", b="fanout", c="topic")
    for key in ("x", "y"):
        router.bind("a", queue("q"), key)
    router.bind("a", exchange("b"), "x")
    router.bind("a", exchange("c"), "x")
    router.bind("b", queue("q"))
    router.bind("c", queue("q"), "#")
    router.bind("c", queue("r"), "*")
    assert router.route("a", ["x", "y"]) == {"q", "r"}


def test_every_key_of_a_message_counts():
    router = router_with(e="direct")
    router.bind("e", queue("q"), "a")
    router.bind("e", queue("r"), "b")
    assert router.route("e", ["a", "b", "c"]) == {"q", "r"}


def test_loops_between_exchanges_end():
    router = router_with(a="fanout", b="fanout")
    router.bind("a", exchange("b"))
    router.bind("b", exchange("a"))
    router.bind("a", exchange("a"))
    router.bind("b", queue("q"))
    assert router.route("a", ["k"]) == {"q"}
    assert router.route("b", ["k"]) == {"q"}


def test_the_alternate_takes_what_matches_no_binding():
    router = Router(is_queue={"k"}.__contains__)
    router.add_exchange("rest", "fanout")
    router.add_exchange("e", "direct", alternate="rest")
    router.bind("rest", queue("lost"))
    router.bind("e", queue("q"), "a")
    assert router.route("e", ["a"]) == {"q"}
    assert router.route("e", ["b"]) == {"lost"}
    assert router.route("e", ["a", "b"]) == {"q"}
    router.set_alternate("e", "")
    assert router.route("e", ["k"]) == {"k"}
    router.set_alternate("e", None)
    assert router.route("e", ["b"]) == frozenset()


def test_a_matching_exchange_without_queues_does_not_call_for_the_alternate():
    router = router_with(rest="fanout", empty="fanout")
    router.add_exchange("e", "direct", alternate="rest")
    router.bind("rest", queue("lost"))
    router.bind("e", exchange("empty"), "a")
    assert router.route("e", ["a"]) == frozenset()


def test_alternates_of_exchanges_further_on_count_too_and_may_loop():
    router = router_with(last="fanout")
    router.add_exchange("a", "direct", alternate="b")
    router.add_exchange("b", "direct", alternate="a")
    router.add_exchange("c", "direct", alternate="last")
    router.bind("last", queue("lost"))
    assert router.route("a", ["k"]) == frozenset()
    router.bind("a", exchange("c"), "k")
    assert router.route("a", ["k"]) == {"lost"}
    assert router.route("b", ["k"]) == {"lost"}


def test_an_alternate_that_is_not_there_takes_nothing_until_it_is():
    router = Router(is_queue=bool)
    router.add_exchange("e", "direct", alternate="later")
    assert router.route("e", ["k"]) == frozenset()
    router.add_exchange("later", "fanout")
    router.bind("later", queue("q"))
    assert router.route("e", ["k"]) == {"q"}
    router.remove_exchange("later")
    assert router.route("e", ["k"]) == frozenset()


def test_binding_twice_is_binding_once():
    router = router_with(e="fanout")
    assert router.bind("e", queue("q"), "k", {"n": 1})
    assert not router.bind("e", ("queue", "q"), "k", {"n": 1})
    assert router.bind("e", queue("q"), "k", {"n": True})
    assert router.bind("e", queue("q"), "k")
    assert router.bind("e", queue("q"), "l")
    assert len(router.bindings_of("q")) == 4
    assert all(router.is_bound(binding) for binding in router.bindings_of("q"))
    assert not router.is_bound(Binding("e", queue("q"), "m"))
    assert router.unbind("e", queue("q"), "k", {"n": True})
    assert not router.unbind("e", queue("q"), "k", {"n": True})
    assert not router.unbind("e", queue("q"), "m")
    assert not router.unbind("gone", queue("q"), "k")
    kept = {(binding.key, tuple(binding.arguments.items())) for binding in router.bindings_of("q")}
    assert kept == {("k", (("n", 1),)), ("k", ()), ("l", ())}
    assert router.route("e", ["any"]) == {"q"}


def test_a_queue_and_an_exchange_of_one_name_are_two_targets():
    router = router_with(e="fanout", same="fanout")
    router.bind("e", queue("same"))
    router.bind("e", exchange("same"))
    router.bind("same", queue("q"))
    assert router.route("e", [""]) == {"same", "q"}
    assert router.unbind("e", queue("same"))
    assert router.route("e", [""]) == {"q"}


def test_an_exchange_knows_when_its_last_binding_as_source_went():
    """So that an auto-delete exchange can go with it; bindings that lead to it do not count."""
    router = router_with(a="fanout", b="direct")
    assert not router.has_bindings("b")
    router.bind("a", exchange("b"))
    assert not router.has_bindings("b")
    router.bind("b", queue("q"), "1")
    router.bind("b", queue("q"), "2")
    router.unbind("b", queue("q"), "1")
    assert router.has_bindings("b")
    router.unbind("b", queue("q"), "2")
    assert not router.has_bindings("b")


def test_a_queue_goes_with_all_of_its_bindings():
    router = router_with(a="fanout", b="direct", c="topic", d="headers")
    router.bind("a", queue("q"))
    router.bind("b", queue("q"), "k")
    router.bind("c", queue("q"), "k.#")
    router.bind("d", queue("q"), "", {"x-match": "any", "n": 1, "m": 2})
    router.bind("a", queue("r"))
    gone = router.remove_queue("q")
    assert {binding.source for binding in gone} == {"a", "b", "c", "d"}
    assert [name for name in "abcd" if router.has_bindings(name)] == ["a"]
    assert list(router.bindings()) == [Binding("a", queue("r"), "")]
    assert router.route("a", ["k"]) == {"r"}
    assert router.route("d", ["k"], {"n": 1, "m": 2}) == frozenset()
    assert router.remove_queue("q") == []


def test_an_exchange_goes_with_the_bindings_from_it_and_to_it():
    router = router_with(a="fanout", b="fanout")
    router.bind("a", exchange("b"))
    router.bind("b", exchange("b"))
    router.bind("b", queue("q"))
    gone = router.remove_exchange("b")
    assert len(gone) == 3
    assert not router.has_bindings("a")
    assert router.bindings_of("q") == []
    assert "b" not in router
    with pytest.raises(UnknownExchange):
        router.route("b", ["k"])


def test_what_does_not_exist_is_named():
    router = router_with(e="fanout")
    for call in (
        lambda: router.route("gone", ["k"]),
        lambda: router.bind("gone", queue("q")),
        lambda: router.bind("e", exchange("gone")),
        lambda: router.remove_exchange("gone"),
        lambda: router.has_bindings("gone"),
        lambda: router.bindings_from("gone"),
    ):
        with pytest.raises(UnknownExchange, match="gone"):
            call()
    with pytest.raises(InvalidRequest):
        router.bind("e", ("topic", "q"))


def test_an_unknown_kind_is_refused_and_leaves_nothing_behind():
    router = Router(is_queue=bool)
    with pytest.raises(InvalidRequest, match="unknown kind of exchange 'square'"):
        router.add_exchange("e", "square")
    assert "e" not in router
    router.add_exchange("e", "direct")
    with pytest.raises(InvalidRequest, match="exists"):
        router.check_exchange("e", "direct")


def test_a_delayed_exchange_routes_as_the_kind_within():
    router = Router(is_queue=bool)
    router.add_exchange("later", "x-delayed-message", arguments={"x-delayed-type": "topic"})
    router.bind("later", queue("q"), "a.*")
    assert router.route("later", ["a.b"]) == {"q"}
    for within in ("x-delayed-message", "square", None, 1):
        with pytest.raises(InvalidRequest, match="x-delayed-type"):
            router.add_exchange("e", "x-delayed-message", arguments={"x-delayed-type": within})


def test_an_answer_may_be_kept_unless_headers_matter_somewhere_down_the_way():
    router = router_with(a="direct", b="fanout", h="headers", z="topic")
    assert router.depends_on_headers("h")
    assert not any(router.depends_on_headers(name) for name in ("", "a", "b", "z"))
    router.bind("a", exchange("b"))
    router.bind("b", exchange("h"))
    router.bind("h", exchange("z"))
    assert [name for name in "abhz" if router.depends_on_headers(name)] == ["a", "b", "h"]
    router.unbind("a", exchange("b"))
    assert not router.depends_on_headers("a")
    router.set_alternate("z", "b")
    assert router.depends_on_headers("z")
    router.remove_exchange("h")
    assert not any(router.depends_on_headers(name) for name in "abz")


def test_every_change_makes_a_new_version():
    router = router_with(e="direct")
    seen = [router.version]
    for change in (
        lambda: router.bind("e", queue("q"), "k"),
        lambda: router.unbind("e", queue("q"), "k"),
        lambda: router.bind("e", queue("q"), "k"),
        lambda: router.remove_queue("q"),
        lambda: router.set_alternate("e", "f"),
        lambda: router.add_exchange("f", "fanout"),
        lambda: router.remove_exchange("f"),
    ):
        change()
        seen.append(router.version)
    assert len(set(seen)) == len(seen)
    router.check_binding("e", queue("q"), "k")
    router.bind("e", queue("q"), "k")
    assert not router.bind("e", queue("q"), "k")
    assert router.version == seen[-1] + 1
