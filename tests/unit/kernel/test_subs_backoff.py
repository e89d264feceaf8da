from __future__ import annotations

import pytest

from mainstem.kernel.subs.backoff import Exponential, Fixed, Steps
from mainstem.model.errors import InvalidConfig


def delays(backoff, *redeliveries):
    return [backoff.delay_ms(redelivery) for redelivery in redeliveries]


def test_a_fixed_delay_stays():
    assert delays(Fixed(250), 1, 2, 10**6) == [250, 250, 250]


def test_the_last_of_a_list_stays():
    assert delays(Steps((10, 20, 60)), 1, 2, 3, 4, 99) == [10, 20, 60, 60, 60]


def test_an_exponential_delay_grows_to_its_cap():
    assert delays(Exponential(100, 1000), 1, 2, 3, 4, 5) == [100, 200, 400, 800, 1000]
    assert delays(Exponential(100, 1000, factor=1.5), 2, 3) == [150, 225]
    assert Exponential(1, 60_000).delay_ms(10**9) == 60_000


def test_an_exponential_delay_may_stand_still():
    assert delays(Exponential(100, 1000, factor=1.0), 1, 50) == [100, 100]
    assert delays(Exponential(100, 100), 1, 2) == [100, 100]
    assert delays(Exponential(0, 1000), 1, 9) == [0, 0]
    assert Exponential(0, 0).delay_ms(3) == 0


@pytest.mark.parametrize("backoff", [Fixed(5), Steps((5, 6)), Exponential(5, 50)])
def test_what_never_failed_counts_as_the_first(backoff):
    assert backoff.delay_ms(0) == 5


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Fixed(-1), "not -1"),
        (lambda: Fixed(10**15), "a delay is 0 to"),
        (lambda: Steps(()), "at least one"),
        (lambda: Steps((1, -5)), "not -5"),
        (lambda: Exponential(10, 5), "is below the first"),
        (lambda: Exponential(10, 50, factor=0.5), "factor of 1 to 1000"),
        (lambda: Exponential(10, 50, factor=float("nan")), "factor of 1 to 1000"),
    ],
)
def test_senseless_delays_are_refused(make, says):
    with pytest.raises(InvalidConfig, match=says):
        make()
