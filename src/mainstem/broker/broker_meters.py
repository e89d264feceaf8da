"""What an operator can see of a broker. The hot path counts in plain attributes, read when somebody looks."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable

from mainstem.broker.admin import free_bytes, refuses_writes
from mainstem.broker.broker import Broker

# Lag is summed up on the loop: about 2 us for each committed offset, so no more than this many.
MAX_OFFSETS_LOOKED_AT = 10_000


def add_broker_meters(broker: Broker) -> Callable[[], None]:
    """Add the meters; call what comes back before each rendering to bring the lag up to date."""
    meters, topics, log = broker.meters, broker.topics, broker.store.log
    published = broker.publisher
    meters.counter("mainstem_messages_in", "Messages taken from producers").at().read = lambda: (
        published.messages
    )
    meters.counter(
        "mainstem_messages_in_bytes", "Bytes of messages taken from producers, as sent"
    ).at().read = lambda: published.bytes
    meters.counter("mainstem_journal_rounds", "Writes of the journal, each for all that waited").at().read = (
        lambda: log.rounds_written
    )
    meters.counter("mainstem_journal_written_bytes", "Bytes that the journal wrote").at().read = lambda: (
        log.bytes_written
    )
    syncs = meters.histogram("mainstem_journal_sync_seconds", "Time that each round took to be on disk")
    syncs.members[()] = log.sync_seconds
    meters.gauge("mainstem_topics", "Topics").at().read = lambda: len(topics.by_name)
    meters.gauge("mainstem_partitions", "Partitions of all topics").at().read = lambda: (
        len(topics.partitions) - len(broker.queues.book.lanes)
    )
    _add_queue_meters(broker)
    meters.gauge("mainstem_groups", "Consumer groups").at().read = broker.groups.count
    meters.gauge(
        "mainstem_open_transactions", "Transactions begun and not ended"
    ).at().read = broker.coordinator.open_count
    meters.gauge("mainstem_disk_free_bytes", "Space left where the data folder is").at().read = lambda: (
        free_bytes(broker)
    )
    meters.gauge("mainstem_writes_refused", "1 while writes are refused: the disk is full").at().read = (
        lambda: int(refuses_writes(broker))
    )
    lag = meters.gauge("mainstem_group_lag", "Messages behind the end, over all partitions", "group", "topic")

    def refresh() -> None:
        behind = group_lag(broker)
        for gone in lag.members.keys() - behind.keys():
            lag.drop(*gone)
        for names, messages in behind.items():
            lag.at(*names).value = messages

    return refresh


def group_lag(broker: Broker, max_offsets: int = MAX_OFFSETS_LOOKED_AT) -> Tally[tuple[str, str]]:
    """By group and topic. Where there are more offsets than `max_offsets`, some groups are missing."""
    behind = _share_lag(broker, max_offsets)
    left = max_offsets
    for group in list(broker.offsets.groups()):
        offsets = list(broker.offsets.all(group))
        left -= len(offsets)
        if left < 0:
            break
        for at in offsets:
            topic = broker.topics.by_id.get(at.topic_id)
            if topic is not None and at.partition < len(topic.partitions):
                partition = topic.partitions[at.partition]
                # What was trimmed away is nobody's to read any more.
                next_offset = max(at.offset, partition.log_start)
                behind[group, topic.name] += max(partition.high_watermark - next_offset, 0)
    return behind


def _add_queue_meters(broker: Broker) -> None:
    meters, queues = broker.meters, broker.queues
    meters.gauge("mainstem_queues", "Queues of all namespaces").at().read = queues.count
    meters.counter("mainstem_queue_messages", "Messages published to queues").at().read = lambda: (
        queues.published
    )
    meters.counter("mainstem_dead_letters", "Messages that queues sent to their dead letters").at().read = (
        lambda: queues.buried
    )
    meters.gauge("mainstem_delayed_messages", "Messages held back until their time").at().read = lambda: len(
        queues.delays
    )


def _share_lag(broker: Broker, max_partitions: int) -> Tally[tuple[str, str]]:
    """What share groups are not done with: records that members have now count too."""
    behind: Tally[tuple[str, str]] = Tally()
    for group in list(broker.share_book.groups):
        for partition_id in broker.shares.partition_ids(group)[:max_partitions]:
            max_partitions -= 1
            partition = broker.topics.partitions.get(partition_id)
            at = None if partition is None else broker.shares.start_offset(group, partition)
            if partition is not None and at is not None:
                behind[group, partition.topic.name] += at[1]
    return behind
