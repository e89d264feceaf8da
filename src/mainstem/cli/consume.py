"""`mainstem consume`: print messages, all of them or as they come."""

from __future__ import annotations

import contextlib
import signal
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
    from collections.abc import Iterable, Iterator, Mapping

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
    "--from",
    "start",
    metavar="WHEN",
    help=f"Where to begin: {HELP}. Default: earliest; with -f: latest; with --group: where it is.",
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
    commits = None if wanted.group is None else Commits(client, wanted.group)
    reader = Reader(client, starts, ends, committed=committed, after_fetch=commits or (lambda: None))
    if commits is not None:
        commits.positions = reader.positions
    with _ended_by_sigterm():
        _print_all(chain(last, reader.records()), show, wanted, commits)


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


class Commits:
    """Of what was printed; called whenever some was, or nothing came for a moment."""

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group
        self._next_s = time.monotonic() + COMMIT_EVERY_S
        self._done: dict[TopicPartition, int] = {}
        self.positions: Mapping[TopicPartition, int] = {}  # where reading goes on

    def __call__(self) -> None:
        if time.monotonic() >= self._next_s:
            self.finish()
            self._next_s = time.monotonic() + COMMIT_EVERY_S

    def finish(self) -> None:
        from mainstem.client.groups import commit_offsets

        sys.stdout.buffer.flush()  # committed means printed
        if self._done != self.positions:
            commit_offsets(self._client, self._group, self.positions)
            self._done = dict(self.positions)


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """As by Ctrl-C: what was printed is committed."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _print_all(
    records: Iterable[tuple[TopicPartition, Record]], show: Any, wish: Wish, commits: Commits | None
) -> None:
    out = sys.stdout.buffer
    count = 0
    try:
        for place, record in records:
            out.write(show(place.topic, place.partition, record))
            count += 1
            if wish.follow or wish.limit is not None:
                out.flush()
            if commits is not None:
                commits()
            if count == wish.limit:
                break
    except KeyboardInterrupt:
        pass
    out.flush()
    if commits is not None:
        commits.finish()
    if sys.stdout.isatty():
        remark(plural(count, "message"))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
