"""Client quotas: there are none here, and nobody can believe to have set one.

Describing them truthfully finds nothing; setting one is refused, because nothing would enforce it.
"""

from __future__ import annotations

from mainstem.fronts.kafka.codes import code_of
from mainstem.fronts.kafka.session import Request
from mainstem.model.errors import MainstemError, NotSupported
from mainstem.wire.kafka.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaAlterationResult,
)


async def describe(request: Request, message: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    try:
        request.session.require("describe_configs", "cluster", "kafka-cluster")
    except MainstemError as error:
        return DescribeClientQuotasResponse(error_code=code_of(error), error_message=str(error), entries=None)
    return DescribeClientQuotasResponse(entries=[])


async def alter(request: Request, message: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    problem: MainstemError
    try:
        request.session.require("alter_configs", "cluster", "kafka-cluster")
        problem = NotSupported("client quotas are not enforced by this broker, so none can be set")
    except MainstemError as error:
        problem = error
    return AlterClientQuotasResponse(
        entries=[
            QuotaAlterationResult(
                error_code=code_of(problem), error_message=str(problem), entity=entry.entity
            )
            for entry in message.entries
        ]
    )
