"""DescribeCluster: the one broker there is."""

from __future__ import annotations

from mainstem.fronts.kafka.operations import NOT_ASKED, authorized_operations
from mainstem.fronts.kafka.session import Request
from mainstem.wire.kafka.cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CLUSTER = "kafka-cluster"
_MISMATCHED_ENDPOINT_TYPE = 114


async def describe(request: Request, message: DescribeClusterRequest) -> DescribeClusterResponse:
    broker = request.broker
    if message.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=_MISMATCHED_ENDPOINT_TYPE,
            error_message="this is a broker: ask for brokers (endpoint type 1)",
            endpoint_type=BROKERS,
        )
    host, port = request.session.told_address
    return DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.options.node_id,
        brokers=[DescribeClusterBroker(broker_id=broker.options.node_id, host=host, port=port)],
        cluster_authorized_operations=cluster_operations(
            request, asked=message.include_cluster_authorized_operations
        ),
    )


def cluster_operations(request: Request, *, asked: bool) -> int:
    """Who may not describe the cluster learns of no right to it."""
    if not asked:
        return NOT_ASKED
    if not request.session.allows("describe", "cluster", CLUSTER):
        return 0
    return authorized_operations(request.session, "cluster", CLUSTER)
