"""The job mirror, from one real broker to another: nothing is lost or repeated, and groups go on."""

import time

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from lake_kit import counted_rows
from spark_kit import T0_MS, House, new_name

from mainstem.client import TopicPartition, admin, groups
from mainstem.model.batch import LZ4
from mainstem.model.errors import InvalidRequest
from mainstem.model.records import Record
from mainstem.pipeline.jobs import JobRun
from mainstem.pipeline.jobs.mirror import JOB, codec_of, lag_line, lag_of
from mainstem.testing.broker import Broker


@pytest.fixture(scope="module")
def old(spark):
    """The broker that is mirrored."""
    with Broker(process=True) as broker:
        yield House(spark, broker.kafka, broker)


def mirror(house, old, checkpoint, once=True, name="copy", **options):
    """Start the job; names of options with _ for a dot."""
    defaults = {option.name: option.default for option in JOB.options if option.default}
    given = {("from" if key == "source" else key.replace("_", ".")): value for key, value in options.items()}
    chosen = defaults | {"from": old.address, "groups": "", "groups.seconds": "1"} | given
    JOB.check(chosen)
    trigger = {"availableNow": True} if once else {"processingTime": "0 seconds"}
    (query,) = JOB.start(JobRun(house.spark, house.options(), name, chosen, str(checkpoint), trigger, once))
    return query


def run(house, old, checkpoint, **options):
    query = mirror(house, old, checkpoint, **options)
    query.awaitTermination(90)
    assert not query.isActive
    return query


def everything(house, topic, partitions):
    """All that can be told of records, but their offsets, by partition."""
    found = []
    with house.client() as client:
        for partition in range(partitions):
            place, offset, records = TopicPartition(topic, partition), 0, []
            while True:
                (fetched,) = client.fetch({place: offset}, max_wait_ms=10, committed=True)
                records += [
                    (one.timestamp_ms, one.key, one.value, one.headers)
                    for one in fetched.check().decoded(committed=True)
                ]
                if fetched.next_offset == offset:
                    break
                offset = fetched.next_offset
            found.append(records)
    return found


def until(what, holds, wait_s=60):
    deadline = time.monotonic() + wait_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {wait_s} s: {what}"
        time.sleep(0.05)


def committed(house, group, topic, partition=0):
    with house.client() as client:
        return groups.committed_offsets(client, group).get(TopicPartition(topic, partition))


def test_a_topic_is_copied_as_it_is(house, old, topic, tmp_path):
    old.create(topic, 3, retention_ms="-1", cleanup_policy="compact,delete")
    headers = (("trace", b"1"), ("trace", None))
    for partition in range(2):
        records = [Record(0, T0_MS + i, b"k%d" % (i % 7), b"v%d" % i, headers[: i % 3]) for i in range(500)]
        records[3] = Record(0, T0_MS, b"gone", None)
        old.put(topic, records, partition, codec=LZ4)
    query = run(house, old, tmp_path, topics=topic, prefix="old.")
    assert everything(house, f"old.{topic}", 3) == everything(old, topic, 3)
    assert counted_rows(query) == 1000
    with house.client() as client:
        configs = {one.name: one.value for one in admin.configs_of(client, admin.TOPIC, f"old.{topic}")}
        assert codec_of(client, [TopicPartition(f"old.{topic}", 0)]) == "lz4"
    assert (configs["retention.ms"], configs["cleanup.policy"]) == ("-1", "compact,delete")


def test_a_mirror_goes_on_where_it_was_and_a_repeated_batch_changes_nothing(house, old, topic, tmp_path):
    old.create(topic, retention_ms="-1")
    old.fill(topic, [b"%d" % i for i in range(900)])
    name = new_name("copy")
    run(house, old, tmp_path, name=name, topics=topic, max_records="300")
    (tmp_path / "commits" / "2").unlink()  # as if the driver had died before it could note the third batch
    (tmp_path / "commits" / ".2.crc").unlink(missing_ok=True)
    old.fill(topic, [b"%d" % i for i in range(900, 1000)])
    run(house, old, tmp_path, name=name, topics=topic, max_records="300")
    assert [int(value) for _, _, value, _ in everything(house, topic, 1)[0]] == list(range(1000))
    (mapping,) = everything(house, f"{name}.mirror-offsets", 1)
    assert len(mapping) == 2 * 4, "each batch is told of once, under two keys"


def test_a_repeated_batch_of_which_the_source_has_deleted_records_is_known(house, old, topic, tmp_path):
    old.create(topic, retention_ms="-1")
    for first in range(0, 300, 10):
        old.fill(topic, [b"%d" % i for i in range(first, first + 10)])
    name = new_name("copy")
    run(house, old, tmp_path, name=name, topics=topic, max_records="100", losses="pass")
    (tmp_path / "commits" / "2").unlink()
    (tmp_path / "commits" / ".2.crc").unlink(missing_ok=True)
    with old.client() as client:
        admin.delete_records(client, {TopicPartition(topic, 0): 250})
    old.fill(topic, [b"300"])
    run(house, old, tmp_path, name=name, topics=topic, max_records="100", losses="pass")
    assert [int(value) for _, _, value, _ in everything(house, topic, 1)[0]] == list(range(301))


def test_transactions_that_were_aborted_stay_behind(house, old, topic, tmp_path):
    old.create(topic, retention_ms="-1")
    producer = Producer({"bootstrap.servers": old.address, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        producer.flush(30)
        producer.commit_transaction(30) if number % 2 else producer.abort_transaction(30)
    run(house, old, tmp_path, topics=topic, prefix="t.")
    assert [value for _, _, value, _ in everything(house, f"t.{topic}", 1)[0]] == [b"1", b"3", b"5"]


def consumer_of(address, group):
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
        }
    )


def take(consumer, count):
    found = []
    deadline = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} came"
        message = consumer.poll(0.5)
        if message is not None:
            assert not message.error(), message.error()
            found.append((message.partition(), message.value()))
    return found


def test_a_consumer_group_goes_on_at_the_mirror_without_losing_or_repeating_a_record(
    house, old, topic, tmp_path
):
    """With gaps at the source: markers of transactions, so that offsets differ between the two."""
    group = new_name("readers")
    old.create(topic, 2, retention_ms="-1")
    producer = Producer({"bootstrap.servers": old.address, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(20):
        producer.begin_transaction()
        for i in range(10):
            producer.produce(topic, b"%d" % (10 * number + i), partition=number % 2)
        producer.commit_transaction(30)
    everyone = sorted((number // 10 % 2, b"%d" % number) for number in range(200))

    consumer = consumer_of(old.address, group)
    seen = []
    for partition, count in ((0, 41), (1, 32)):
        consumer.assign([Place(topic, partition, 0)])
        seen += take(consumer, count)
        consumer.commit(asynchronous=False)
    consumer.close()

    run(house, old, tmp_path, topics=topic, groups=f"{group[:-1]}*, other", max_records="50")
    until("the group was moved", lambda: committed(house, group, topic, 1) is not None)
    until("the group was moved", lambda: committed(house, group, topic) is not None)
    assert committed(house, group, topic) != committed(old, group, topic), "offsets do differ"
    consumer = consumer_of(house.address, group)
    consumer.subscribe([topic])
    seen += take(consumer, 200 - 73)
    consumer.close()
    assert sorted(seen) == everyone


def test_a_group_that_is_at_work_here_is_left_alone_and_none_is_set_back(house, old, topic, tmp_path):
    live, ahead, behind = (new_name(word) for word in ("live", "ahead", "behind"))
    old.create(topic, retention_ms="-1")
    old.fill(topic, [b"%d" % i for i in range(100)])
    run(house, old, tmp_path, topics=topic)
    at_source, here = TopicPartition(topic, 0), TopicPartition(topic, 0)
    with old.client() as client:
        for group in (live, ahead, behind):
            groups.commit_offsets(client, group, {at_source: 50})
    with house.client() as client:
        groups.commit_offsets(client, ahead, {here: 80})
        groups.commit_offsets(client, behind, {here: 20})
        groups.commit_offsets(client, live, {here: 20})
    consumer = consumer_of(house.address, live)
    consumer.subscribe([topic])
    take(consumer, 1)
    run(house, old, tmp_path, topics=topic, groups="live*, ahead*, behind*")
    until("the group was moved", lambda: committed(house, behind, topic) == 50)
    assert committed(house, ahead, topic) == 80
    assert committed(house, live, topic) == 20
    consumer.close()
    until("it is left", lambda: not _members(house, live))
    run(house, old, tmp_path, topics=topic, groups="*", groups_backwards="true")
    until("the group was set back", lambda: committed(house, ahead, topic) == 50)
    until("the group was moved", lambda: committed(house, live, topic) == 50)


def _members(house, group):
    with house.client() as client:
        return groups.describe_group(client, group).members


def test_topics_that_join_a_pattern_and_partitions_that_are_added_are_copied_too(house, old, topic, tmp_path):
    old.create(f"{topic}-a", retention_ms="-1")
    old.fill(f"{topic}-a", [b"1"])
    query = mirror(house, old, tmp_path, once=False, pattern=f"{topic}-.*", rename=f"{topic}-b={topic}-bee")
    try:
        until("the first topic is copied", lambda: everything(house, f"{topic}-a", 1) != [[]])
        old.create(f"{topic}-b", 2, retention_ms="-1")
        old.fill(f"{topic}-b", [b"2"], partition=1)
        with old.client() as client:
            admin.add_partitions(client, f"{topic}-a", 3)
        old.fill(f"{topic}-a", [b"3"], partition=2)

        def all_copied():
            assert query.isActive, query.exception()
            with house.client() as client:
                names = admin.topic_names(client)
            return (
                f"{topic}-bee" in names
                and everything(house, f"{topic}-bee", 2) == everything(old, f"{topic}-b", 2)
                and len(house.client().topic(f"{topic}-a").partitions) == 3
                and everything(house, f"{topic}-a", 3) == everything(old, f"{topic}-a", 3)
            )

        until("all is copied", all_copied)
        place = TopicPartition(f"{topic}-b", 1)
        until("lag is told", lambda: lag_of(query.lastProgress).get(place) == 0)
        assert lag_line(query.lastProgress) == "none"
    finally:
        query.stop()


def test_times_that_the_broker_would_refuse_become_the_present(house, old, topic, tmp_path):
    old.create(topic, message_timestamp_after_max_ms=str(2**62))
    now_ms = int(time.time() * 1000)
    old.put(topic, [Record(0, now_ms + 10**9, None, b"ahead"), Record(0, now_ms, None, b"now")])
    run(house, old, tmp_path, topics=topic)
    ((ahead, _, _, _), (now, _, _, _)) = everything(house, topic, 1)[0]
    assert now == now_ms
    assert now_ms <= ahead <= time.time() * 1000


def test_a_mirror_of_itself_or_of_nothing_is_refused(house, topic, tmp_path):
    house.create(topic)
    with pytest.raises(InvalidRequest, match="from is this broker itself"):
        mirror(house, house, tmp_path, topics=topic)
    with pytest.raises(InvalidRequest, match=f"there is no topic '{topic}x' at .*did you mean '{topic}'"):
        mirror(house, house, tmp_path, topics=f"{topic}x")
    with pytest.raises(InvalidRequest, match="would be mirrored too"):
        mirror(house, house, tmp_path, pattern=".*", prefix="copy.")
