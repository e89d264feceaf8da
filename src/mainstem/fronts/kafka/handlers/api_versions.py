"""ApiVersions: the first question of every client."""

from __future__ import annotations

import re

from mainstem.fronts.kafka.codes import code_of
from mainstem.fronts.kafka.session import Request
from mainstem.fronts.kafka.versions import api_versions, finalized_features, supported_features
from mainstem.model.errors import InvalidRequest
from mainstem.wire.kafka.api_versions import ApiVersionsRequest, ApiVersionsResponse

# From this version on clients say what they are, in names as Kafka allows them.
_NAMED_SINCE = 3
_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def handle(request: Request, message: ApiVersionsRequest) -> ApiVersionsResponse:
    names = (message.client_software_name, message.client_software_version)
    if request.version >= _NAMED_SINCE and not all(map(_NAME.fullmatch, names)):
        return ApiVersionsResponse(error_code=code_of(InvalidRequest()))
    software = f"{message.client_software_name} {message.client_software_version}".strip()
    request.session.software = software[:200]
    return ApiVersionsResponse(
        api_keys=api_versions(request.session.listener.versions, message.client_software_name),
        supported_features=supported_features(),
        finalized_features_epoch=0,
        finalized_features=finalized_features(),
    )
