"""Delegation tokens: short-lived credentials made from others."""

from __future__ import annotations

from mainstem.wire.kafka.schema import BYTES, INT16, INT32, INT64, STRING, Message, array, wire


class CreatableRenewers(Message):
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)


class CreateDelegationTokenRequest(Message, flexible_since=2):
    owner_principal_type: str | None = wire(STRING, since=3, nullable=3)
    owner_principal_name: str | None = wire(STRING, since=3, nullable=3)
    renewers: list[CreatableRenewers] = wire(array(CreatableRenewers))
    max_lifetime_ms: int = wire(INT64)


class CreateDelegationTokenResponse(Message, flexible_since=2):
    error_code: int = wire(INT16)
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)
    token_requester_principal_type: str = wire(STRING, since=3)
    token_requester_principal_name: str = wire(STRING, since=3)
    issue_timestamp_ms: int = wire(INT64)
    expiry_timestamp_ms: int = wire(INT64)
    max_timestamp_ms: int = wire(INT64)
    token_id: str = wire(STRING)
    hmac: bytes = wire(BYTES)
    throttle_time_ms: int = wire(INT32)


class RenewDelegationTokenRequest(Message, flexible_since=2):
    hmac: bytes = wire(BYTES)
    renew_period_ms: int = wire(INT64)


class RenewDelegationTokenResponse(Message, flexible_since=2):
    error_code: int = wire(INT16)
    expiry_timestamp_ms: int = wire(INT64)
    throttle_time_ms: int = wire(INT32)


class ExpireDelegationTokenRequest(Message, flexible_since=2):
    hmac: bytes = wire(BYTES)
    expiry_time_period_ms: int = wire(INT64)


class ExpireDelegationTokenResponse(Message, flexible_since=2):
    error_code: int = wire(INT16)
    expiry_timestamp_ms: int = wire(INT64)
    throttle_time_ms: int = wire(INT32)


class DescribeDelegationTokenOwner(Message):
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)


class DescribeDelegationTokenRequest(Message, flexible_since=2):
    """Null owners means all."""

    owners: list[DescribeDelegationTokenOwner] | None = wire(array(DescribeDelegationTokenOwner), nullable=0)


class DescribedDelegationTokenRenewer(Message):
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)


class DescribedDelegationToken(Message):
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)
    token_requester_principal_type: str = wire(STRING, since=3)
    token_requester_principal_name: str = wire(STRING, since=3)
    issue_timestamp: int = wire(INT64)
    expiry_timestamp: int = wire(INT64)
    max_timestamp: int = wire(INT64)
    token_id: str = wire(STRING)
    hmac: bytes = wire(BYTES)
    renewers: list[DescribedDelegationTokenRenewer] = wire(array(DescribedDelegationTokenRenewer))


class DescribeDelegationTokenResponse(Message, flexible_since=2):
    error_code: int = wire(INT16)
    tokens: list[DescribedDelegationToken] = wire(array(DescribedDelegationToken))
    throttle_time_ms: int = wire(INT32)
