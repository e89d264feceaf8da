"""How much a trigger takes: records, bytes, and the smaller of both."""

import json

import pytest

KB = b"x" * 1000


def triggers(house, folder, stream):
    """Rows of each trigger of a run over all that is there."""
    query = (
        stream.writeStream.format("noop")
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(90)
    assert not query.isActive
    rows = [json.loads(progress.json)["numInputRows"] for progress in query.recentProgress]
    return [count for count in rows if count]


@pytest.fixture
def filled(house, topic):
    """400 records of 1 kB, in batches of 10, three quarters of them in one partition."""
    house.create(topic, 2)
    for batch in range(40):
        house.fill(topic, [KB] * 10, 0 if batch % 4 else 1)
    return topic


def test_bytes_bound_a_trigger(house, filled, tmp_path):
    found = triggers(
        house, tmp_path, house.stream(filled, startingOffsets="earliest", maxBytesPerTrigger=110_000)
    )
    assert sum(found) == 400
    assert max(found) * 1000 <= 110_000
    assert len(found) == 4


def test_the_smaller_of_two_limits_counts(house, filled, tmp_path):
    both = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 200}
    by_bytes = house.stream(filled, **both, maxBytesPerTrigger=110_000)
    assert max(triggers(house, tmp_path / "bytes", by_bytes)) <= 110
    by_rows = house.stream(filled, **both, maxBytesPerTrigger=300_000)
    assert triggers(house, tmp_path / "rows", by_rows) == [200, 200]


def test_a_record_that_is_larger_than_the_limit_still_comes(house, topic, tmp_path):
    house.create(topic)
    for _ in range(3):
        house.fill(topic, [KB * 50])
    stream = house.stream(topic, startingOffsets="earliest", maxBytesPerTrigger=1000)
    assert triggers(house, tmp_path, stream) == [1, 1, 1]
