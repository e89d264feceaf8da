"""Share groups with the Java client, and with Kafka's own tools for them."""

from __future__ import annotations

import json

import pytest
from java_kit import Java, compiled

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


def test_java_members_accept_release_and_renew_and_nothing_is_done_twice(house, broker, class_path, tmp_path):
    house.make_topic("to-share", 2)
    house.send("to-share", [f"v{n}" for n in range(200)], keys=[str(n % 16) for n in range(200)])
    java = Java(compiled("Shares", class_path, tmp_path), tmp_path)
    said = java("Shares", broker.kafka, "sharers", "to-share", 200)
    assert said.split("\n")[:7] == [
        "renewed true",
        "seen 200",
        "twice 0",
        "listed true",
        "described Empty 0",
        "done with 200",
        "deleted",
    ]


def test_kafkas_tools_configure_read_show_reset_and_delete_a_share_group(house, broker, java):
    house.make_topic("tooled")
    house.send("tooled", [f"v{n}" for n in range(50)])
    where = ("--bootstrap-server", broker.kafka)
    configs = ("kafka.admin.ConfigCommand", *where, "--entity-type", "groups", "--entity-name", "tools")
    java(*configs, "--alter", "--add-config", "share.auto.offset.reset=earliest")
    assert "share.auto.offset.reset=earliest" in java(*configs, "--describe")
    read = java(
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        *(*where, "--topic", "tooled", "--group", "tools", "--max-messages", 30, "--timeout-ms", 30_000),
    )
    assert read.split() == [f"v{n}" for n in range(30)]
    assert "tools" in java(TOOL, *where, "--list").split()
    shown = java(TOOL, *where, "--describe", "--group", "tools")
    assert ["tools", "tooled", "0", "30", "20"] in [line.split() for line in shown.splitlines()]
    group = (*where, "--group", "tools")
    java(TOOL, *group, "--reset-offsets", "--topic", "tooled", "--to-earliest", "--execute")
    again = java(
        "org.apache.kafka.tools.VerifiableShareConsumer",
        *(*where, "--topic", "tooled", "--group-id", "tools", "--max-messages", 50),
    )
    events = [json.loads(line) for line in again.splitlines() if line.startswith("{")]
    assert sum(one["count"] for one in events if one["name"] == "offsets_acknowledged") == 50
    assert "Successful" in java(TOOL, *group, "--delete-offsets", "--topic", "tooled")
    assert "was successful" in java(TOOL, *group, "--delete")
