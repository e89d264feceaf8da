"""`mainstem consume`: print messages, all of them or as they come."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from mainstem.cli.connect import client_options, find_topic
from mainstem.cli.formats import NAMES, make_format
from mainstem.cli.groups import examples
from mainstem.cli.output import json_option, plural, remark
from mainstem.cli.when import HELP, find_offsets, parse_when
from mainstem.model.errors import GroupNotEmpty, GroupNotFound, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mainstem.cli.reading import Reader
    from mainstem.client import Client, TopicPartition
    from mainstem.model.records import Record

COMMIT_EVERY_S = 1.0


@dataclass(frozen=True)
class Wish:
    topics: tuple[str, ...]
    start: str | None
    until: str | None
    tail: int | None
    follow: bool
    partitions: tuple[int, ...]
    limit: int | None
    group: str | None
    uncommitted: bool


@click.command(
    "consume",
    epilog=examples(
        "mainstem consume orders                          # everything there is, then end",
        "mainstem consume orders -f                       # new messages as they come",
        "mainstem consume orders --tail 10 -f             # the last ten, then new ones",
        "mainstem consume orders --from '10m ago' --until '5m ago' --json",
        "mainstem consume orders --format '{partition}:{offset} {key} = {value}'",
        "mainstem consume orders --group billing -n 100   # go on where the group is, and commit",
    ),
)
@click.argument("topics", nargs=-1, required=True)
@click.option(
    "--from", "start", metavar="WHEN", help=f"Where to begin: {HELP}. Default: earliest; with -f: latest."
)
@click.option("--until", metavar="WHEN", help="Where to end: before that. Default: what is there now.")
@click.option(
    "--tail",
    type=click.IntRange(min=1),
    metavar="N",
    help="Only the N newest there are, by their timestamps.",
)
@click.option("--follow", "-f", is_flag=True, help="Do not end: print what comes.")
@click.option("--partition", "-p", "partitions", type=int, multiple=True, help="Only this partition.")
@click.option("-n", "limit", type=click.IntRange(min=1), help="End after so many messages.")
@click.option("--group", "-g", help="Begin where this group is, and commit as messages are printed.")
@click.option("--uncommitted", is_flag=True, help="Also messages of open and aborted transactions.")
@click.option(
    "--format", "wish_format", default="text", metavar="FORMAT", help=f"{', '.join(NAMES)}, or a template."
)
@click.option(
    "--key-separator", "-K", metavar="TEXT", help="Print keys too, with this after them (format text)."
)
@json_option
@client_options
def command(client: Client, as_json: bool, wish_format: str, key_separator: str | None, **wish: Any) -> None:
    """Print the messages of TOPICS."""
    from mainstem.cli.reading import Reader, newest

    wanted = Wish(**wish)
    show = make_format(
        "json" if as_json else wish_format, key_separator=key_separator, terminal=sys.stdout.isatty()
    )
    _check(wanted)
    places = _places(client, wanted)
    committed = not wanted.uncommitted
    last: list[tuple[TopicPartition, Record]] = []
    if wanted.tail is not None:
        last, starts = newest(client, _bounds(client, wanted, places), wanted.tail, committed=committed)
        if not wanted.follow:
            starts = {}
    else:
        starts = _starts(client, wanted, places)
    ends = None if wanted.follow else _ends(client, wanted, places)
    if wanted.group is not None:
        _require_alone(client, wanted.group)
    reader = Reader(client, starts, ends, committed=committed)
    _print_all(client, reader, chain(last, reader.records()), show, wanted)


def _check(wish: Wish) -> None:
    if wish.follow and wish.until:
        raise click.UsageError("--follow and --until contradict each other.")
    if wish.tail is not None and (wish.start or wish.group):
        raise click.UsageError("--tail says where to begin: leave out --from and --group.")


def _places(client: Client, wish: Wish) -> list[TopicPartition]:
    from mainstem.client import TopicPartition

    places = []
    for name in dict.fromkeys(wish.topics):
        count = len(find_topic(client, name).partitions)
        if wrong := [one for one in wish.partitions if not 0 <= one < count]:
            raise InvalidRequest(f"topic {name!r} has partitions 0 to {count - 1}, not {wrong[0]}")
        places += [TopicPartition(name, one) for one in wish.partitions or range(count)]
    return places


def _starts(client: Client, wish: Wish, places: list[TopicPartition]) -> dict[TopicPartition, int]:
    word = wish.start or ("latest" if wish.follow and wish.group is None else "earliest")
    starts = find_offsets(client, places, parse_when(word, _now_ms()))
    if wish.group is not None and wish.start is None:
        from mainstem.client.groups import committed_offsets

        bounds = client.bounds(dict.fromkeys(wish.topics))
        for place, offset in committed_offsets(client, wish.group).items():
            if place in starts:
                first, end = bounds[place]
                starts[place] = min(max(offset, first), end)
    return starts


def _ends(client: Client, wish: Wish, places: list[TopicPartition]) -> dict[TopicPartition, int]:
    return find_offsets(client, places, parse_when(wish.until or "latest", _now_ms()))


def _bounds(
    client: Client, wish: Wish, places: list[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    firsts = find_offsets(client, places, parse_when("earliest", _now_ms()))
    return {place: (firsts[place], end) for place, end in _ends(client, wish, places).items()}


def _require_alone(client: Client, group: str) -> None:
    """Without members: their partitions and commits would get in each other's way."""
    from mainstem.client.groups import describe_group

    try:
        found = describe_group(client, group)
    except GroupNotFound:
        return
    if found.members:
        busy = plural(len(found.members), "member")
        raise GroupNotEmpty(f"group {group!r} has {busy}; this command reads for a group alone")


def _print_all(
    client: Client,
    reader: Reader,
    records: Iterable[tuple[TopicPartition, Record]],
    show: Any,
    wish: Wish,
) -> None:
    out = sys.stdout.buffer
    count, next_commit_s = 0, time.monotonic() + COMMIT_EVERY_S
    try:
        for place, record in records:
            out.write(show(place.topic, place.partition, record))
            count += 1
            if wish.follow or wish.limit is not None:
                out.flush()
            if wish.group is not None and time.monotonic() >= next_commit_s:
                out.flush()  # committed means printed
                _commit(client, wish.group, reader)
                next_commit_s = time.monotonic() + COMMIT_EVERY_S
            if count == wish.limit:
                break
    except KeyboardInterrupt:
        pass
    out.flush()
    if wish.group is not None:
        _commit(client, wish.group, reader)
    if sys.stdout.isatty():
        remark(plural(count, "message"))


def _commit(client: Client, group: str, reader: Reader) -> None:
    from mainstem.client.groups import commit_offsets

    commit_offsets(client, group, reader.positions)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
