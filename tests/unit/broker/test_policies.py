"""Policies: which one counts, what it adds to a queue's own options, and that it outlives a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from queue_kit import bodies, declare, eventually, publish, run, take_all

from mainstem.broker.queues import ExchangeSpec, Namespace, QueueOptions, Queues, QueueSpec, Target
from mainstem.broker.queues.policies import Policies, Policy
from mainstem.model.errors import InvalidRequest


def with_all(*policies: Policy) -> Policies:
    found = Policies()
    for policy in policies:
        found.put(policy)
    return found


def test_the_matching_policy_of_the_highest_priority_counts_alone():
    low = Policy("low", "^shop", {"max-length": 10, "message-ttl": 5})
    high = Policy("high", "orders$", {"max-length": 20}, priority=7)
    policies = with_all(low, high)
    assert policies.options(QueueSpec("shop.orders")) == QueueOptions(max_length=20)
    assert policies.options(QueueSpec("shop.bills")) == QueueOptions(max_length=10, message_ttl_ms=5)
    assert policies.options(QueueSpec("other")) == QueueOptions()


def test_of_two_limits_the_lower_one_counts_and_own_names_go_first():
    policies = with_all(
        Policy("all", "", {"max-length": 10, "dead-letter-exchange": "theirs", "overflow": "reject-publish"})
    )
    own = QueueOptions(max_length=5, dead_letter_exchange="mine")
    assert policies.options(QueueSpec("q", options=own)) == QueueOptions(
        max_length=5, dead_letter_exchange="mine", overflow="reject-publish"
    )
    assert policies.options(QueueSpec("q", options=QueueOptions(max_length=50))).max_length == 10
    asked = QueueSpec("q", arguments={"x-overflow": "drop-head"})
    assert policies.options(asked).overflow == "drop-head"


def test_a_delivery_limit_replaces_the_usual_one_of_a_quorum_queue_but_not_a_lower_own_one():
    policies = with_all(Policy("all", "", {"delivery-limit": 50}, "quorum_queues"))
    usual = QueueOptions(kind="quorum", delivery_limit=20)
    assert policies.options(QueueSpec("q", options=usual)).delivery_limit == 50
    asked = QueueSpec("q", options=usual, arguments={"x-delivery-limit": 20})
    assert policies.options(asked).delivery_limit == 20
    assert policies.options(QueueSpec("q")).delivery_limit is None, "it is for quorum queues"


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (Policy("p", "(", {"max-length": 1}), "makes no sense"),
        (Policy("p", "x" * 2000, {"max-length": 1}), "characters"),
        (Policy("p", "", {}), "without a definition"),
        (Policy("p", "", {"ha-mode": "all"}), "cannot set 'ha-mode'"),
        (Policy("p", "", {"max-length": -1}), "whole number"),
        (Policy("p", "", {"max-length": True}), "whole number"),
        (Policy("p", "", {"expires": 0}), "from 1 on"),
        (Policy("p", "", {"overflow": "explode"}), "drop-head"),
        (Policy("p", "", {"dead-letter-exchange": 5}), "text"),
        (Policy("p", "", {"max-length": 1}, "people"), "applies to"),  # type: ignore[arg-type]
        (Policy("", "", {"max-length": 1}), "name"),
        (Policy("p", "", {"max-length": 1}, priority=1 << 70), "priority"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(policy: Policy, why: str):
    with pytest.raises(InvalidRequest, match=why):
        policy.check()


def test_a_policy_counts_for_queues_that_are_there_and_after_a_restart(tmp_path: Path):
    async def first(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work")
        await declare(queues, ns, "dead")
        await publish(queues, ns, "work", b"a", b"b", b"c")
        definition = {"max-length": 1, "dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
        await queues.topology.set_policy(ns, Policy("short", "^work$", definition))
        await eventually(lambda: ns.queues["dead"].ready == 2)
        assert queue.ready == 1

    async def second(queues: Queues, ns: Namespace) -> None:
        assert ns.queues["work"].options.max_length == 1
        await publish(queues, ns, "work", b"d")
        await eventually(lambda: ns.queues["dead"].ready == 3)
        assert await take_all(ns.queues["work"]) == [b"d"]
        await queues.topology.drop_policy(ns, "short")

    async def third(queues: Queues, ns: Namespace) -> None:
        assert ns.queues["work"].options == QueueOptions()

    run(tmp_path, first, second, third)


def test_a_policy_gives_exchanges_an_alternate_until_it_goes(tmp_path: Path):
    async def act(queues: Queues, ns: Namespace) -> None:
        await queues.topology.declare_exchange(ns, ExchangeSpec("shop", "direct"))
        queue = await declare(queues, ns, "rest")
        await queues.topology.bind(ns, "amq.fanout", Target("queue", "rest"), "", {})
        policy = Policy("rest", "^shop$", {"alternate-exchange": "amq.fanout"}, "exchanges")
        await queues.topology.set_policy(ns, policy)
        await publish(queues, ns, "nowhere", b"a", exchange="shop")
        found = await queue.get()
        assert found is not None
        assert bodies(found) == [b"a"]
        await queues.topology.drop_policy(ns, "rest")
        assert not queues.route(ns, "shop", ("nowhere",)).queues

    run(tmp_path, act)
