"""`mainstem message`: one message with everything about it, and finding some."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from mainstem.cli.connect import client_options, find_topic
from mainstem.cli.formats import as_object, make_format
from mainstem.cli.groups import Commands, examples
from mainstem.cli.output import emit_record, json_option, plural, progress, remark
from mainstem.cli.when import HELP, find_offsets, parse_when
from mainstem.model.errors import ResourceNotFound, UnknownTopic

if TYPE_CHECKING:
    from mainstem.client import Client
    from mainstem.model.records import Record


@click.group(
    "message",
    cls=Commands,
    epilog=examples("mainstem message show orders 0 1234", "mainstem message find orders --key c-0042"),
)
def command() -> None:
    """Look at single messages."""


@command.command(
    epilog=examples("mainstem message show orders 0 1234", "mainstem message show orders 0 1234 --json")
)
@click.argument("topic")
@click.argument("partition", type=int)
@click.argument("offset", type=int)
@json_option
@client_options
def show(topic: str, partition: int, offset: int, as_json: bool, client: Client) -> None:
    """Show one message: key, value, headers, and the batch it came in."""
    from mainstem.client import TopicPartition
    from mainstem.model.batch import iter_batches
    from mainstem.model.compression import CODEC_NAMES

    place = TopicPartition(topic, partition)
    count = len(find_topic(client, topic).partitions)
    if not 0 <= partition < count:
        raise UnknownTopic(f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}")
    first, end = client.bounds([topic])[place]
    if not first <= offset < end:
        held = f"holds offsets {first} to {end - 1}" if end > first else "is empty"
        raise ResourceNotFound(f"{place} {held}, not {offset}")
    (fetched,) = client.fetch({place: offset}, max_wait_ms=0)
    fetched.check()
    record = next((one for one in fetched.decoded() if one.offset == offset), None)
    header = next((one for _, one in iter_batches(fetched.records) if one.last_offset >= offset), None)
    if record is None or header is None:
        what = (
            "a transaction's marker" if header is not None and header.is_control else "gone: compacted away"
        )
        raise ResourceNotFound(f"{place} offset {offset} is {what}")
    batch: dict[str, object] = {
        "first_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "bytes": header.size,
        "compression": CODEC_NAMES.get(header.codec, str(header.codec)),
        "timestamps": "append" if header.is_log_append_time else "create",
        "leader_epoch": header.leader_epoch,
    }
    if header.has_producer_id:
        batch |= {
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "first_sequence": header.base_sequence,
            "transactional": header.is_transactional,
        }
    facts = as_object(topic, partition, record)
    if as_json:
        emit_record({**facts, "batch": batch}, as_json=True)
        return
    headers = facts.pop("headers")
    assert isinstance(headers, list)
    shown = {name: "(none)" if value is None else value for name, value in facts.items()}
    shown |= {f"header {one['name']}": one.get("value", one.get("value_base64")) for one in headers}
    emit_record({**shown, **{f"batch {name}": value for name, value in batch.items()}}, as_json=False)


@command.command(
    epilog=examples(
        "mainstem message find orders --key c-0042",
        "mainstem message find orders --contains espresso --from '1h ago' -n 10",
        "mainstem message find orders --header trace=7f3a --json",
    )
)
@click.argument("topic")
@click.option("--key", help="The whole key.")
@click.option("--contains", help="Text within the value.")
@click.option("--header", metavar="NAME=VALUE", help="A header with this value.")
@click.option(
    "--from", "start", default="earliest", show_default=True, metavar="WHEN", help=f"Where to begin: {HELP}."
)
@click.option("-n", "limit", type=click.IntRange(min=1), help="Stop after so many.")
@json_option
@client_options
def find(
    topic: str,
    key: str | None,
    contains: str | None,
    header: str | None,
    start: str,
    limit: int | None,
    as_json: bool,
    client: Client,
) -> None:
    """Find messages by key, text or header. Reads the topic: the further back, the longer it takes."""
    from mainstem.cli.reading import Reader
    from mainstem.client import TopicPartition

    matches = _matcher(key, contains, header)
    places = [TopicPartition(topic, one.index) for one in find_topic(client, topic).partitions]
    starts = find_offsets(client, places, parse_when(start, round(time.time() * 1000)))
    ends = {place: end for place, (_, end) in client.bounds([topic]).items()}
    reader = Reader(client, starts, ends)
    template = "{topic}:{partition}:{offset}  {time}  {key}  {value}"
    line_of = make_format("json" if as_json else template, terminal=True)
    out = sys.stdout.buffer
    found, total = 0, reader.left
    with progress(f"Searching {plural(total, 'message')}", total, beside_results=True) as advance:
        for place, record in reader.records():
            advance(1)
            if matches(record):
                out.write(line_of(place.topic, place.partition, record))
                out.flush()
                found += 1
                if found == limit:
                    break
    remark(
        f"Found {found:,} in {plural(total, 'message')}."
        if found != limit
        else f"Found {found:,}, stopped there."
    )


def _matcher(key: str | None, contains: str | None, header: str | None) -> Callable[[Record], bool]:
    if key is None and contains is None and header is None:
        raise click.UsageError("What to look for? Give --key, --contains or --header.")
    name, equals, value = (header or "").partition("=")
    if header is not None and not equals:
        raise click.UsageError(f"--header {header}: must be NAME=VALUE")
    pair = (name, value.encode())
    key_bytes = None if key is None else key.encode()
    part = None if contains is None else contains.encode()

    def matches(record: Record) -> bool:
        return (
            (key_bytes is None or record.key == key_bytes)
            and (part is None or (record.value is not None and part in record.value))
            and (header is None or pair in record.headers)
        )

    return matches
