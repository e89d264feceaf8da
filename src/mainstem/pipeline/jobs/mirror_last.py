"""What was published last into a topic that a job keeps for itself; the job `sync` reads its own so too.

Such a record is published in one step with the rows of its batch. So it tells whether a batch that Spark
repeats was published, even where its rows cannot be read again as they were.
"""

from __future__ import annotations

from mainstem.client.client import LATEST, Client
from mainstem.client.cluster import TopicPartition


def last_value(client: Client, place: TopicPartition) -> bytes | None:
    """Of the newest record, which compaction never takes; None if there is none yet."""
    end = client.offsets({place: LATEST})[place].offset
    if end == 0:
        return None
    (fetched,) = client.fetch({place: end - 1}, max_wait_ms=0)
    (record,) = fetched.check().decoded()
    return record.value
