"""Logging in by SASL, and the stored SCRAM credentials. Mechanisms: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

from __future__ import annotations

from mainstem.wire.kafka.schema import BYTES, INT8, INT16, INT32, INT64, STRING, Message, array, wire


class SaslHandshakeRequest(Message):
    """Version 1 says that SaslAuthenticate follows; version 0, that raw SASL bytes do."""

    mechanism: str = wire(STRING)


class SaslHandshakeResponse(Message):
    error_code: int = wire(INT16)
    mechanisms: list[str] = wire(array(STRING))


class SaslAuthenticateRequest(Message, flexible_since=2):
    auth_bytes: bytes = wire(BYTES)


class SaslAuthenticateResponse(Message, flexible_since=2):
    """A session lifetime above 0 asks the client to log in again before it is over."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    auth_bytes: bytes = wire(BYTES)
    session_lifetime_ms: int = wire(INT64, since=1)


class UserName(Message):
    name: str = wire(STRING)


class DescribeUserScramCredentialsRequest(Message, flexible_since=0):
    """Null or empty users means all."""

    users: list[UserName] | None = wire(array(UserName), nullable=0)


class CredentialInfo(Message):
    mechanism: int = wire(INT8)
    iterations: int = wire(INT32)


class DescribeUserScramCredentialsResult(Message):
    user: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    credential_infos: list[CredentialInfo] = wire(array(CredentialInfo))


class DescribeUserScramCredentialsResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    results: list[DescribeUserScramCredentialsResult] = wire(array(DescribeUserScramCredentialsResult))


class ScramCredentialDeletion(Message):
    name: str = wire(STRING)
    mechanism: int = wire(INT8)


class ScramCredentialUpsertion(Message):
    name: str = wire(STRING)
    mechanism: int = wire(INT8)
    iterations: int = wire(INT32)
    salt: bytes = wire(BYTES)
    salted_password: bytes = wire(BYTES)


class AlterUserScramCredentialsRequest(Message, flexible_since=0):
    deletions: list[ScramCredentialDeletion] = wire(array(ScramCredentialDeletion))
    upsertions: list[ScramCredentialUpsertion] = wire(array(ScramCredentialUpsertion))


class AlterUserScramCredentialsResult(Message):
    user: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)


class AlterUserScramCredentialsResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    results: list[AlterUserScramCredentialsResult] = wire(array(AlterUserScramCredentialsResult))
