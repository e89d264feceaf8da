"""Strikes follow from the seed, are spread over the rows, and spare nobody."""

from __future__ import annotations

from collections import Counter

import pytest

from mainstem.torture.spark_strikes import CLUSTER_KINDS, LOCAL_KINDS, plan_strikes


def test_a_seed_tells_every_strike():
    assert plan_strikes(5, 20, 1_000_000, CLUSTER_KINDS) == plan_strikes(5, 20, 1_000_000, CLUSTER_KINDS)
    assert plan_strikes(5, 20, 1_000_000, CLUSTER_KINDS) != plan_strikes(6, 20, 1_000_000, CLUSTER_KINDS)


@pytest.mark.parametrize("seed", range(20))
def test_kinds_are_balanced_and_moments_lie_within_the_copy(seed):
    strikes = plan_strikes(seed, 20, 1_000_000, CLUSTER_KINDS)
    assert Counter(strike.kind for strike in strikes) == dict.fromkeys(CLUSTER_KINDS, 5)
    moments = [strike.at_rows for strike in strikes]
    assert moments == sorted(moments)
    assert moments[0] > 0
    assert moments[-1] < 1_000_000


def test_three_strikes_are_one_of_each_kind():
    assert {strike.kind for strike in plan_strikes(1, 3, 20_000, LOCAL_KINDS)} == set(LOCAL_KINDS)
