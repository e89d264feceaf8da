"""Kafka Streams counts words exactly once, though it is killed."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict

import pytest
from java_kit import Java, compiled, until

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

WORDS = [f"word{number}" for number in range(7)]
PARTITIONS = 2
LINES_AT_ONCE, PAUSE_S = 10, 0.05


class Feeder:
    """Sends lines until told that it is enough, so that a kill always comes in the middle."""

    def __init__(self, house, topic):
        self.counts = Counter()
        self._house, self._topic = house, topic
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self):
        sent = 0
        while not self._enough.wait(PAUSE_S):
            numbers = range(sent, sent + LINES_AT_ONCE)
            lines = [
                " ".join(WORDS[(number * step) % len(WORDS)] for step in (1, 2, 3)) for number in numbers
            ]
            self._house.send(self._topic, lines, keys=[str(number) for number in numbers])
            self.counts.update(word for line in lines for word in line.split())
            sent += LINES_AT_ONCE

    def stop(self):
        self._enough.set()
        self._thread.join()


@pytest.mark.parametrize("state_is_lost", [False, True])
def test_streams_counts_each_word_once_though_killed(house, broker, class_path, tmp_path, state_is_lost):
    source, target = f"lines-{state_is_lost}", f"counts-{state_is_lost}"
    house.make_topic(source, PARTITIONS)
    house.make_topic(target, PARTITIONS)

    java = Java(compiled("WordCount", class_path, tmp_path), tmp_path)
    feeder = Feeder(house, source)
    try:
        with house.follow(target, PARTITIONS) as counts:

            def counted():
                return len(counts.records())

            before = java.start("WordCount", broker.kafka, source, target, tmp_path / "state")
            until("the first counts", lambda: counted() > 500, before)
            before.kill()
            at_the_kill = counted()
            state = tmp_path / ("state-of-another-machine" if state_is_lost else "state")
            after = java.start("WordCount", broker.kafka, source, target, state)
            until("more counts", lambda: counted() > at_the_kill + 500, after)
            feeder.stop()
            until("all counts", lambda: counted() >= feeder.counts.total(), after)
            after.stop()
    finally:
        feeder.stop()
        java.close()

    found = defaultdict(list)
    for word, count in house.read(target, PARTITIONS):
        found[word.decode()].append(int(count))
    assert found == {word: list(range(1, number + 1)) for word, number in feeder.counts.items()}
