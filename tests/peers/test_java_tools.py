"""Kafka's own command line tools, as an operator would use them."""

from __future__ import annotations

import json

import pytest
from java_kit import table

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

TOOLS = "org.apache.kafka.tools"
GROUPS = "consumer.group.ConsumerGroupCommand"


@pytest.fixture
def tool(java, broker):
    def run(name, *arguments, **options):
        main = name if name.startswith("kafka.") else f"{TOOLS}.{name}"
        return java(main, "--bootstrap-server", broker.kafka, *arguments, **options)

    return run


def test_topics_are_made_described_grown_listed_and_deleted(tool):
    assert "Created topic tools" in tool(
        "TopicCommand", "--create", "--topic", "tools", "--partitions", 3, "--config", "retention.ms=100000"
    )
    tool("TopicCommand", "--alter", "--topic", "tools", "--partitions", 4)
    described = tool("TopicCommand", "--describe", "--topic", "tools")
    assert "PartitionCount: 4" in described
    assert "retention.ms=100000" in described
    assert "tools" in tool("TopicCommand", "--list").split()
    assert "already exists" in tool("TopicCommand", "--create", "--topic", "tools", fails=True)
    tool("TopicCommand", "--delete", "--topic", "tools")
    assert "tools" not in tool("TopicCommand", "--list").split()


def test_the_console_writes_and_reads_and_offsets_are_looked_up_and_records_deleted(tool, house, tmp_path):
    house.make_topic("console", 1)
    lines = [f"key{number}:value{number}" for number in range(300)]
    given = "\n".join(lines) + "\n"
    parse = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=:"]
    tool("ConsoleProducer", "--topic", "console", *parse, "--compression-codec", "zstd", given=given)
    show = ["--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"]
    read = ["--from-beginning", "--max-messages", len(lines)]
    assert tool("consumer.ConsoleConsumer", "--topic", "console", *show, *read).split() == lines
    assert tool("GetOffsetShell", "--topic", "console").split() == ["console:0:300"]
    assert tool("GetOffsetShell", "--topic", "console", "--time", 0).split() == ["console:0:0"]
    wanted = tmp_path / "delete.json"
    wanted.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": "console", "partition": 0, "offset": 100}]})
    )
    assert "low_watermark: 100" in tool("DeleteRecordsCommand", "--offset-json-file", wanted)
    assert tool("GetOffsetShell", "--topic", "console", "--time", "earliest").split() == ["console:0:100"]


def test_groups_are_described_moved_and_deleted(tool, house):
    house.make_topic("grouped", 1)
    house.send("grouped", [str(number) for number in range(100)])
    group = ["--group", "tools-group"]
    tool("consumer.ConsoleConsumer", "--topic", "grouped", *group, "--from-beginning", "--max-messages", 40)
    row = ["tools-group", "grouped", "0", "40", "100", "60", "-", "-", "-"]
    assert row in table(tool(GROUPS, "--describe", *group))
    assert ["tools-group", "Empty"] in table(tool(GROUPS, "--list", "--state"))
    move = ["--reset-offsets", "--topic", "grouped", "--shift-by", -10, "--execute"]
    assert ["tools-group", "grouped", "0", "30"] in table(tool(GROUPS, *group, *move))
    assert ["grouped", "0", "Successful"] in table(
        tool(GROUPS, "--delete-offsets", "--topic", "grouped", *group)
    )
    assert "was successful" in tool(GROUPS, "--delete", *group)
    assert "tools-group" not in tool("GroupsCommand", "--list")


def test_configs_users_and_rules_are_kept(tool, house):
    house.make_topic("configured")
    entity = ["--entity-type", "topics", "--entity-name", "configured"]
    tool("kafka.admin.ConfigCommand", "--alter", *entity, "--add-config", "cleanup.policy=compact")
    assert "cleanup.policy=compact" in tool("kafka.admin.ConfigCommand", "--describe", *entity)
    tool("kafka.admin.ConfigCommand", "--alter", *entity, "--delete-config", "cleanup.policy")
    assert "cleanup.policy" not in tool("kafka.admin.ConfigCommand", "--describe", *entity)
    node = ["--entity-type", "brokers", "--entity-name", 1]
    assert "advertised.listeners=" in tool("kafka.admin.ConfigCommand", "--describe", *node, "--all")
    user = ["--entity-type", "users", "--entity-name", "alice"]
    secret = ["--add-config", "SCRAM-SHA-512=[password=secret]"]
    tool("kafka.admin.ConfigCommand", "--alter", *user, *secret)
    assert "SCRAM-SHA-512=iterations=" in tool("kafka.admin.ConfigCommand", "--describe", *user)
    rule = ["--allow-principal", "User:bob", "--operation", "Read", "--topic", "configured"]
    tool("AclCommand", "--add", *rule)
    assert "User:bob" in tool("AclCommand", "--list")
    tool("AclCommand", "--remove", "--force", *rule)
    assert "User:bob" not in tool("AclCommand", "--list")


def test_what_is_not_kept_is_refused_and_not_pretended(tool):
    quota = ["--entity-type", "clients", "--entity-name", "c", "--add-config", "producer_byte_rate=1000"]
    assert "not enforced" in tool("kafka.admin.ConfigCommand", "--alter", *quota, fails=True)
    assert "DESCRIBE_QUORUM" in tool("MetadataQuorumCommand", "describe", "--status", fails=True)
    assert "not enabled" in tool(
        "DelegationTokenCommand", "--describe", "--command-config", "/dev/null", fails=True
    )


def test_transactions_are_listed_and_described_and_none_hangs(tool, java, broker, house):
    house.make_topic("txn-in")
    house.make_topic("txn-out")
    house.send("txn-in", [str(number) for number in range(200)])
    copy = ["--input-topic", "txn-in", "--output-topic", "txn-out", "--transactional-id", "copier"]
    size = [
        "--consumer-group",
        "copiers",
        "--input-partition",
        0,
        "--max-messages",
        200,
        "--transaction-size",
        50,
    ]
    java(f"{TOOLS}.TransactionalMessageCopier", "--broker-list", broker.kafka, *copy, *size)
    assert len(house.read("txn-out")) == 200
    assert "CompleteCommit" in tool("TransactionsCommand", "list")
    assert "copier" in tool("TransactionsCommand", "describe", "--transactional-id", "copier")
    place = ["--topic", "txn-out", "--partition", 0]
    assert "ProducerId" in tool("TransactionsCommand", "describe-producers", *place)
    assert len(table(tool("TransactionsCommand", "find-hanging", "--broker-id", 1))) == 1


def test_programs_that_measure_and_verify_reach_their_end(tool, java, broker, house):
    house.make_topic("measured", 3)
    props = ["--command-property", f"bootstrap.servers={broker.kafka}"]
    load = ["--topic", "measured", "--num-records", 20000, "--record-size", 100, "--throughput", -1]
    assert "20000 records sent" in java(f"{TOOLS}.ProducerPerformance", *load, *props)
    transactional = ["--transactional-id", "perf", "--transaction-duration-ms", 100]
    assert "20000 records sent" in java(f"{TOOLS}.ProducerPerformance", *load, *props, *transactional)
    tool("ConsumerPerformance", "--topic", "measured", "--num-records", 20000)
    assert '"acked":500' in tool("VerifiableProducer", "--topic", "measured", "--max-messages", 500)
    for protocol in ("classic", "consumer"):
        group = ["--group-id", f"verifiers-{protocol}", "--group-protocol", protocol]
        read = tool("VerifiableConsumer", "--topic", "measured", "--max-messages", 500, *group)
        assert "offsets_committed" in read
        assert '"success":false' not in read
    assert "Avg latency" in tool(
        "EndToEndLatency",
        "--topic",
        "measured",
        "--num-records",
        100,
        "--producer-acks",
        "all",
        "--record-size",
        64,
    )


def test_the_cluster_describes_itself(tool, java, broker):
    where = ["--bootstrap-server", broker.kafka]
    assert "Cluster ID: " in java(f"{TOOLS}.ClusterTool", "cluster-id", *where)
    assert "unfenced" in java(f"{TOOLS}.ClusterTool", "list-endpoints", *where)
    assert "transaction.version" in tool("FeatureCommand", "describe")
    assert "Produce(0): 0 to 13" in tool("BrokerApiVersionsCommand")
    assert '"error":null' in tool("LogDirsCommand", "--describe")
    tool("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
