"""`mainstem group`: who reads, how far they are behind, and moving them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from mainstem.cli.connect import client_options, find_topic, no_such_group
from mainstem.cli.groups import Commands, examples
from mainstem.cli.output import (
    Column,
    confirm,
    emit_record,
    emit_rows,
    in_turn,
    json_option,
    listed,
    plural,
    remark,
    yes_option,
)
from mainstem.cli.when import HELP, find_offsets, parse_when
from mainstem.model.errors import GroupNotEmpty, GroupNotFound, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mainstem.client import Client, TopicPartition
    from mainstem.client.groups import Group

NUMBER = "{:,}".format
SHARE = "share"


@click.group(
    "group",
    cls=Commands,
    epilog=examples("mainstem group lag billing", "mainstem group seek billing --to '10m ago' --dry-run"),
)
def command() -> None:
    """Consumer groups and share groups: list, lag, seek, delete."""


@command.command("ls", epilog=examples("mainstem group ls", "mainstem group ls --json | jq -r .group"))
@json_option
@client_options
def ls(as_json: bool, client: Client) -> None:
    """List all groups."""
    from mainstem.client.groups import list_groups

    rows = [{"group": one.id, "state": one.state, "protocol": one.kind} for one in list_groups(client)]
    emit_rows(
        rows,
        [Column(key, key) for key in ("group", "state", "protocol")],
        as_json=as_json,
        empty="No groups.",
    )


@command.command(epilog=examples("mainstem group describe billing"))
@click.argument("name")
@json_option
@client_options
def describe(name: str, as_json: bool, client: Client) -> None:
    """Show a group's members and what each of them reads."""
    group = _find(client, name)
    members = [
        {
            "member": one.id,
            "client": one.client_id,
            "host": one.host,
            "instance": one.instance_id or "",
            "reads": [f"{place.topic}:{place.partition}" for place in sorted(one.assigned)],
        }
        for one in group.members
    ]
    facts = {"group": name, "state": group.state, "assignor": group.protocol}
    if as_json:
        emit_record({**facts, "members": members}, as_json=True)
        return
    emit_record({**facts, "members": len(members)}, as_json=False)
    if members:
        click.echo()
        columns = [Column(key, key) for key in ("member", "client", "host")]
        emit_rows(members, [*columns, Column("reads", "reads", show=" ".join)], as_json=False)


@command.command(
    epilog=examples("mainstem group lag", "mainstem group lag billing", "mainstem group lag billing --json")
)
@click.argument("name", required=False)
@json_option
@client_options
def lag(name: str | None, as_json: bool, client: Client) -> None:
    """How far a group is behind, per partition; without NAME, every group in total."""
    from mainstem.client.groups import list_groups

    if name is None:
        rows = []
        for one in list_groups(client):
            behind = _lag(client, one.id, one.kind == SHARE)
            total = sum(left for _, _, left in behind.values())
            rows.append({"group": one.id, "state": one.state, "partitions": len(behind), "lag": total})
        columns = [Column("group", "group"), Column("state", "state")]
        columns += [Column(key, key, "right", NUMBER) for key in ("partitions", "lag")]
        emit_rows(rows, columns, as_json=as_json, empty="No groups.")
        return
    group = _find(client, name)
    readers = {place: one.client_id or one.id for one in group.members for place in one.assigned}
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "committed": at,
            "end": end,
            "lag": left,
            "member": readers.get(place, ""),
        }
        for place, (at, end, left) in sorted(_lag(client, name, group.is_share).items())
    ]
    columns = [Column("topic", "topic")]
    columns += [Column(key, key, "right", NUMBER) for key in ("partition", "committed", "end", "lag")]
    emit_rows(
        rows, [*columns, Column("member", "member")], as_json=as_json, empty="It has committed nothing."
    )


@command.command(
    epilog=examples(
        "mainstem group seek billing --to earliest --dry-run",
        "mainstem group seek billing --topic orders --to '10m ago'",
        "mainstem group seek billing --topic orders:3 --to 1200 --yes",
        "mainstem group seek billing --to -100          # a hundred messages back in each partition",
    )
)
@click.argument("name")
@click.option("--to", required=True, metavar="WHEN", help=f"Where to go on reading: {HELP}.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:PARTITION]",
    help="Only there. Default: everywhere the group has committed.",
)
@click.option("--dry-run", is_flag=True, help="Show from where to where, and do nothing.")
@yes_option
@json_option
@client_options
def seek(
    name: str, to: str, topics: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool, client: Client
) -> None:
    """Move a group to another place. It must have no members while this is done."""
    is_share = _is_share(client, name)
    current = {place: at for place, (at, _) in _read(client, name, is_share).items()}
    places = _places(client, topics) if topics else list(current)
    if not places:
        _find(client, name)
        raise InvalidRequest(f"group {name!r} has committed nothing: say where with --topic")
    targets = find_offsets(client, places, parse_when(to, round(time.time() * 1000)), current)
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "from": current.get(place),
            "to": offset,
            "change": offset - current[place] if place in current else None,
        }
        for place, offset in sorted(targets.items())
    ]
    columns = [
        Column("topic", "topic"),
        Column("partition", "partition", "right", NUMBER),
        Column("from", "from", "right", lambda value: "" if value is None else NUMBER(value)),
        Column("to", "to", "right", NUMBER),
        Column("change", "change", "right", lambda value: "" if value is None else f"{value:+,}"),
    ]
    emit_rows(rows, columns, as_json=as_json)
    if dry_run:
        busy = _members(client, name)
        hint = f" To move it, stop its {plural(busy, 'member')} first." if busy else ""
        remark(f"Nothing was changed.{hint}")
        return
    _require_empty(client, name)
    confirm(f"move group {name!r} as shown", yes=yes)
    _move(client, name, is_share, targets)
    remark(f"Moved group {name!r}.")


@command.command(epilog=examples("mainstem group delete billing", "mainstem group delete old-1 old-2 --yes"))
@click.argument("names", nargs=-1, required=True)
@yes_option
@json_option
@client_options
def delete(names: tuple[str, ...], yes: bool, as_json: bool, client: Client) -> None:
    """Forget groups and how far they had read."""
    from mainstem.client.groups import delete_group

    for name in names:
        _find(client, name)
    confirm(f"delete {listed('group', names)} and forget what was read", yes=yes)
    with in_turn(names) as each:
        for name in each:
            delete_group(client, name)
            if as_json:
                emit_record({"group": name, "deleted": True}, as_json=True)
            else:
                click.echo(f"{name}: deleted")


def _find(client: Client, name: str) -> Group:
    from mainstem.client.groups import describe_group

    try:
        return describe_group(client, name)
    except GroupNotFound:
        raise no_such_group(client, name) from None


def _require_empty(client: Client, name: str) -> None:
    """A group may be made by a seek, so it need not exist; but nobody may be reading."""
    busy = _members(client, name)
    if busy:
        raise GroupNotEmpty(f"group {name!r} has {plural(busy, 'member')}; stop what reads for it")


def _members(client: Client, name: str) -> int:
    from mainstem.client.groups import describe_group

    try:
        return len(describe_group(client, name).members)
    except GroupNotFound:
        return 0


def _places(client: Client, topics: tuple[str, ...]) -> list[TopicPartition]:
    from mainstem.client import TopicPartition

    places: dict[TopicPartition, None] = {}
    for text in topics:
        name, colon, partition = text.partition(":")
        count = len(find_topic(client, name).partitions)
        if not colon:
            places.update(dict.fromkeys(TopicPartition(name, index) for index in range(count)))
        elif partition.isdigit() and int(partition) < count:
            places[TopicPartition(name, int(partition))] = None
        else:
            raise InvalidRequest(f"topic {name!r} has partitions 0 to {count - 1}, not {partition!r}")
    return list(places)


def _is_share(client: Client, name: str) -> bool:
    from mainstem.client.groups import describe_group

    try:
        return describe_group(client, name).is_share
    except GroupNotFound:
        return False


def _read(client: Client, name: str, is_share: bool) -> dict[TopicPartition, tuple[int, int | None]]:
    """How far the group has read, and its lag where only the broker knows it: a share group has gaps."""
    from mainstem.client.groups import committed_offsets
    from mainstem.client.share_groups import share_progress

    if is_share:
        progress = share_progress(client, name)
        return {place: (one.start, one.lag if one.lag >= 0 else None) for place, one in progress.items()}
    return {place: (at, None) for place, at in committed_offsets(client, name).items()}


def _move(client: Client, name: str, is_share: bool, targets: Mapping[TopicPartition, int]) -> None:
    from mainstem.client.groups import commit_offsets
    from mainstem.client.share_groups import start_share_group

    (start_share_group if is_share else commit_offsets)(client, name, targets)


def _lag(client: Client, name: str, is_share: bool) -> dict[TopicPartition, tuple[int, int, int]]:
    """(read so far, end, lag) where the topic still exists. What was trimmed is nobody's lag."""
    read = _read(client, name, is_share)
    known = client.cluster({place.topic for place in read}).topics
    there = {topic.name for topic in known.values() if not topic.error_code}
    bounds = client.bounds(sorted(there))
    return {
        place: (at, bounds[place][1], bounds[place][1] - max(at, bounds[place][0]) if left is None else left)
        for place, (at, left) in read.items()
        if place in bounds
    }
