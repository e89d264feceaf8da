"""What may stand in WITH (...), by the kind of part, and the source's words for it.

Names that begin with `kafka.` are Kafka's and go to the source and the sink as they are. A table's other
options are Spark's (`header`, `url`, `dbtable`, ...), which nobody can list, so they are passed on unseen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from mainstem.pipeline.parts import Call, Options, Part, PerMessage, PipelineError, Query, Source

READ_FORMATS = ("json", "csv", "avro", "text", "raw")
WRITE_FORMATS = ("json", "csv", "text", "raw")
OUTPUTS = {"append": "append", "changelog": "update"}
PASSED_ON = "kafka."
METADATA = ("key", "topic", "partition", "offset", "timestamp", "timestamptype", "headers", "value")
ISOLATIONS = ("read_committed", "read_uncommitted")
_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:")
NUMBERS = frozenset({"partitions", "max_offsets", "max_bytes", "starting_time", "broker_timeout_ms"})
FLAGS = frozenset({"headers", "fail_on_data_loss"})


@dataclass(frozen=True, slots=True)
class Setting:
    """`spark` is the data source's name for it; empty where the pipeline itself uses it."""

    help: str
    spark: str = ""


# A stream that is read from a topic.
READING = {
    "topic": Setting("the topic, or several with commas", "subscribe"),
    "pattern": Setting("a regular expression instead: all topics that it fits", "subscribePattern"),
    "format": Setting(f"of the values: {', '.join(READ_FORMATS)} (default json)", "format"),
    "timestamp": Setting("the column that says when it happened"),
    "watermark": Setting("how late rows may come, as in '10 seconds'; needs timestamp"),
    "deduplicate": Setting("columns, with commas: of equal rows only the first is kept"),
    "starting": Setting("where the first run begins: earliest (default), latest or JSON", "startingOffsets"),
    "starting_time": Setting("or the first record from this time on, in ms since 1970", "startingTimestamp"),
    "max_offsets": Setting("records in one batch at most", "maxOffsetsPerTrigger"),
    "max_bytes": Setting("bytes in one batch, about", "maxBytesPerTrigger"),
    "metadata": Setting("of the record, as columns: key, topic, partition, offset, timestamp", "metadata"),
    "headers": Setting("true: with format raw, a column of headers", "includeHeaders"),
    "delimiter": Setting("between the fields of csv", "delimiter"),
    "avro_schema": Setting("of avro values, as JSON", "avroSchema"),
    "avro_framing": Setting("plain, or confluent: five bytes before each value", "avroFraming"),
    "dead_letters": Setting("the topic for values that cannot be read", "deadLetterTopic"),
    "isolation": Setting("read_committed (default) or read_uncommitted", "isolationLevel"),
    "fail_on_data_loss": Setting("false: go on when records are gone", "failOnDataLoss"),
    "broker_timeout_ms": Setting("how long the broker may be away", "brokerTimeoutMs"),
}
# A stream that is written to a topic; without one it is only a name for its SELECT.
WRITING = {
    "topic": Setting("where the rows go"),
    "format": Setting(f"of the values: {', '.join(WRITE_FORMATS)} (default json)"),
    "key": Setting("columns, with commas, that make the key; they stay in the value"),
    "output": Setting("append (default), or changelog: each change of a result"),
    "partitions": Setting("how many the topic gets if it is not there yet"),
    "delimiter": Setting("between the fields of csv"),
    "timestamp": Setting("the column that says when it happened, for those who read this stream"),
    "watermark": Setting("how late rows may come, for those who read this stream"),
    "deduplicate": Setting("columns, with commas: of equal rows only the first is read"),
    "trigger": Setting("time between batches, as in '1 second'"),
}
# A table that is written; the rest is Spark's.
TABLE = {
    "format": Setting("parquet, csv, json, orc, jdbc, or any that this Spark knows"),
    "path": Setting("its folder; relative ones begin where the file lies"),
    "partition_by": Setting("columns, with commas: a folder for each value"),
    "output": Setting("append"),
    "trigger": Setting("time between batches"),
}
PER_MESSAGE = {
    "topic": Setting("where messages go that say nothing else"),
    "partitions": Setting("how many the topic gets if it is not there yet"),
    "trigger": Setting("time between batches"),
}


def text(options: Options, name: str, default: str = "") -> str:
    return options[name].value if name in options else default


def listed(options: Options, name: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text(options, name).split(",") if word.strip())


def below(folder: str, path: str) -> str:
    """A relative path begins where the pipeline's file lies, not where the command is run."""
    return path if has_scheme(path) or path.startswith("/") else f"{folder}/{path}"


def has_scheme(path: str) -> bool:
    """`s3a://bucket/x`, `file:/x`."""
    return _SCHEME.match(path) is not None


def elsewhere(options: Options) -> bool:
    """Another broker's, about which nothing is known here."""
    return "kafka.bootstrap.servers" in options


def passed_on(options: Options) -> dict[str, str]:
    return {name: option.value for name, option in options.items() if name.startswith(PASSED_ON)}


def wrong_options(part: Part) -> Iterator[PipelineError]:
    if isinstance(part, Source) and part.kind == "stream":
        yield from _unknown(part.options, READING | WRITING)
        yield from _one_of(part.options, "format", READ_FORMATS)
        yield from _stream_source(part)
    elif isinstance(part, Query | Call) and part.kind == "stream":
        yield from _unknown(part.options, WRITING)
        yield from _one_of(part.options, "format", WRITE_FORMATS)
        yield from _watermark(part.options)
    elif isinstance(part, Query | Call) and part.kind == "view":
        yield from _unknown(part.options, {})
    elif isinstance(part, Source | Query | Call):
        yield from _table(part)
    elif isinstance(part, PerMessage):
        yield from _unknown(part.options, PER_MESSAGE)
    if isinstance(part, Source | Query | Call | PerMessage):
        yield from _one_of(part.options, "output", tuple(OUTPUTS))
        yield from _values(part.options)


def _unknown(options: Options, known: dict[str, Setting]) -> Iterator[PipelineError]:
    for name, option in options.items():
        if name in known or name.startswith(PASSED_ON):
            continue
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}" if known else ""
        yield PipelineError(option.at, f"there is no option {name!r} here{hint}")


def _one_of(options: Options, name: str, known: tuple[str, ...]) -> Iterator[PipelineError]:
    if name in options and options[name].value.lower() not in known:
        value = options[name].value
        near = get_close_matches(value.lower(), known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        yield PipelineError(options[name].at, f"{name} is {' or '.join(known)}, not {value!r}{hint}")


def _values(options: Options) -> Iterator[PipelineError]:
    for name, option in options.items():
        if name in NUMBERS and (not re.fullmatch("[0-9]+", option.value) or int(option.value) == 0):
            yield PipelineError(option.at, f"{name} is a number above 0, not {option.value!r}")
        elif name in FLAGS and option.value.lower() not in ("true", "false"):
            yield PipelineError(option.at, f"{name} is true or false, not {option.value!r}")
        elif name == "trigger" and not is_interval(option.value):
            yield PipelineError(option.at, f"{option.value!r} is no time; write it as '10 seconds'")


def _stream_source(part: Source) -> Iterator[PipelineError]:
    given = [name for name in ("topic", "pattern") if name in part.options]
    if not given:
        yield PipelineError(part.at, f"stream {part.name} needs WITH (topic = '...')")
    elif len(given) == 2:
        yield PipelineError(part.options["pattern"].at, "give topic or pattern, not both")
    if "starting" in part.options and "starting_time" in part.options:
        yield PipelineError(part.options["starting_time"].at, "give starting or starting_time, not both")
    where = text(part.options, "starting", "earliest").strip()
    if where.lower() not in ("earliest", "latest") and not where.startswith("{"):
        what = f"starting is earliest, latest or JSON, not {where!r}"
        yield PipelineError(part.options["starting"].at, what)
    yield from _one_of(part.options, "isolation", ISOLATIONS)
    for name in listed(part.options, "metadata"):
        if name.lower() not in METADATA:
            near = get_close_matches(name, METADATA, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            yield PipelineError(part.options["metadata"].at, f"a record has no {name!r}{hint}")
    yield from _watermark(part.options)


def _watermark(options: Options) -> Iterator[PipelineError]:
    if "watermark" not in options:
        return
    if "timestamp" not in options:
        yield PipelineError(options["watermark"].at, "a watermark needs timestamp = 'column'")
    if not is_interval(options["watermark"].value):
        wrong = options["watermark"].value
        yield PipelineError(options["watermark"].at, f"{wrong!r} is no time; write it as '10 seconds'")


def _table(part: Source | Query | Call) -> Iterator[PipelineError]:
    if "format" not in part.options:
        yield PipelineError(part.at, f"table {part.name} needs WITH (format = '...'), such as parquet or csv")
    elif text(part.options, "format") in ("parquet", "csv", "json", "orc") and "path" not in part.options:
        yield PipelineError(part.at, f"table {part.name} needs WITH (path = '...')")
    if text(part.options, "output") == "changelog":
        yield PipelineError(part.options["output"].at, "a table of files cannot take a changelog: use append")


_UNITS = frozenset(["millisecond", "second", "minute", "hour", "day", "week"])


def is_interval(value: str) -> bool:
    """`10 seconds`, `1 hour 30 minutes`."""
    words = value.lower().removeprefix("interval ").split()
    pairs = list(zip(words[::2], words[1::2], strict=False))
    return (
        bool(words)
        and len(words) % 2 == 0
        and all(number.isdecimal() and unit.removesuffix("s") in _UNITS for number, unit in pairs)
    )
