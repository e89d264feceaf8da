"""The job `mirror`: topics of another broker, Mainstem or Apache Kafka, are copied here as they are.

Records keep partition, order, key, value, headers and time; each appears once. Consumer groups come along:
their offsets are translated (mirror_mapping.py) and set here while nobody is in them.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from mainstem.client import admin
from mainstem.client.client import EARLIEST, LATEST, Client
from mainstem.client.cluster import TopicPartition
from mainstem.client.settings import ClientSettings, parse_bootstrap
from mainstem.model.batch import iter_batches
from mainstem.model.errors import InvalidRequest, MainstemError
from mainstem.model.logs import get_log
from mainstem.pipeline.counting import counted
from mainstem.pipeline.jobs import Job, JobOption, JobRun
from mainstem.spark.ranges import positions_from_json

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from mainstem.pipeline.jobs.mirror_topics import Selection

events = get_log(__name__)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")  # by number
AS_SOURCE = "source"
COLUMNS = "topic, partition, offset, timestamp, key, value, headers"
# The broker takes no time that is an hour ahead, or none at all; such records get the present.
TIME = (
    "CASE WHEN timestamp BETWEEN timestamp_seconds(0) AND current_timestamp() + INTERVAL 30 MINUTES "
    "THEN timestamp END"
)
SECURITY = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
)
OPTIONS = (
    JobOption("from", "host:port of the broker to copy from, Mainstem or Apache Kafka", required=True),
    JobOption("topics", "names of the topics, separated by commas"),
    JobOption("pattern", "instead of topics: a regular expression that the whole name fits"),
    JobOption("prefix", "put before the names of topics here"),
    JobOption("rename", "other names here: 'old=new, other=new-too'"),
    JobOption("starting", "where to begin: earliest or latest", default="earliest"),
    JobOption(
        "configs", "make topics with the settings they have at the source: true or false", default="true"
    ),
    JobOption("compression", f"of the copies: {AS_SOURCE} or {', '.join(CODECS)}", default=AS_SOURCE),
    JobOption("groups", "consumer groups that come along, * for anything; empty: none", default="*"),
    JobOption("groups.backwards", "set groups back as well: true or false", default="false"),
    JobOption("groups.seconds", "how often groups are looked at", default="10"),
    JobOption("mapping", "the topic that keeps the mapping of offsets; by default NAME.mirror-offsets"),
    JobOption("max.records", "most records of one batch", default="500000"),
    JobOption(
        "losses", "records that are gone at the source before they were copied: fail or pass", default="fail"
    ),
    *(
        JobOption(f"from.{name}", f"to reach the source: Kafka's {name}; $NAME is taken from the environment")
        for name in SECURITY
    ),
)


def check(options: Mapping[str, str]) -> None:
    parse_bootstrap(options["from"])
    selection = selection_of(options)
    selection.check_mapping(list(selection.names), options.get("mapping", ""))
    _one_of(options, "starting", ("earliest", "latest"))
    _one_of(options, "compression", (AS_SOURCE, *CODECS))
    _one_of(options, "losses", ("fail", "pass"))
    for name in ("configs", "groups.backwards"):
        _one_of(options, name, ("true", "false"))
    for name in ("groups.seconds", "max.records"):
        if not options[name].isdecimal() or int(options[name]) == 0:
            raise InvalidRequest(f"{name} is a number above 0, not {options[name]!r}")


def selection_of(options: Mapping[str, str]) -> Selection:
    from mainstem.pipeline.jobs.mirror_topics import Selection, parse_renames

    names = tuple(name.strip() for name in options.get("topics", "").split(",") if name.strip())
    pattern = options.get("pattern", "").strip()
    if bool(names) == bool(pattern):
        raise InvalidRequest("give topics or pattern, one of them")
    try:
        re.compile(pattern)
    except re.error as error:
        raise InvalidRequest(f"pattern {pattern!r}: {error}") from None
    renames = parse_renames(options.get("rename", ""))
    unknown = [name for name in renames if names and name not in names]
    if unknown:
        raise InvalidRequest(f"rename names {unknown[0]!r}, which is not one of the topics")
    selection = Selection(names, pattern, options.get("prefix", ""), renames)
    selection.check(list(names), same_broker=False)
    return selection


def makes(options: Mapping[str, str], topic: str) -> bool:
    selection = selection_of(options)
    before = [*selection.names, *selection.renames, topic.removeprefix(selection.prefix)]
    return any(selection.target(name) == topic and selection.selects(name) for name in before)


def _one_of(options: Mapping[str, str], name: str, known: tuple[str, ...]) -> None:
    if options[name] not in known:
        raise InvalidRequest(f"{name} is one of {', '.join(known)}, not {options[name]!r}")


def source_options(options: Mapping[str, str]) -> dict[str, str]:
    """To reach the source, as options of the data source."""
    told = {"kafka.bootstrap.servers": options["from"]}
    for name in SECURITY:
        value = options.get(f"from.{name}", "")
        if value.startswith("$"):
            if value[1:] not in os.environ:
                raise InvalidRequest(f"from.{name} is {value}, and there is no such variable")
            value = os.environ[value[1:]]
        if value:
            told[f"kafka.{name}"] = value
    return told


def start(run: JobRun) -> list[StreamingQuery]:
    from mainstem.pipeline.jobs import mirror_sink
    from mainstem.spark.connecting import settings_of
    from mainstem.spark.options import Options

    options, selection = run.options, selection_of(run.options)
    there = source_options(options)
    source, here = settings_of(Options(there)), settings_of(Options(run.broker))
    mapping = TopicPartition(options.get("mapping") or f"{run.name}.mirror-offsets", 0)
    codec = _prepare(source, here, selection, options, mapping)
    events.event("mirror begins", source=options["from"], mapping=mapping.topic, compression=codec)
    run.spark.dataSource.register(mirror_sink.MirrorSink)
    stream = (
        run.spark.readStream.format("mainstem")
        .options(**_reading(there, selection, options))
        .load()
        .selectExpr("topic", "partition", "offset", f"{TIME} AS timestamp", "key", "value", "headers")
    )
    sink = mirror_sink.options_of(
        {**run.broker, "kafka.compression.type": codec},
        there,
        selection,
        options["configs"] == "true",
        mapping.topic,
    )
    query = (
        counted(stream)
        .writeStream.queryName(run.name)
        .format(mirror_sink.FORMAT)
        .options(**sink)
        .option("checkpointLocation", run.checkpoint)
        .trigger(**run.trigger)
        .start()
    )
    if options["groups"].strip():
        _follow(query, source, here, mapping, options)
    return [query]


def _reading(there: Mapping[str, str], selection: Selection, options: Mapping[str, str]) -> dict[str, str]:
    told = {
        **there,
        "columns": COLUMNS,
        "isolationLevel": "read_committed",
        "startingOffsets": options["starting"],
        "maxOffsetsPerTrigger": options["max.records"],
        "failOnDataLoss": "true" if options["losses"] == "fail" else "false",
    }
    which = (
        {"subscribePattern": selection.pattern}
        if selection.pattern
        else {"subscribe": ",".join(selection.names)}
    )
    return told | which


def _prepare(
    source: ClientSettings,
    here: ClientSettings,
    selection: Selection,
    options: Mapping[str, str],
    mapping: TopicPartition,
) -> str:
    """Make the topics, those without records too; the codec that copies get."""
    from mainstem.pipeline.jobs.mirror_topics import Copier

    with Client(source) as there, Client(here) as client:
        known = admin.topic_names(there)
        for name in selection.names:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise InvalidRequest(f"there is no topic {name!r} at {options['from']}{hint}")
        topics = [name for name in known if selection.selects(name)]
        counts = {name: len(there.topic(name).partitions) for name in topics}
        selection.check(topics, same_broker=_same_broker(there, client))
        selection.check_mapping(topics, mapping.topic)
        copier = Copier(selection, source, client, with_configs=options["configs"] == "true")
        for topic, count in counts.items():
            copier.ensure(topic, count)
        if mapping.topic not in admin.topic_names(client):
            admin.create_topic(client, mapping.topic, 1, {"cleanup.policy": "compact"})
        if options["compression"] != AS_SOURCE:
            return options["compression"]
        return codec_of(there, [TopicPartition(name, p) for name, n in counts.items() for p in range(n)])


def _same_broker(there: Client, here: Client) -> bool:
    return there.cluster([]).id == here.cluster([]).id


def codec_of(client: Client, places: list[TopicPartition]) -> str:
    """How the newest batches of most partitions are compressed."""
    if not places:
        return "none"
    firsts = client.offsets(dict.fromkeys(places, EARLIEST))
    ends = client.offsets(dict.fromkeys(places, LATEST))
    found: Counter[int] = Counter()
    for place in places:
        if ends[place].offset > firsts[place].offset:
            (fetched,) = client.fetch({place: ends[place].offset - 1}, max_wait_ms=0)
            found.update(
                header.codec
                for _, header in iter_batches(fetched.records)
                if header.record_count and not header.is_control
            )
    return CODECS[found.most_common(1)[0][0]] if found else "none"


def _follow(
    query: StreamingQuery,
    source: ClientSettings,
    here: ClientSettings,
    mapping: TopicPartition,
    options: Mapping[str, str],
) -> None:
    """Beside the query, as long as it runs, and once more when it has ended. Not a daemon: a program that
    ends with the query still waits for that."""
    from mainstem.pipeline.jobs.mirror_groups import MappingReader, Wanted, move_groups

    names = tuple(name.strip() for name in options["groups"].split(",") if name.strip())
    wanted, selection = Wanted(names, options["groups.backwards"] == "true"), selection_of(options)
    seconds = int(options["groups.seconds"])

    def follow() -> None:
        with Client(source) as there, Client(here) as client:
            reader = MappingReader(client, mapping)
            while True:
                has_ended = _ended(query, seconds)
                try:
                    moved = move_groups(there, client, reader.catch_up(), selection, wanted)
                    for group, places in moved.items():
                        events.event(
                            "group moved", group=group, places={str(p): at for p, at in places.items()}
                        )
                    if not has_ended:
                        events.event("mirror", lag=lag_line(query.lastProgress))
                except MainstemError as error:  # away for a while, perhaps: the next round tries again
                    events.warning("groups were not moved", why=str(error))
                    reader = MappingReader(client, mapping)  # the topic may be another now
                except Exception as error:  # nobody else would see this thread end
                    events.error("groups were not moved", error=error)
                    reader = MappingReader(client, mapping)
                if has_ended:
                    return

    threading.Thread(target=follow, name=f"groups of {mapping.topic}").start()


def _ended(query: StreamingQuery, seconds: int) -> bool:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        return bool(query.awaitTermination(seconds))
    except (PySparkException, Py4JError, OSError):  # it failed, or Spark is gone
        return True


def lag_of(progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Records at the source that are not copied yet, from Spark's progress of the query."""
    (source,) = progress["sources"]
    reached = _positions(source["endOffset"])
    return {place: end - reached.get(place, 0) for place, end in _positions(source["latestOffset"]).items()}


def _positions(told: object) -> dict[TopicPartition, int]:
    """Spark tells them as JSON in JSON, or not at all."""
    return {} if told in (None, "null") else positions_from_json(told)


def lag_line(progress: Mapping[str, Any] | None) -> str:
    """`orders 0: 17, orders 1: 0 (17 in all)`."""
    if progress is None:
        return "nothing copied yet"
    lag = {place: behind for place, behind in sorted(lag_of(progress).items()) if behind > 0}
    each = ", ".join(f"{place.topic} {place.partition}: {behind}" for place, behind in lag.items())
    return f"{each} ({sum(lag.values())} in all)" if lag else "none"


JOB = Job(
    "copy topics of another broker, Mainstem or Apache Kafka, and take their consumer groups along",
    OPTIONS,
    start,
    check,
    reads=lambda options: (),  # its topics are the other broker's
    makes=makes,
)
