"""One table: which function answers which API."""

from __future__ import annotations

from mainstem.fronts.kafka.dispatch import Handler, HotHandler
from mainstem.fronts.kafka.handlers import (
    acls,
    api_versions,
    cluster,
    configs,
    consumer_groups,
    coordinator,
    group_admin,
    group_offsets,
    groups,
    list_offsets,
    metadata,
    quotas,
    records,
    replicas,
    sasl,
    scram,
    sinks,
    tokens,
    topics,
    transaction_admin,
    transactions,
)
from mainstem.fronts.kafka.handlers.fetch import fetch
from mainstem.fronts.kafka.handlers.produce import produce
from mainstem.wire.kafka.apis import ApiKey

HOT_HANDLERS: dict[ApiKey, HotHandler] = {
    ApiKey.PRODUCE: produce,
    ApiKey.FETCH: fetch,
}

HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.API_VERSIONS: api_versions.handle,
    ApiKey.METADATA: metadata.metadata,
    ApiKey.LIST_OFFSETS: list_offsets.handle,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: list_offsets.epoch_ends,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: metadata.describe_partitions,
    ApiKey.DESCRIBE_CLUSTER: cluster.describe,
    ApiKey.CREATE_TOPICS: topics.create,
    ApiKey.DELETE_TOPICS: topics.delete,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.DESCRIBE_CONFIGS: configs.describe,
    ApiKey.ALTER_CONFIGS: configs.alter,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.alter_incrementally,
    ApiKey.LIST_CONFIG_RESOURCES: configs.list_resources,
    ApiKey.DELETE_RECORDS: records.delete,
    ApiKey.DESCRIBE_LOG_DIRS: replicas.describe_log_dirs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: replicas.alter_log_dirs,
    ApiKey.ELECT_LEADERS: replicas.elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: replicas.alter_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: replicas.list_reassignments,
    ApiKey.SASL_HANDSHAKE: sasl.handshake,
    ApiKey.SASL_AUTHENTICATE: sasl.authenticate,
    ApiKey.DESCRIBE_ACLS: acls.describe,
    ApiKey.CREATE_ACLS: acls.create,
    ApiKey.DELETE_ACLS: acls.delete,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: scram.describe,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: scram.alter,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: quotas.describe,
    ApiKey.ALTER_CLIENT_QUOTAS: quotas.alter,
    ApiKey.CREATE_DELEGATION_TOKEN: tokens.create,
    ApiKey.RENEW_DELEGATION_TOKEN: tokens.renew,
    ApiKey.EXPIRE_DELEGATION_TOKEN: tokens.expire,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: tokens.describe,
    ApiKey.FIND_COORDINATOR: coordinator.handle,
    ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets,
    ApiKey.END_TXN: transactions.end_txn,
    ApiKey.TXN_OFFSET_COMMIT: transactions.commit_offsets,
    ApiKey.DESCRIBE_PRODUCERS: transaction_admin.describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: transaction_admin.describe,
    ApiKey.LIST_TRANSACTIONS: transaction_admin.list_all,
    ApiKey.JOIN_GROUP: groups.join,
    ApiKey.SYNC_GROUP: groups.sync,
    ApiKey.HEARTBEAT: groups.heartbeat,
    ApiKey.LEAVE_GROUP: groups.leave,
    ApiKey.OFFSET_COMMIT: group_offsets.commit,
    ApiKey.OFFSET_FETCH: group_offsets.fetch,
    ApiKey.OFFSET_DELETE: group_offsets.delete,
    ApiKey.DESCRIBE_GROUPS: group_admin.describe,
    ApiKey.LIST_GROUPS: group_admin.list_all,
    ApiKey.DELETE_GROUPS: group_admin.delete,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_groups.heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_groups.describe,
    ApiKey.PUBLISH_STAGED: sinks.publish,
}

# What a connection may ask before it has said who it is.
OPEN_BEFORE_LOGIN = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
