"""ApiVersions: the first question of every client."""

from __future__ import annotations

from mainstem.fronts.kafka.session import Request
from mainstem.fronts.kafka.versions import api_versions, finalized_features, supported_features
from mainstem.wire.kafka.api_versions import ApiVersionsRequest, ApiVersionsResponse


async def handle(request: Request, message: ApiVersionsRequest) -> ApiVersionsResponse:
    software = f"{message.client_software_name} {message.client_software_version}".strip()
    request.session.software = software[:200]
    return ApiVersionsResponse(
        api_keys=api_versions(request.session.listener.versions, message.client_software_name),
        supported_features=supported_features(),
        finalized_features_epoch=0,
        finalized_features=finalized_features(),
    )
