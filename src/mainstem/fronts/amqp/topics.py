"""Publishing to topics: what goes to the default exchange with a topic's name, where no queue has that name.

A record keeps the message as it came, for AMQP clients, and its properties once more as headers that Kafka's
clients read (wire/amqp/convert.py has the table). Messages of a channel go to one partition, in their order.
In a transaction they are checked at once, and get their places with the rest of it, in one frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mainstem.broker.looking import look
from mainstem.broker.partition import Partition
from mainstem.fronts.amqp.handlers.kind import stream_of
from mainstem.model.batch import BATCH_OVERHEAD, check_batch
from mainstem.model.records import finish_batch
from mainstem.wire.amqp.convert import to_kafka
from mainstem.wire.amqp.events import Publishes
from mainstem.wire.amqp.records import encode_record

if TYPE_CHECKING:
    from mainstem.fronts.amqp.channel import Channel

# A batch is ended beyond this: topics have a limit for theirs.
BATCH_BYTES = 256 << 10


def publish_to_topic(channel: Channel, run: Publishes, first: int, stop: int) -> bool:
    """False if there is no such topic."""
    session = channel.connection.session
    partitions = stream_of(session, run.key)
    if not partitions:
        return False
    session.require("write", "queue", run.key)
    partition = partitions[channel.spread % len(partitions)]
    now_ms = session.broker.clock.now_ms()
    for batch in _batches(partition, run, first, stop, now_ms):
        if channel.transaction is None:
            view = memoryview(batch)
            policy = partition.topic.policy
            check_batch(view, policy.max_message_bytes)
            looked = look(policy, view)  # at once, however it is to be compressed
            session.broker.publisher.publish(partition, view, None, None, looked)
        else:
            channel.transaction.append(partition, memoryview(batch))
    return True


def _batches(partition: Partition, run: Publishes, first: int, stop: int, now_ms: int) -> Iterator[bytearray]:
    """A message that alone is more than its topic takes is a batch of its own, so that only it is refused."""
    most = min(BATCH_BYTES, partition.topic.policy.max_message_bytes)
    out, count = bytearray(BATCH_OVERHEAD), 0
    for index in range(first, stop):
        raw = run.properties(index)
        before = len(out)
        encode_record(out, count, run, index, raw, to_kafka(raw))
        if len(out) > most and count:
            del out[before:]
            yield finish_batch(out, 0, partition.leader_epoch, count, now_ms)
            out, count = bytearray(BATCH_OVERHEAD), 0
            encode_record(out, count, run, index, raw, to_kafka(raw))
        count += 1
    if count:
        yield finish_batch(out, 0, partition.leader_epoch, count, now_ms)
