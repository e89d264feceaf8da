"""The Java client itself: transactions with clients of three generations, and the newer group protocol."""

from __future__ import annotations

import pytest
from java_kit import Java, client_jars, compiled

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

# Since 4.0 clients use transaction version 2, with a new epoch for every transaction; older ones the first.
OLDER = ("3.9.1", "2.8.2")


@pytest.mark.parametrize("version", ["current", *OLDER])
def test_java_reads_and_writes_in_transactions(house, broker, class_path, tmp_path, version):
    source, target = f"in-{version}", f"out-{version}"
    house.make_topic(source, 2)
    house.make_topic(target, 2)
    values = [f"value-{number}" for number in range(500)]
    house.send(source, values, keys=[str(number % 10) for number in range(len(values))])
    client = class_path if version == "current" else client_jars(version)
    java = Java(compiled("Transfer", client, tmp_path), tmp_path)
    said = java("Transfer", broker.kafka, source, target, len(values))
    assert "fenced" in said
    assert f"transferred {len(values)}" in said
    assert sorted(value.decode() for _, value in house.read(target, 2)) == sorted(map(str.upper, values))


def test_java_members_share_a_pattern_under_the_newer_group_protocol(house, broker, class_path, tmp_path):
    for name in ("new-one", "new-two"):
        house.make_topic(name, 3)
        house.send(name, [f"{name}-{n}" for n in range(100)], keys=[str(n % 16) for n in range(100)])
    java = Java(compiled("NewGroups", class_path, tmp_path), tmp_path)
    said = java("NewGroups", broker.kafka, "newer", "new-.*", 6, 200)
    assert said.split("\n")[:3] == ["divided 3 3", "inherited 6", "read 200"]
    described = java(
        "org.apache.kafka.tools.GroupsCommand", "--bootstrap-server", broker.kafka, "--list", "--consumer"
    )
    assert "newer" in described
    assert "Consumer" in described
