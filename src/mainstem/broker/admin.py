"""Changes to topics that can be made many at a time.

Each function decides, journals and applies in one go, without a pause in which somebody else could change
the same topic, and returns a future that is done once the change is on disk. Who makes many changes waits for
the last future only: the journal keeps its order, so all of them share one round or a few.

Journalled before applied: where the disk is full, nothing has changed.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from mainstem.broker.broker import Broker, tell_created, tell_early
from mainstem.broker.partition import Partition, Topic
from mainstem.broker.policy import CONFIGS, check_config
from mainstem.broker.store import Section
from mainstem.broker.topics import PartitionsAdded, TopicConfigured, TopicCreated, TopicDeleted, Trimmed
from mainstem.kernel.groups.offsets import TopicOffsetsDeleted
from mainstem.model.errors import DiskFull, InvalidConfig, InvalidPartitions, InvalidRequest, OffsetOutOfRange

Done = asyncio.Future[None]
_FROZEN_TOGETHER = 1000


def create_topic(broker: Broker, made: TopicCreated) -> Done:
    """What `broker.plan_topic` decided, in the same turn of the loop."""
    done = broker.store.commit(Section.TOPICS, made)
    broker.topics.apply(made)
    tell_created(broker.topics.by_id[made.topic_id])
    if len(broker.topics.by_id) % _FROZEN_TOGETHER == 0:
        # Topics stay: the garbage collector need not walk over a hundred thousand of them again and again.
        gc.freeze()
    return done


def delete_topic(broker: Broker, topic: Topic) -> Done:
    """The topic, its records and every group's offsets in it; who waits for its records is told."""
    waiters = {waiter for partition in topic.partitions for waiter in partition.waiters or ()}
    gone, offsets_gone = TopicDeleted(topic.id), TopicOffsetsDeleted(topic.id)
    # Offsets go in journal order: a commit that is on its way would bring them back otherwise.
    done = broker.store.commit_together(
        [(Section.TOPICS, gone), (Section.OFFSETS, offsets_gone)],
        frees_space=True,
        then=partial(broker.offsets.apply, offsets_gone),
    )
    broker.topics.apply(gone)
    for waiter in waiters:
        waiter()
    return done


def plan_partitions(broker: Broker, topic: Topic, total: int) -> PartitionsAdded:
    have, most = len(topic.partitions), broker.options.max_partitions
    if total == have:
        raise InvalidPartitions(f"Topic already has {have} partition(s).")
    if total < have:
        raise InvalidPartitions(
            f"The topic {topic.name} currently has {have} partition(s); {total} would not be an increase."
        )
    if total > most:
        raise InvalidPartitions(f"{total} partitions; at most {most} are allowed")
    return PartitionsAdded(topic.id, have, broker.topics.new_partition_ids(total - have))


def add_partitions(broker: Broker, added: PartitionsAdded) -> Done:
    """What `plan_partitions` decided, in the same turn of the loop."""
    done = broker.store.commit(Section.TOPICS, added)
    broker.topics.apply(added)
    return done


def configure_topic(broker: Broker, topic: Topic, configs: Mapping[str, str]) -> Done:
    """Replace the topic's own configs by these, which are checked."""
    changed = TopicConfigured(topic.id, dict(configs))
    done = broker.store.commit(Section.TOPICS, changed, essential=True)
    was_early = topic.policy.early
    broker.topics.apply(changed)
    if topic.policy.early and not was_early:
        tell_early(topic)
    return done


def trim(broker: Broker, partition: Partition, offset: int) -> Done | None:
    """Delete records below `offset` (-1: all that are readable). None: there were none, so no wait."""
    if offset == -1:
        offset = partition.high_watermark
    if not 0 <= offset <= partition.high_watermark:
        raise OffsetOutOfRange(offset, partition.log_start, partition.high_watermark)
    if offset <= partition.log_start:
        return None
    trimmed = Trimmed(partition.id, offset)
    done = broker.store.commit(Section.TOPICS, trimmed, frees_space=True)
    broker.topics.apply(trimmed)
    return done


# --- configs -----------------------------------------------------------------------------------

SET, DELETE, APPEND, SUBTRACT = range(4)


def changed_configs(
    own: Mapping[str, str], defaults: Mapping[str, str], changes: Iterable[tuple[str, int, str | None]]
) -> dict[str, str]:
    """A topic's own configs after changes (name, operation, value), checked as a whole."""
    configs = dict(own)
    for name, operation, value in changes:
        if operation == DELETE:
            if name not in CONFIGS and name not in own:
                check_config(name, None)
            configs.pop(name, None)
            continue
        if value is None:
            raise InvalidConfig(f"Null value not supported for topic configs: {name}")
        if operation in (APPEND, SUBTRACT):
            value = _merged(name, operation, configs.get(name, defaults.get(name, "")), value)
        elif operation != SET:
            raise InvalidRequest(f"Unknown operation {operation} on config {name}")
        check_config(name, value)
        configs[name] = value
    return configs


def _merged(name: str, operation: int, before: str, value: str) -> str:
    spec = CONFIGS.get(name)
    if spec is None or spec.kind != "list":
        raise InvalidConfig(
            f"Can't {'append to' if operation == APPEND else 'subtract from'} {name}: not a list"
        )
    have = [part for part in before.split(",") if part]
    named = [part.strip() for part in value.split(",") if part.strip()]
    if operation == APPEND:
        return ",".join(have + [part for part in named if part not in have])
    return ",".join(part for part in have if part not in named)


LARGE_BATCH_BYTES = 1 << 20  # what topics take at most, unless they are told otherwise

# --- space -------------------------------------------------------------------------------------


def free_bytes(broker: Broker) -> int:
    """Space left where the data folder is."""
    return broker.store.log.files.disk.free_bytes(broker.options.folder)


def refuses_writes(broker: Broker) -> bool:
    """For want of space: there is no room for a large batch. Small ones may still fit for a while."""
    try:
        broker.store.log.check_room(LARGE_BATCH_BYTES)
    except DiskFull:
        return True
    return False


async def size_bytes(broker: Broker, partitions: Sequence[Partition]) -> list[int]:
    """Bytes that each partition's batches take, compressed as they are; looked up off the loop."""
    log = broker.store.log
    sizes: list[int] = await broker.store.in_reader(
        lambda: [log.size_bytes(partition.id) for partition in partitions]
    )
    return sizes
