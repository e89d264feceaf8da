"""FindCoordinator: there is one broker, so it coordinates everything."""

from __future__ import annotations

from functools import partial

from mainstem.fronts.kafka.codes import code_of
from mainstem.fronts.kafka.encoding import Encoded, encoded_if_large
from mainstem.fronts.kafka.session import Request
from mainstem.fronts.kafka.slices import Slices
from mainstem.model.errors import InvalidRequest, MainstemError
from mainstem.wire.kafka.groups import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP, TRANSACTION, SHARE = 0, 1, 2
KINDS = {GROUP: "group", TRANSACTION: "transactional_id"}
# Where the state of a share group's partition is kept: other brokers ask that, not clients.
SHARE_SINCE = 6
# From here on one request asks about many keys.
MANY_SINCE = 4
NO_NODE = -1


async def handle(request: Request, message: FindCoordinatorRequest) -> FindCoordinatorResponse | Encoded:
    if request.version >= MANY_SINCE:
        find = partial(_find, request, message.key_type)
        found = await Slices().each(find, message.coordinator_keys)
        return await encoded_if_large(
            FindCoordinatorResponse(coordinators=found), request.version, len(found)
        )
    one = _find(request, message.key_type, message.key)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(request: Request, key_type: int, key: str) -> Coordinator:
    try:
        if key_type == SHARE and request.version >= SHARE_SINCE:
            request.session.require("cluster_action", "cluster", "kafka-cluster")
            if key.count(":") < 2:  # group:topic id:partition
                raise InvalidRequest(f"{key[:100]!r} does not name a group, a topic and a partition")
        elif key_type in KINDS:
            request.session.require("describe", KINDS[key_type], key)
        else:
            raise InvalidRequest(f"coordinators of type {key_type} are not known here")
    except MainstemError as error:
        return Coordinator(
            key=key, node_id=NO_NODE, host="", port=-1, error_code=code_of(error), error_message=str(error)
        )
    host, port = request.session.told_address
    return Coordinator(key=key, node_id=request.broker.options.node_id, host=host, port=port)
