"""The job `sync`: a topic and a database table.

To PostgreSQL by upserts, from it by a column that grows; to any other database by JDBC.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainstem.model.errors import InvalidRequest, NotSupported
from mainstem.pipeline.dead_topics import NONE, DeadTopics, of_topics
from mainstem.pipeline.jobs import Job, JobOption, JobRun
from mainstem.pipeline.jobs.sync_address import check_url, from_environment

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

FORMATS = ("json", "csv", "text")
OPTIONS = (
    JobOption("topic", "the topic", required=True),
    JobOption("table", "the table; schema.table for one of another schema", required=True),
    JobOption("direction", "to the table or from it", default="to"),
    JobOption("url", "postgresql://user@host/database; $NAME is taken from the environment"),
    JobOption("key", "columns that tell rows apart; to: rows are updated by them, from: keys of records"),
    JobOption("patience", "seconds for which a database that is away is waited for", default="120"),
    JobOption("max.records", "most records of one batch", default="100000"),
    JobOption("format", f"to: how values are written, {', '.join(FORMATS)}", default="json"),
    JobOption("schema", "to: fields of values, as in 'id BIGINT, name STRING'; json is looked at without it"),
    JobOption("delimiter", "to: of csv", default=","),
    JobOption("deletes", "to: a null value deletes the row that the record's key names", default="true"),
    JobOption("create", "to: make the table if it is missing", default="true"),
    JobOption("dead", "to: topic for what the table refuses; by default TOPIC.dead"),
    JobOption("starting", "to: where to begin in the topic, earliest or latest", default="earliest"),
    JobOption("column", "from: the column that grows: a number from a sequence, or the time of a change"),
    JobOption("columns", "from: columns that values have; all without it"),
    JobOption("settle", "from: seconds that a row rests, for those that come late", default="1"),
    JobOption("state", "from: the topic that keeps how far it is; by default NAME.sync-state"),
    JobOption("jdbc.url", "to: any other database, instead of url; rows are only added"),
    JobOption("jdbc.driver", "to: the driver's class, whose jar you give to Spark"),
    JobOption("jdbc.user", "to: who logs in"),
    JobOption("jdbc.password", "to: its password; $NAME is taken from the environment"),
)


def check(options: Mapping[str, str]) -> None:
    _one_of(options, "direction", ("to", "from"))
    _one_of(options, "format", FORMATS)
    _one_of(options, "starting", ("earliest", "latest"))
    for name in ("deletes", "create"):
        _one_of(options, name, ("true", "false"))
    for name, least in (("patience", 0), ("max.records", 1), ("settle", 0)):
        if not options[name].isdecimal() or int(options[name]) < least:
            raise InvalidRequest(f"{name} is a number from {least} on, not {options[name]!r}")
    if bool(options.get("url")) == bool(options.get("jdbc.url")):
        raise InvalidRequest("give url, of PostgreSQL, or jdbc.url: one of them")
    if options.get("url"):
        check_url(from_environment(options["url"], "url"))
    if options["direction"] == "to":
        _check_to(options)
    else:
        _check_from(options)


def _check_to(options: Mapping[str, str]) -> None:
    if options.get("column"):
        raise InvalidRequest("column is for direction = 'from'")
    if options.get("jdbc.url"):
        if not options.get("jdbc.driver"):
            raise InvalidRequest("jdbc.driver is missing: the class of the driver for jdbc.url")
        if options.get("key"):
            raise NotSupported("rows are only added by JDBC: no key; updates need url, of PostgreSQL")
    if not options.get("schema") and options["format"] == "csv":
        raise InvalidRequest("schema is missing: the fields of a csv value, as in 'id BIGINT, at DATE'")


def _check_from(options: Mapping[str, str]) -> None:
    if options.get("jdbc.url"):
        raise NotSupported("a table is read from PostgreSQL only: give url instead of jdbc.url")
    if not options.get("column"):
        raise InvalidRequest("column is missing: the one that grows with every change, as id or updated_at")
    if options.get("state") == options["topic"]:
        raise InvalidRequest("state is the topic of the rows: it needs a topic of its own")
    if options["format"] != "json":
        raise InvalidRequest("rows become json, no other format")
    if options["starting"] != "earliest":
        raise NotSupported("a table is read from its first row on")


def _one_of(options: Mapping[str, str], name: str, known: tuple[str, ...]) -> None:
    if options[name] not in known:
        raise InvalidRequest(f"{name} is one of {', '.join(known)}, not {options[name]!r}")


def dead_topics(options: Mapping[str, str]) -> DeadTopics:
    if options["direction"] != "to":
        return NONE
    return of_topics([options["topic"]], given=options.get("dead", ""))


def start(run: JobRun) -> list[StreamingQuery]:
    if run.options["direction"] == "from":
        from mainstem.pipeline.jobs.sync_from import from_postgres

        return from_postgres(run)
    from mainstem.pipeline.jobs.sync_to import to_jdbc, to_postgres

    return to_jdbc(run) if run.options.get("jdbc.url") else to_postgres(run)


JOB = Job(
    "keep a topic and a database table in step: to it by upserts, from it by a column that grows",
    OPTIONS,
    start,
    check,
    dead_topics,
    reads=lambda options: (options["topic"],) if options["direction"] == "to" else (),
    makes=lambda options, topic: options["direction"] == "from" and topic == options["topic"],
)
