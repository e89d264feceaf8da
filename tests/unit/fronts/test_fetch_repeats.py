"""A partition that a fetch names more than once counts once: where it came first, with what came last."""

from __future__ import annotations

from mainstem.fronts.kafka.handlers.fetch import without_repeats


def wanted(partition: int, offset: int) -> tuple[int, int, int, int, int]:
    return (partition, -1, offset, -1, 1000)


def test_what_is_named_once_is_left_as_it_is():
    topics = [("b", [wanted(1, 5), wanted(0, 6)]), ("a", [wanted(1, 7)])]
    assert without_repeats(topics) == topics


def test_the_last_of_repeats_within_a_topic_takes_the_place_of_the_first():
    topics = [("a", [wanted(1, 5), wanted(0, 6), wanted(1, 7)])]
    assert without_repeats(topics) == [("a", [wanted(1, 7), wanted(0, 6)])]


def test_repeats_are_seen_across_a_topic_that_is_named_again():
    topics = [("a", [wanted(1, 5)]), ("b", [wanted(1, 6)]), ("a", [wanted(1, 7), wanted(2, 8)])]
    assert without_repeats(topics) == [("a", [wanted(1, 7), wanted(2, 8)]), ("b", [wanted(1, 6)])]
