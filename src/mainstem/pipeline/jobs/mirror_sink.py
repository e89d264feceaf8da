"""The sink of a mirror: records go to the same partitions, and the mapping of offsets is published with them.

Tasks stage records and note which offsets of the source they had. The driver's commit asks where the
target's partitions end, stages the mapping, and publishes both in one step: so there is no batch without its
mapping, and one that is repeated after a crash leaves both as they are. What is published lies behind the
ends that were asked for before, whoever else writes there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from mainstem.client import sinks
from mainstem.client.client import LATEST, Client
from mainstem.client.cluster import TopicPartition
from mainstem.client.patience import patiently
from mainstem.client.settings import ClientSettings
from mainstem.pipeline.jobs.mirror_last import last_value
from mainstem.pipeline.jobs.mirror_mapping import Copied, Stretch, keys_of, thinned
from mainstem.pipeline.jobs.mirror_topics import Copier, Selection
from mainstem.spark.connecting import settings_of
from mainstem.spark.options import Options
from mainstem.spark.sink import query_of_task, sink_of, write_options
from mainstem.spark.writing import Stager, WriteOptions

FORMAT = "mainstem_mirror"
FROM = "from."  # before options of the source


@dataclass(frozen=True, slots=True)
class Plan:
    """What a task of a mirror needs to know."""

    target: WriteOptions
    source: ClientSettings
    selection: Selection
    with_configs: bool
    mapping: TopicPartition


def options_of(
    here: Mapping[str, str], source: Mapping[str, str], selection: Selection, configs: bool, mapping: str
) -> dict[str, str]:
    """A plan as options of the sink, which are text."""
    told = {"selection": json.dumps(msgspec.to_builtins(selection)), "mapping": mapping}
    told["configs"] = "true" if configs else "false"
    return told | dict(here) | {FROM + name: value for name, value in source.items()}


def plan_of(options: Mapping[str, str]) -> Plan:
    here = {name: value for name, value in options.items() if name.startswith("kafka.")}
    source = {name.removeprefix(FROM): value for name, value in options.items() if name.startswith(FROM)}
    return Plan(
        write_options(Options(here), ""),
        settings_of(Options(source)),
        msgspec.json.decode(options["selection"], type=Selection),
        options["configs"] == "true",
        TopicPartition(options["mapping"], 0),
    )


class MirrorSink(DataSource):
    """Only written to, by streams with topic, partition, offset, timestamp, key, value and headers."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return MirrorWriter(plan_of(self.options))


class CopiedByTask(WriterCommitMessage):
    def __init__(
        self,
        query: str,
        staged: dict[TopicPartition, list[sinks.Staged]],
        copied: dict[TopicPartition, Copied],
    ) -> None:
        self.query = query
        self.staged = staged
        self.copied = copied  # by partition of the source


class MirrorWriter(DataSourceStreamArrowWriter):
    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        query, plan, copied = query_of_task(), self._plan, dict[TopicPartition, Copied]()
        with Client(plan.target.settings) as client:
            stager = Stager(client, plan.target)
            copier = Copier(
                plan.selection,
                plan.source,
                client,
                with_configs=plan.with_configs,
                patience_s=plan.target.patience_s,
            )
            for batch in iterator:
                for place, part in _by_place(batch):
                    copied.setdefault(place, Copied()).add(part.column("offset"))
                    target = copier.ensure(place.topic, place.partition + 1)
                    stager.add(_renamed(part, target))
            return CopiedByTask(query, stager.finish(), copied)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        query, staged, copied = _together(messages)
        if not query:
            return
        plan = self._plan
        with Client(plan.target.settings) as client:
            if self._is_published(client, query, batchId):
                return
            stretches = self._stretches(client, query, batchId, copied)
            stager = Stager(client, plan.target)
            stager.add(_rows(stretches, plan.mapping))
            for place, some in stager.finish().items():
                staged.setdefault(place, []).extend(some)
            sinks.publish(client, sink_of(query), batchId, staged, plan.target.patience_s)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: nobody sees what was staged."""

    def _is_published(self, client: Client, query: str, batch_id: int) -> bool:
        """Asked of the mapping: the source may have deleted records since, then the batch has fewer now."""
        value = patiently(lambda: last_value(client, self._plan.mapping), self._plan.target.patience_s)
        if value is None:
            return False
        last = msgspec.json.decode(value, type=Stretch)
        return last.query == query and last.batch >= batch_id

    def _stretches(
        self, client: Client, query: str, batch_id: int, copied: Mapping[TopicPartition, Copied]
    ) -> list[Stretch]:
        selection = self._plan.selection
        targets = {place: TopicPartition(selection.target(place.topic), place.partition) for place in copied}
        names = {target.topic for target in targets.values()}
        patience_s = self._plan.target.patience_s
        ids = patiently(lambda: {name: client.topic(name).id.hex() for name in names}, patience_s)
        ends = patiently(lambda: client.offsets(dict.fromkeys(targets.values(), LATEST)), patience_s)
        return [
            Stretch(
                query=query,
                batch=batch_id,
                topic=place.topic,
                partition=place.partition,
                target=targets[place].topic,
                target_id=ids[targets[place].topic],
                source_end=one.source_end,
                target_start=ends[targets[place]].offset,
                records=one.records,
                runs=thinned(one.runs),
            )
            for place, one in sorted(copied.items())
        ]


def _by_place(batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """A task reads one partition, so this is the whole batch but for Spark's freedom to do otherwise."""
    topics, partitions = batch.column("topic"), batch.column("partition")
    for topic in pc.unique(topics):
        for partition in pc.unique(partitions):
            mask = pc.and_(pc.equal(topics, topic), pc.equal(partitions, partition))
            part = batch.filter(mask)
            if len(part):
                yield TopicPartition(topic.as_py(), partition.as_py()), part


def _renamed(batch: pa.RecordBatch, topic: str) -> pa.RecordBatch:
    names = pa.repeat(pa.scalar(topic, pa.string()), len(batch))
    return batch.set_column(batch.schema.get_field_index("topic"), "topic", names)


def _together(
    messages: list[WriterCommitMessage | None],
) -> tuple[str, dict[TopicPartition, list[sinks.Staged]], dict[TopicPartition, Copied]]:
    """What all tasks have done; they are in the order of what they read."""
    query = ""
    staged: dict[TopicPartition, list[sinks.Staged]] = {}
    copied: dict[TopicPartition, Copied] = {}
    for message in messages:
        if isinstance(message, CopiedByTask):
            query = message.query
            for place, some in message.staged.items():
                staged.setdefault(place, []).extend(some)
            for place, one in message.copied.items():
                copied.setdefault(place, Copied()).extend(one)
    return query, staged, copied


def _rows(stretches: list[Stretch], place: TopicPartition) -> pa.RecordBatch:
    rows = [(key, msgspec.json.encode(stretch)) for stretch in stretches for key in keys_of(stretch)]
    columns = [
        pa.repeat(pa.scalar(place.topic), len(rows)),
        pa.repeat(pa.scalar(place.partition, pa.int32()), len(rows)),
        pa.array([key for key, _ in rows], pa.string()),
        pa.array([value for _, value in rows], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, ["topic", "partition", "key", "value"])
