"""State that grows with what clients call things is given back while the process lives."""

from __future__ import annotations

import gc

from mainstem.broker.policy import Policies
from mainstem.broker.sinks import FORGET_EVERY_MS, KEPT_MS, SinkPublished, Sinks


def test_topics_with_equal_configs_share_a_policy_and_nobody_keeps_one_that_no_topic_has():
    policies = Policies({})
    used = policies.of({"retention.ms": "5"})
    for at in range(100):
        policies.of({"retention.ms": str(1000 + at)})
    gc.collect()
    assert policies.of({"retention.ms": "5"}) is used
    assert len(policies._made) == 1


def test_a_sink_that_published_nothing_for_long_is_forgotten_without_a_restart():
    sinks = Sinks()
    for at in range(200):
        sinks.apply(SinkPublished(f"query-{at}", 0, 1, at * FORGET_EVERY_MS))
    assert list(sinks.last.values()) == list(sinks.dump())
    assert len(sinks.last) == KEPT_MS // FORGET_EVERY_MS


def test_a_clock_that_is_set_back_makes_nobody_forget_a_sink():
    sinks = Sinks()
    sinks.apply(SinkPublished("one", 0, 1, KEPT_MS))
    sinks.apply(SinkPublished("two", 0, 1, KEPT_MS // 2))
    assert set(sinks.last) == {"one", "two"}
