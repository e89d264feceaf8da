from hypothesis import given
from hypothesis import strategies as st

from mainstem.cli.latency import GROWTH, Latencies


def test_nothing_measured_is_zero():
    assert Latencies().percentile_ms(99) == 0
    assert Latencies().summary_ms()["max_ms"] == 0


@given(st.lists(st.integers(1, 10**9), min_size=1), st.sampled_from([1, 50, 90, 99, 99.9, 100]))
def test_a_percentile_is_within_two_percent_of_the_sorted_one(times_us, percent):
    latencies = Latencies()
    for time_us in times_us:
        latencies.add(time_us)
    ordered = sorted(times_us)
    exact_us = ordered[-(-len(ordered) * percent // 100).__int__() - 1]
    assert exact_us / 1000 * 0.999 <= latencies.percentile_ms(percent) <= exact_us / 1000 * GROWTH * 1.001


def test_a_clock_that_went_back_counts_as_no_time():
    latencies = Latencies()
    latencies.add(-5)
    assert latencies.count == 1
    assert latencies.percentile_ms(100) == 0
