"""The topics machine: replay on top of a snapshot that was ahead of its position."""

from mainstem.broker.policy import Policies
from mainstem.broker.topics import (
    PartitionsAdded,
    PartitionsReached,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    Topics,
    Trimmed,
)

OLD, NEW = b"o" * 16, b"n" * 16


def machine(*deltas):
    topics = Topics(Policies({}))
    for delta in deltas:
        topics.apply(delta)
    return topics


def view(topics):
    return {
        name: (
            topic.id,
            dict(topic.configs),
            [(p.id, p.log_start, p.high_watermark) for p in topic.partitions],
        )
        for name, topic in topics.by_name.items()
    }


HISTORY = (
    TopicCreated("orders", OLD, (1,), {}, 0),
    PartitionsReached(((1, 0, 10),)),
    TopicDeleted(OLD),
    TopicCreated("orders", NEW, (2, 3), {}, 0),
    PartitionsAdded(NEW, 2, (4,)),
    TopicConfigured(NEW, {"retention.ms": "1"}),
    PartitionsReached(((2, 0, 7),)),
    Trimmed(2, 5),
)


def test_a_snapshot_rebuilds_what_was_dumped():
    topics = machine(*HISTORY)
    assert view(machine(*topics.dump())) == view(topics)


def test_replay_on_a_snapshot_that_is_ahead_ends_in_the_same_state():
    whole = machine(*HISTORY)
    for start in range(len(HISTORY) + 1):
        ahead = machine(*whole.dump(), *HISTORY[start:])
        assert view(ahead) == view(whole), f"replayed from {start}"
        assert set(ahead.partitions) == set(whole.partitions)


def test_partition_ids_are_not_given_again_after_their_topic_is_gone():
    topics = machine(*HISTORY, TopicDeleted(NEW))
    assert machine(*topics.dump()).new_partition_ids(1) == (5,)
