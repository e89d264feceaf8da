"""Who may do what. Until authentication is configured everybody on loopback may do everything."""

from __future__ import annotations

from typing import Protocol

ANONYMOUS = "User:ANONYMOUS"


class Access(Protocol):
    def allows(self, principal: str, host: str, operation: str, kind: str, name: str) -> bool:
        """Operations and kinds are Kafka's words in lower case: "read", "topic"."""


class OpenAccess:
    def allows(self, principal: str, host: str, operation: str, kind: str, name: str) -> bool:
        return True
