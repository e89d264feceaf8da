"""`mainstem topic`: list, create, describe, alter, trim and delete topics."""

from __future__ import annotations

import base64
import fnmatch
import time
from typing import TYPE_CHECKING

import click

from mainstem.cli.connect import client_options, find_topic, pairs
from mainstem.cli.groups import Commands, examples
from mainstem.cli.output import (
    NO_WAY_BACK,
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
from mainstem.cli.when import HELP, When, find_offsets, parse_when
from mainstem.model.errors import BrokerRefused, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mainstem.client import Client
    from mainstem.client.admin import ConfigValue

NOT_AUTHORIZED, TOPIC_EXISTS, POLICY_VIOLATION = 29, 36, 44
NUMBER = "{:,}".format


@click.group(
    "topic", cls=Commands, epilog=examples("mainstem topic ls", "mainstem topic create orders --partitions 4")
)
def command() -> None:
    """List, create, describe, alter and delete topics."""


@command.command(
    "ls",
    epilog=examples(
        "mainstem topic ls", "mainstem topic ls 'orders*'", "mainstem topic ls --json | jq -r .topic"
    ),
)
@click.argument("pattern", default="*")
@click.option("--internal", is_flag=True, help="Also those that the broker made for itself.")
@click.option("--quick", is_flag=True, help="Do not count messages.")
@json_option
@client_options
def ls(pattern: str, internal: bool, quick: bool, as_json: bool, client: Client) -> None:
    """List topics whose name matches PATTERN (like *.log in a shell).

    Messages are counted by their offsets, from the first one to the next one. Where transactions' markers or
    compaction have left holes, there are fewer.
    """
    topics = [
        topic
        for name, topic in sorted(client.cluster().topics.items())
        if (internal or not topic.is_internal) and fnmatch.fnmatchcase(name, pattern)
    ]
    bounds = {} if quick else client.bounds(topic.name for topic in topics)
    counts: dict[str, int] = {}
    for place, (first, end) in bounds.items():
        counts[place.topic] = counts.get(place.topic, 0) + end - first
    rows = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            **({} if quick else {"messages": counts.get(topic.name, 0)}),
            "internal": topic.is_internal,
        }
        for topic in topics
    ]
    columns = [Column("topic", "topic"), Column("partitions", "partitions", "right", NUMBER)]
    columns += [] if quick else [Column("messages", "messages", "right", NUMBER)]
    emit_rows(rows, columns, as_json=as_json, empty="No topics.")


@command.command(
    epilog=examples(
        "mainstem topic create orders --partitions 4",
        "mainstem topic create users --config cleanup.policy=compact --config retention.ms=-1",
    )
)
@click.argument("names", nargs=-1, required=True)
@click.option("--partitions", "-p", type=click.IntRange(min=1), help="How many. Default: the broker's.")
@click.option("--config", "configs", multiple=True, metavar="NAME=VALUE", help="A topic config of Kafka's.")
@click.option("--if-missing", is_flag=True, help="No error if it exists.")
@click.option("--dry-run", is_flag=True, help="Only check whether it would work.")
@json_option
@client_options
def create(
    names: tuple[str, ...],
    partitions: int | None,
    configs: tuple[str, ...],
    if_missing: bool,
    dry_run: bool,
    as_json: bool,
    client: Client,
) -> None:
    """Create topics."""
    from mainstem.client.admin import BROKER_DEFAULT, create_topic

    values = pairs(configs, "--config")
    any_made = False
    with in_turn(names) as each:
        for name in each:
            made = True
            count = partitions or BROKER_DEFAULT
            try:
                count = create_topic(client, name, count, values, dry_run=dry_run)
            except BrokerRefused as refused:
                if not if_missing or refused.code != TOPIC_EXISTS:
                    raise
                made, count = False, len(client.topic(name).partitions)
            any_made |= made
            fact = {"topic": name, "partitions": count, "created": made and not dry_run}
            if as_json:
                emit_record(fact, as_json=True)
            else:
                done = "would be created" if dry_run else "created" if made else "exists"
                click.echo(f"{name}: {done}, {plural(count, 'partition')}")
            if partitions and partitions != count and not made:
                more = (
                    f" To add some: mainstem topic alter {name} -p {partitions}" if partitions > count else ""
                )
                remark(f"{name} has {plural(count, 'partition')}, not {partitions:,}.{more}")
    _remark_durability(values if any_made else {})


@command.command(
    epilog=examples("mainstem topic describe orders", "mainstem topic describe orders --configs")
)
@click.argument("name")
@click.option("--configs", "all_configs", is_flag=True, help="Every config, also those with default values.")
@json_option
@client_options
def describe(name: str, all_configs: bool, as_json: bool, client: Client) -> None:
    """Show a topic: its partitions and what is set for it.

    Messages are counted by their offsets, from the first one to the next one. Where transactions' markers or
    compaction have left holes, there are fewer.
    """
    topic = find_topic(client, name)
    bounds = client.bounds([name])
    told = _configs(client, name)
    configs = [one for one in told or () if all_configs or one.source == "topic"]
    partitions = [
        {
            "partition": place.partition,
            "first": first,
            "next": end,
            "messages": end - first,
            "leader": topic.partitions[place.partition].leader,
        }
        for place, (first, end) in bounds.items()
    ]
    facts = {
        "topic": name,
        "id": base64.urlsafe_b64encode(topic.id).decode().rstrip("="),  # as Kafka's tools print it
        "internal": topic.is_internal,
        "messages": sum(end - first for first, end in bounds.values()),
    }
    if as_json:
        settings = [{"name": one.name, "value": one.value, "source": one.source} for one in configs]
        shown = None if told is None else settings
        emit_record({**facts, "partitions": partitions, "configs": shown}, as_json=True)
        return
    emit_record(
        {**facts, "messages": NUMBER(facts["messages"]), "partitions": len(partitions)}, as_json=False
    )
    click.echo()
    numbers = [
        Column(key, key, "right", NUMBER) for key in ("partition", "first", "next", "messages", "leader")
    ]
    emit_rows(partitions, numbers, as_json=False)
    if configs:
        click.echo()
        rows = [{"name": one.name, "value": one.value, "source": one.source} for one in configs]
        emit_rows(rows, [Column(key, key) for key in ("name", "value", "source")], as_json=False)


@command.command(
    epilog=examples(
        "mainstem topic alter orders --partitions 8",
        "mainstem topic alter orders --set retention.ms=3600000 --unset cleanup.policy",
    )
)
@click.argument("name")
@click.option("--partitions", "-p", type=click.IntRange(min=1), help="Grow to so many. They never shrink.")
@click.option("--set", "values", multiple=True, metavar="NAME=VALUE", help="Set a config.")
@click.option("--unset", multiple=True, metavar="NAME", help="Give a config its default back.")
@json_option
@client_options
def alter(
    name: str,
    partitions: int | None,
    values: tuple[str, ...],
    unset: tuple[str, ...],
    as_json: bool,
    client: Client,
) -> None:
    """Give a topic more partitions, or other configs."""
    from mainstem.client import admin

    if not partitions and not values and not unset:
        raise click.UsageError("Nothing to alter: give --partitions, --set or --unset.")
    find_topic(client, name)
    if values or unset:
        admin.change_configs(client, admin.TOPIC, name, pairs(values, "--set"), unset)
    if partitions:
        admin.add_partitions(client, name, partitions)
    topic = client.topic(name)
    told = _configs(client, name)
    own = None if told is None else {one.name: one.value for one in told if one.source == "topic"}
    if as_json:
        fact = {"topic": name, "partitions": len(topic.partitions), "configs": own, "unset": list(unset)}
        emit_record(fact, as_json=True)
    else:
        facts = [plural(len(topic.partitions), "partition")]
        facts += [f"{key}={value}" for key, value in (own or {}).items()]
        facts += [] if own or told is None else ["no configs of its own"]
        facts += [f"{key} is unset" for key in unset]
        click.echo(f"{name}: {', '.join(facts)}")
    _remark_durability(pairs(values, "--set"))


@command.command(
    epilog=examples(
        "mainstem topic trim orders --before '7d ago' --dry-run",
        "mainstem topic trim orders --before latest --yes     # empty it",
    )
)
@click.argument("name")
@click.option("--before", required=True, metavar="WHEN", help=f"Where the topic shall begin: {HELP}.")
@click.option("--partition", "-p", "only", type=int, multiple=True, help="Only this partition.")
@click.option("--dry-run", is_flag=True, help="Show what would go, and do nothing.")
@yes_option
@json_option
@client_options
def trim(
    name: str, before: str, only: tuple[int, ...], dry_run: bool, yes: bool, as_json: bool, client: Client
) -> None:
    """Delete a topic's oldest messages. Its cleanup.policy must name delete."""
    from mainstem.client import TopicPartition
    from mainstem.client.admin import delete_records

    topic = find_topic(client, name)
    chosen = only or tuple(range(len(topic.partitions)))
    places = [TopicPartition(name, partition) for partition in chosen]
    if unknown := [place for place in places if not 0 <= place.partition < len(topic.partitions)]:
        raise InvalidRequest(f"topic {name!r} has no partition {unknown[0].partition}")
    if _is_only_compacted(client, name):
        raise _not_trimmable(name)
    now_ms = round(time.time() * 1000)
    when = parse_when(before, now_ms)
    bounds = client.bounds([name])
    if _is_behind_the_end(when, max(bounds[place][1] for place in places), now_ms):
        raise InvalidRequest(f"{before} is behind the end of {name}: say latest to empty it")
    targets = find_offsets(client, places, when)
    rows = [
        {"partition": place.partition, "first": bounds[place][0], "to": to, "deleted": to - bounds[place][0]}
        for place, to in targets.items()
    ]
    total = sum(to - bounds[place][0] for place, to in targets.items())
    done = "to delete" if dry_run or not yes else "deleted"
    titles = {"partition": "partition", "first": "first", "to": "to", "deleted": done}
    columns = [Column(key, title, "right", NUMBER) for key, title in titles.items()]
    if dry_run or not total:
        emit_rows(rows, columns, as_json=as_json)
        remark("Nothing was changed.")
        return
    shown_first = not yes and not as_json  # to who is asked; a result is told once it is one
    if shown_first:
        emit_rows(rows, columns, as_json=False)
    confirm(f"delete {plural(total, 'message')} of topic {name!r}", NO_WAY_BACK, yes=yes)
    try:
        delete_records(client, targets)
    except BrokerRefused as refused:
        if refused.code != POLICY_VIOLATION:
            raise
        raise _not_trimmable(name) from refused
    if not shown_first:
        emit_rows(rows, columns, as_json=as_json)
    remark(f"Deleted {plural(total, 'message')}.")


@command.command(epilog=examples("mainstem topic delete orders", "mainstem topic delete old-1 old-2 --yes"))
@click.argument("names", nargs=-1, required=True)
@yes_option
@json_option
@client_options
def delete(names: tuple[str, ...], yes: bool, as_json: bool, client: Client) -> None:
    """Delete topics with everything in them."""
    from mainstem.client.admin import delete_topic

    counts = dict.fromkeys(names, 0)
    for name in counts:
        find_topic(client, name)
    for place, (first, end) in client.bounds(counts).items():
        counts[place.topic] += end - first
    total = plural(sum(counts.values()), "message")
    confirm(f"delete {listed('topic', list(counts))} with {total}", NO_WAY_BACK, yes=yes)
    with in_turn(counts) as each:
        for name in each:
            delete_topic(client, name)
            if as_json:
                emit_record({"topic": name, "messages": counts[name], "deleted": True}, as_json=True)
            else:
                click.echo(f"{name}: deleted")


def _is_behind_the_end(when: When, end: int, now_ms: int) -> bool:
    """Whoever mistypes a place must not lose everything by it."""
    return (
        (when.shift is not None and when.shift > 0)
        or (when.offset is not None and when.offset > end)
        or (when.time_ms is not None and when.time_ms > now_ms)
    )


def _is_only_compacted(client: Client, name: str) -> bool:
    """False for who may not see its configs: the broker refuses then what cannot be."""
    from mainstem.client import admin

    try:
        configs = admin.configs_of(client, admin.TOPIC, name)
    except BrokerRefused as refused:
        if refused.code != NOT_AUTHORIZED:
            raise
        return False
    policies = [one.value or "" for one in configs if one.name == "cleanup.policy"]
    return any("compact" in policy and "delete" not in policy for policy in policies)


def _not_trimmable(name: str) -> InvalidRequest:
    return InvalidRequest(
        f"topic {name!r} is only compacted, nothing of it may be deleted: trim needs cleanup.policy=delete, "
        f"or compact,delete (mainstem topic alter {name} --set cleanup.policy=compact,delete)"
    )


def _configs(client: Client, name: str) -> list[ConfigValue] | None:
    """None, with a remark, for who may see the topic but not its configs."""
    from mainstem.client import admin

    try:
        return admin.configs_of(client, admin.TOPIC, name)
    except BrokerRefused as refused:
        if refused.code != NOT_AUTHORIZED:
            raise
        remark(f"You may not see the configs of {name}: that needs the right describe-configs.")
        return None


def _remark_durability(values: Mapping[str, str]) -> None:
    if values.get("durability") == "os":
        remark("durability=os: messages are acknowledged before they are on disk; a power cut may take them.")
