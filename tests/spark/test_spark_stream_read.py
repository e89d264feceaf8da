"""Streaming reads through a real Spark: triggers, checkpoints, typed values."""

import json
import time
from dataclasses import replace

import pytest
from pyspark.errors import StreamingQueryException

from mainstem.client import ClientSettings, TopicPartition, admin, parse_bootstrap
from mainstem.model.errors import DataLost
from mainstem.spark.ranges import Range
from mainstem.spark.reading import ReadOptions, read


def numbered(count, first=0):
    return [b"%d" % i for i in range(first, first + count)]


class Copy:
    """A query that copies a stream to Parquet files, and what they hold."""

    def __init__(self, house, folder, stream):
        self._house, self._folder, self._stream = house, folder, stream

    def run(self):
        """All that is there now; the rows of each trigger."""
        query = self.start(availableNow=True)
        query.awaitTermination(60)
        assert not query.isActive
        return [progress["numInputRows"] for progress in map(as_dict, query.recentProgress)]

    def start(self, **trigger):
        writer = self._stream().writeStream.format("parquet").trigger(**trigger)
        return (
            writer.option("checkpointLocation", f"{self._folder}/checkpoint")
            .option("path", f"{self._folder}/out")
            .start()
        )

    def values(self):
        rows = self._house.spark.read.parquet(f"{self._folder}/out").orderBy("topic", "partition", "offset")
        return [bytes(row.value) for row in rows.collect()]


def as_dict(progress):
    return progress if isinstance(progress, dict) else json.loads(progress.json)


def test_available_now_reads_everything_in_bounded_triggers(house, topic, tmp_path):
    house.create(topic, 2)
    for partition in range(2):
        for batch in range(10):
            house.fill(topic, numbered(100, 100 * batch), partition)
    copy = Copy(
        house, tmp_path, lambda: house.stream(topic, startingOffsets="earliest", maxOffsetsPerTrigger=500)
    )
    triggers = [rows for rows in copy.run() if rows]
    assert sum(triggers) == 2000
    assert len(triggers) == 4
    assert max(triggers) <= 500
    assert copy.values() == numbered(1000) * 2


def test_a_restart_goes_on_from_the_checkpoint(house, topic, tmp_path):
    house.create(topic)
    copy = Copy(house, tmp_path, lambda: house.stream(topic, startingOffsets="earliest"))
    house.fill(topic, numbered(10))
    assert sum(copy.run()) == 10
    assert sum(copy.run()) == 0
    house.fill(topic, numbered(10, 10))
    assert sum(copy.run()) == 10
    assert copy.values() == numbered(20)
    offsets = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    assert json.loads(offsets[-1].read_text().splitlines()[-1]) == {topic: {"0": 20}}


def test_latest_is_pinned_when_the_query_starts(house, topic, tmp_path):
    house.create(topic)
    house.fill(topic, numbered(10))
    copy = Copy(house, tmp_path, lambda: house.stream(topic))
    query = copy.start(processingTime="0 seconds")
    try:
        # Once something is checkpointed the query has begun; what is written from then on is read.
        wait_for(lambda: list((tmp_path / "checkpoint" / "offsets").glob("0")) or query.recentProgress)
        house.fill(topic, numbered(10, 10))
        wait_for(lambda: any(as_dict(p)["numInputRows"] for p in query.recentProgress))
    finally:
        query.stop()
    assert copy.values() == numbered(10, 10)


def wait_for(is_done, seconds=60):
    deadline = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def test_new_topics_of_a_pattern_join(house, topic, tmp_path):
    house.create(f"{topic}-a")
    pattern = f"{topic}-.*"
    copy = Copy(house, tmp_path, lambda: house.stream(subscribePattern=pattern, startingOffsets="earliest"))
    house.fill(f"{topic}-a", [b"a"])
    copy.run()
    house.create(f"{topic}-b")
    house.fill(f"{topic}-b", [b"b"])
    copy.run()
    assert copy.values() == [b"a", b"b"]


def test_lag_is_told(house, topic, tmp_path):
    house.create(topic)
    house.fill(topic, numbered(100))
    frame = house.stream(topic, startingOffsets="earliest", maxOffsetsPerTrigger=40)
    query = Copy(house, tmp_path, lambda: frame).start(availableNow=True)
    query.awaitTermination(60)
    first = as_dict(query.recentProgress[0])["sources"][0]
    assert json.loads(as_text(first["endOffset"])) == {topic: {"0": 40}}
    assert json.loads(as_text(first["latestOffset"])) == {topic: {"0": 100}}


def as_text(value):
    return value if isinstance(value, str) else json.dumps(value)


def test_typed_values_in_a_window(house, topic, tmp_path):
    house.create(topic)
    rows = [
        b'{"region": "r%d", "amount": %d, "at": "2024-05-01T10:%02d:30Z"}' % (i % 2, i, i % 5)
        for i in range(100)
    ]
    house.fill(topic, rows)
    frame = house.stream(
        topic, startingOffsets="earliest", format="json", schema="region STRING, amount BIGINT, at TIMESTAMP"
    )
    frame.createOrReplaceTempView("orders_typed")
    sums = house.spark.sql(
        "SELECT window.start AS minute, region, sum(amount) AS total FROM orders_typed "
        "GROUP BY window(at, '1 minute'), region"
    )
    query = (
        sums.writeStream.format("memory")
        .queryName("totals")
        .outputMode("complete")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    found = {(row.minute.minute, row.region): row.total for row in house.spark.table("totals").collect()}
    expected = {}
    for i in range(100):
        expected[i % 5, f"r{i % 2}"] = expected.get((i % 5, f"r{i % 2}"), 0) + i
    assert found == expected


def test_a_first_batch_that_failed_is_not_repeated_from_elsewhere(house, topic, tmp_path):
    """Spark does not write down where it began; from `latest` it would begin somewhere else."""
    house.create(topic)
    house.fill(topic, numbered(10))
    seen = []

    def start(work):
        writer = house.stream(topic).writeStream.foreachBatch(work)
        return writer.option("checkpointLocation", str(tmp_path)).start()

    def fail(_frame, _batch):
        raise RuntimeError("not today")

    query = start(fail)
    with pytest.raises(StreamingQueryException, match="not today"):
        query.awaitTermination(60)
    house.fill(topic, numbered(10, 10))
    query = start(lambda frame, _: seen.extend(bytes(row.value) for row in frame.collect()))
    with pytest.raises(StreamingQueryException, match="where it began is not known any more"):
        query.awaitTermination(60)
    assert seen == []


def test_available_now_from_latest_of_an_idle_topic_reads_nothing(house, topic, tmp_path):
    house.create(topic)
    house.fill(topic, numbered(10))
    copy = Copy(house, tmp_path, lambda: house.stream(topic))
    assert sum(copy.run()) == 0


def test_a_task_passes_what_retention_took_meanwhile_if_it_may(house, topic):
    """Between the plan and the read records go."""
    house.create(topic)
    for first in range(0, 100, 10):
        house.fill(topic, numbered(10, first))
    with house.client() as client:
        admin.delete_records(client, {TopicPartition(topic, 0): 40})
    options = ReadOptions(ClientSettings(parse_bootstrap(house.address)), ("offset",), False, False, 5.0)
    piece = Range(TopicPartition(topic, 0), 0, 100)
    assert [offset for batch in read(piece, options) for offset in batch.column(0).to_pylist()] == [
        *range(40, 100)
    ]
    with pytest.raises(DataLost, match="offsets 0 to 100 were to be read, and it begins at 40"):
        list(read(piece, replace(options, fail_on_data_loss=True)))
