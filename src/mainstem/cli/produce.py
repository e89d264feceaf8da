"""`mainstem produce`: lines, files or JSON objects, as messages."""

from __future__ import annotations

import base64
import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from mainstem.cli.connect import client_options, find_topic, pairs
from mainstem.cli.groups import examples
from mainstem.cli.output import emit_record, json_option, plural, remark
from mainstem.model.compression import CODEC_NAMES
from mainstem.model.errors import BrokerRefused, InvalidRecord, InvalidRequest, MainstemError, UnknownTopic
from mainstem.model.records import Headers, Record

if TYPE_CHECKING:
    from mainstem.client import Client, TopicPartition
    from mainstem.client.producing import Producer

CODECS = {name: codec for codec, name in CODEC_NAMES.items()}
UNKNOWN_TOPIC, INVALID_TOPIC = 3, 17
READ_BYTES = 1 << 20
JSON_FIELDS = ("key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp_ms")
# What `consume --format json` prints and produce has no use for.
JSON_IGNORED = ("topic", "offset", "time")


@dataclass(frozen=True)
class Wish:
    """How lines become messages."""

    topic: str
    key: str | None
    key_separator: str | None
    headers: tuple[str, ...]
    partition: int | None
    compression: str
    input_format: str
    tombstones: bool
    acks: str
    keep_partitions: bool


@click.command(
    "produce",
    epilog=examples(
        "echo hello | mainstem produce greetings",
        "mainstem produce orders orders.txt -K :                # lines like c-0042:espresso",
        'echo \'{"key": "a", "value": "b"}\' | mainstem produce orders --input json',
        "mainstem consume orders --json | mainstem produce copy --input json",
        "mainstem consume orders --json | mainstem produce copy --input json --keep-partitions",
        "mainstem produce pictures cat.jpg --input file --compression zstd",
    ),
)
@click.argument("topic")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--key", "-k", help="The key of every message.")
@click.option("--key-separator", "-K", metavar="TEXT", help="What stands between key and value in a line.")
@click.option(
    "--header", "-H", "headers", multiple=True, metavar="NAME=VALUE", help="A header of every message."
)
@click.option("--partition", "-p", type=click.IntRange(min=0), help="Send there, whatever the key.")
@click.option(
    "--compression",
    "-z",
    type=click.Choice(sorted(CODECS)),
    default="none",
    help="How batches are compressed.",
)
@click.option(
    "--input",
    "input_format",
    type=click.Choice(["lines", "json", "file"]),
    default="lines",
    show_default=True,
    help="A message per line, per JSON object (a line each), or per file.",
)
@click.option(
    "--tombstones", is_flag=True, help="An empty value is none at all: on compacted topics, a delete."
)
@click.option(
    "--keep-partitions",
    is_flag=True,
    help="Send each JSON object to the partition it names; all are read first.",
)
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", help="What to wait for.")
@json_option
@client_options
def command(files: tuple[str, ...], as_json: bool, client: Client, **wish: Any) -> None:
    """Send messages to TOPIC, from FILES or from standard input until it ends."""
    wanted = Wish(**wish)
    _check(wanted)
    counts: dict[int, int] = {}

    def sent(place: TopicPartition, _offset: int, count: int) -> None:
        counts[place.partition] = counts.get(place.partition, 0) + count

    if wanted.partition is not None:
        count = len(find_topic(client, wanted.topic).partitions)
        if wanted.partition >= count:
            raise InvalidRequest(
                f"topic {wanted.topic!r} has partitions 0 to {count - 1}, not {wanted.partition}"
            )
    producer: Producer | None = None
    try:
        for burst in _kept(client, files, wanted) if wanted.keep_partitions else _bursts(files, wanted):
            # Not before there is something to send: it makes the topic.
            producer = producer or _producer(client, wanted, sent)
            for record, partition in burst:
                producer.add(record, partition)
            producer.flush()
    except KeyboardInterrupt:
        if producer is not None:
            producer.flush()
    except MainstemError as error:
        if producer is not None and isinstance(error, InvalidRecord):
            producer.flush()  # what came before it, so that the rest can be sent once that line is mended
        if counts:
            remark(f"{sum(counts.values()):,} sent to {wanted.topic} before that")
        raise
    total = sum(counts.values())
    if as_json:
        emit_record({"topic": wanted.topic, "sent": total, "partitions": counts}, as_json=True)
    else:
        remark(f"{total:,} sent to {wanted.topic}")


def _check(wish: Wish) -> None:
    if wish.key is not None and wish.key_separator is not None:
        raise click.UsageError("--key and --key-separator contradict each other.")
    if wish.keep_partitions and wish.input_format != "json":
        raise click.UsageError("--keep-partitions is for --input json.")
    if wish.keep_partitions and wish.partition is not None:
        raise click.UsageError("--keep-partitions and --partition contradict each other.")


def _producer(client: Client, wish: Wish, sent: Callable[[TopicPartition, int, int], None]) -> Producer:
    """Makes the topic if it is not there."""
    from mainstem.client.admin import create_topic
    from mainstem.client.producing import Producer

    is_new = client.cluster([wish.topic]).topics[wish.topic].error_code == UNKNOWN_TOPIC
    try:
        made = Producer(
            client,
            wish.topic,
            codec=CODECS[wish.compression],
            acks={"all": -1, "1": 1, "0": 0}[wish.acks],
            sent=sent,
        )
    except BrokerRefused as refused:
        if refused.code == INVALID_TOPIC:
            create_topic(client, wish.topic, dry_run=True)  # refused as well, and says why
        raise
    if is_new:
        remark(f"made topic {wish.topic}")
    return made


def _kept(client: Client, files: tuple[str, ...], wish: Wish) -> Iterator[Burst]:
    """All messages, once it is sure that the topic has the partitions they name."""
    every = [one for burst in _bursts(files, wish) for one in burst]
    named = [partition for _, partition in every if partition is not None]
    if named and min(named) < 0:
        raise InvalidRequest(f"there is no partition {min(named)}")
    needed = max(named, default=-1) + 1
    topic = client.cluster([wish.topic]).topics[wish.topic]
    if topic.error_code == UNKNOWN_TOPIC and needed:
        raise UnknownTopic(
            f"there is no topic {wish.topic!r}: mainstem topic create {wish.topic} -p {needed}"
        )
    if not topic.error_code and needed > len(topic.partitions):
        raise InvalidRequest(
            f"topic {wish.topic!r} has {plural(len(topic.partitions), 'partition')}, "
            f"and a message is for partition {needed - 1}: mainstem topic alter {wish.topic} -p {needed}"
        )
    if every:
        yield iter(every)


Burst = Iterator[tuple[Record, int | None]]


def _bursts(files: tuple[str, ...], wish: Wish) -> Iterator[Burst]:
    """Messages in groups: as many as are there without waiting. Each is sent before the next is read."""
    if not files and sys.stdin.isatty():
        remark(
            "One message per line; Ctrl-D ends."
            if wish.input_format != "file"
            else "Ctrl-D ends the message."
        )
    make = _record_maker(wish)
    for name in files or ("-",):
        with ExitStack() as stack:
            stream: BinaryIO = sys.stdin.buffer if name == "-" else stack.enter_context(open(name, "rb"))
            if wish.input_format == "file":
                yield iter([make(stream.read(), 1)])
                continue
            number = 0
            for lines in _lines(stream.fileno()):
                yield (make(line, at) for at, line in enumerate(lines, number + 1))
                number += len(lines)


def _lines(fd: int) -> Iterator[list[bytes]]:
    """Whole lines without their ends, as soon as they are there: a slow pipe is not held up by a buffer."""
    rest = b""
    while data := os.read(fd, READ_BYTES):
        *whole, rest = (rest + data).split(b"\n")
        while whole and len(data) < READ_BYTES and select.select([fd], [], [], 0)[0]:
            data = os.read(fd, READ_BYTES)  # more is waiting: one round trip for both
            if not data:
                break
            *more, rest = (rest + data).split(b"\n")
            whole += more
            if len(whole) > READ_BYTES // 64:
                break
        if whole:
            yield [line.removesuffix(b"\r") for line in whole]
    if rest:
        yield [rest]


def _record_maker(wish: Wish) -> Callable[[bytes, int], tuple[Record, int | None]]:
    headers: Headers = tuple(
        (name, value.encode()) for name, value in pairs(wish.headers, "--header").items()
    )
    key = None if wish.key is None else wish.key.encode()
    separator = None if wish.key_separator is None else wish.key_separator.encode()

    def from_line(line: bytes, number: int) -> tuple[Record, int | None]:
        own_key, value = key, line
        if separator is not None:
            own_key, found, value = line.partition(separator)
            if not found:
                raise InvalidRecord(f"line {number} has no {wish.key_separator!r} between key and value")
        stored = None if wish.tombstones and not value else value
        return Record(0, _now_ms(), own_key, stored, headers), wish.partition

    def from_json(line: bytes, number: int) -> tuple[Record, int | None]:
        record, partition = record_of_json(line, number, _now_ms())
        own_key = record.key if record.key is not None else key
        made = Record(0, record.timestamp_ms, own_key, record.value, (*record.headers, *headers))
        return made, partition if wish.keep_partitions else wish.partition

    return from_json if wish.input_format == "json" else from_line


def record_of_json(line: bytes, number: int, now_ms: int) -> tuple[Record, int | None]:
    """A JSON object as `consume --json` prints it; a value that is no text is sent as JSON text."""
    try:
        given = json.loads(line)
    except ValueError as error:
        raise InvalidRecord(f"line {number} is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise InvalidRecord(f"line {number} is not a JSON object")
    if unknown := [name for name in given if name not in JSON_FIELDS and name not in JSON_IGNORED]:
        raise InvalidRecord(f"line {number} has a field {unknown[0]!r}; known are {', '.join(JSON_FIELDS)}")
    partition, timestamp_ms = given.get("partition"), given.get("timestamp_ms", now_ms)
    if not isinstance(partition, int | None) or not isinstance(timestamp_ms, int):
        raise InvalidRecord(f"line {number}: partition and timestamp_ms must be whole numbers")
    return Record(
        0,
        timestamp_ms,
        _bytes_of(given, "key", number),
        _bytes_of(given, "value", number),
        _headers_of(given, number),
    ), partition


def _headers_of(given: dict[str, Any], number: int) -> Headers:
    headers = given.get("headers") or []
    if isinstance(headers, dict):
        headers = [{"name": name, "value": value} for name, value in headers.items()]
    if not isinstance(headers, list) or not all(isinstance(one, dict) and "name" in one for one in headers):
        raise InvalidRecord(
            f"line {number}: headers must be an object, or a list of objects with name and value"
        )
    return tuple((str(one["name"]), _bytes_of(one, "value", number)) for one in headers)


def _bytes_of(given: dict[str, Any], name: str, number: int) -> bytes | None:
    encoded = given.get(f"{name}_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (ValueError, TypeError):
            raise InvalidRecord(f"line {number}: {name}_base64 is not base64") from None
    value = given.get(name)
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
