"""Every Kafka API that the codec knows: key, versions, and the classes of its request and response.

The range is what can be encoded and decoded: all that Apache Kafka 4.3 knows, and older versions that
clients still send. What a broker offers is the front's own, narrower decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from importlib import import_module

from mainstem.wire.kafka.schema import NO_VERSION, Message


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    PUBLISH_STAGED = 10_000  # Mainstem's own, see sinks.py


@dataclass(frozen=True)
class ApiSpec:
    """One API. Its message classes are imported when they are first asked for."""

    key: ApiKey
    name: str  # as Kafka spells it: "ListOffsets"
    module: str  # the file in this package that holds its messages
    min_version: int
    max_version: int
    flexible_since: int  # from here on: compact encodings, tagged fields, newer headers

    @cached_property
    def request(self) -> type[Message]:
        return self._message("Request")

    @cached_property
    def response(self) -> type[Message]:
        return self._message("Response")

    def _message(self, suffix: str) -> type[Message]:
        found: type[Message] = getattr(import_module(f"{__package__}.{self.module}"), self.name + suffix)
        return found

    def supports(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    def request_header_version(self, version: int) -> int:
        """1: key, version, correlation id and client id; 2: the same and tagged fields."""
        return 2 if version >= self.flexible_since else 1

    def response_header_version(self, version: int) -> int:
        """0: correlation id; 1: the same and tagged fields. A client that has just connected cannot know
        what the broker speaks, so the answer to ApiVersions always has the old one."""
        return 1 if version >= self.flexible_since and self.key is not ApiKey.API_VERSIONS else 0


def _specs(*rows: tuple[ApiKey, str, str, int, int, int]) -> dict[int, ApiSpec]:
    return {row[0]: ApiSpec(*row) for row in rows}


NEVER = NO_VERSION

SPECS: dict[int, ApiSpec] = _specs(
    # key, name, module, first and last version, first flexible version
    (ApiKey.PRODUCE, "Produce", "produce", 3, 13, 9),
    (ApiKey.FETCH, "Fetch", "fetch", 4, 18, 12),
    (ApiKey.LIST_OFFSETS, "ListOffsets", "offsets", 1, 11, 6),
    (ApiKey.METADATA, "Metadata", "metadata", 0, 13, 9),
    (ApiKey.OFFSET_COMMIT, "OffsetCommit", "group_offsets", 2, 10, 8),
    (ApiKey.OFFSET_FETCH, "OffsetFetch", "group_offsets", 1, 10, 6),
    (ApiKey.FIND_COORDINATOR, "FindCoordinator", "groups", 0, 6, 3),
    (ApiKey.JOIN_GROUP, "JoinGroup", "groups", 0, 9, 6),
    (ApiKey.HEARTBEAT, "Heartbeat", "groups", 0, 4, 4),
    (ApiKey.LEAVE_GROUP, "LeaveGroup", "groups", 0, 5, 4),
    (ApiKey.SYNC_GROUP, "SyncGroup", "groups", 0, 5, 4),
    (ApiKey.DESCRIBE_GROUPS, "DescribeGroups", "group_admin", 0, 6, 5),
    (ApiKey.LIST_GROUPS, "ListGroups", "group_admin", 0, 5, 3),
    (ApiKey.SASL_HANDSHAKE, "SaslHandshake", "sasl", 0, 1, NEVER),
    (ApiKey.API_VERSIONS, "ApiVersions", "api_versions", 0, 4, 3),
    (ApiKey.CREATE_TOPICS, "CreateTopics", "topics", 0, 7, 5),
    (ApiKey.DELETE_TOPICS, "DeleteTopics", "topics", 0, 6, 4),
    (ApiKey.DELETE_RECORDS, "DeleteRecords", "topics", 0, 2, 2),
    (ApiKey.INIT_PRODUCER_ID, "InitProducerId", "transactions", 0, 6, 2),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", "offsets", 0, 4, 4),
    (ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", "transactions", 0, 5, 3),
    (ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", "transactions", 0, 4, 3),
    (ApiKey.END_TXN, "EndTxn", "transactions", 0, 5, 3),
    (ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", "transactions", 0, 2, 1),
    (ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", "transactions", 0, 5, 3),
    (ApiKey.DESCRIBE_ACLS, "DescribeAcls", "acls", 0, 3, 2),
    (ApiKey.CREATE_ACLS, "CreateAcls", "acls", 0, 3, 2),
    (ApiKey.DELETE_ACLS, "DeleteAcls", "acls", 0, 3, 2),
    (ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", "configs", 0, 4, 4),
    (ApiKey.ALTER_CONFIGS, "AlterConfigs", "configs", 0, 2, 2),
    (ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", "replicas", 0, 2, 2),
    (ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", "replicas", 0, 5, 2),
    (ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", "sasl", 0, 2, 2),
    (ApiKey.CREATE_PARTITIONS, "CreatePartitions", "topics", 0, 3, 2),
    (ApiKey.CREATE_DELEGATION_TOKEN, "CreateDelegationToken", "tokens", 0, 3, 2),
    (ApiKey.RENEW_DELEGATION_TOKEN, "RenewDelegationToken", "tokens", 0, 2, 2),
    (ApiKey.EXPIRE_DELEGATION_TOKEN, "ExpireDelegationToken", "tokens", 0, 2, 2),
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, "DescribeDelegationToken", "tokens", 0, 3, 2),
    (ApiKey.DELETE_GROUPS, "DeleteGroups", "group_admin", 0, 2, 2),
    (ApiKey.ELECT_LEADERS, "ElectLeaders", "replicas", 0, 2, 2),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", "configs", 0, 1, 1),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", "replicas", 0, 1, 0),
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", "replicas", 0, 0, 0),
    (ApiKey.OFFSET_DELETE, "OffsetDelete", "group_offsets", 0, 0, NEVER),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", "quotas", 0, 1, 1),
    (ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", "quotas", 0, 1, 1),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", "sasl", 0, 0, 0),
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", "sasl", 0, 0, 0),
    (ApiKey.DESCRIBE_QUORUM, "DescribeQuorum", "cluster", 0, 2, 0),
    (ApiKey.UPDATE_FEATURES, "UpdateFeatures", "cluster", 0, 2, 0),
    (ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", "cluster", 0, 2, 0),
    (ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", "transaction_admin", 0, 0, 0),
    (ApiKey.UNREGISTER_BROKER, "UnregisterBroker", "cluster", 0, 0, 0),
    (ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", "transaction_admin", 0, 0, 0),
    (ApiKey.LIST_TRANSACTIONS, "ListTransactions", "transaction_admin", 0, 2, 0),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", "consumer_groups", 0, 1, 0),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", "consumer_groups", 0, 1, 0),
    (ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", "configs", 0, 1, 0),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", "metadata", 0, 0, 0),
    (ApiKey.SHARE_GROUP_HEARTBEAT, "ShareGroupHeartbeat", "share_groups", 1, 1, 0),
    (ApiKey.SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", "share_groups", 1, 1, 0),
    (ApiKey.SHARE_FETCH, "ShareFetch", "share_fetch", 1, 2, 0),
    (ApiKey.SHARE_ACKNOWLEDGE, "ShareAcknowledge", "share_fetch", 1, 2, 0),
    (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "DescribeShareGroupOffsets", "share_offsets", 0, 1, 0),
    (ApiKey.ALTER_SHARE_GROUP_OFFSETS, "AlterShareGroupOffsets", "share_offsets", 0, 0, 0),
    (ApiKey.DELETE_SHARE_GROUP_OFFSETS, "DeleteShareGroupOffsets", "share_offsets", 0, 0, 0),
    (ApiKey.PUBLISH_STAGED, "PublishStaged", "sinks", 0, 0, 0),
)
