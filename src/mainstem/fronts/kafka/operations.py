"""What a client may do with a resource, as the bits of its "authorized operations" fields."""

from __future__ import annotations

from mainstem.fronts.kafka.session import Session

NOT_ASKED = -(2**31)

# Kafka's numbers for operations; bit n stands for operation n.
_NUMBERS = {
    "read": 3,
    "write": 4,
    "create": 5,
    "delete": 6,
    "alter": 7,
    "describe": 8,
    "cluster_action": 9,
    "describe_configs": 10,
    "alter_configs": 11,
    "idempotent_write": 12,
}
_APPLICABLE = {
    "topic": ("read", "write", "create", "delete", "alter", "describe", "describe_configs", "alter_configs"),
    "group": ("read", "delete", "describe", "describe_configs", "alter_configs"),
    "cluster": (
        "create",
        "alter",
        "describe",
        "cluster_action",
        "describe_configs",
        "alter_configs",
        "idempotent_write",
    ),
}


def authorized_operations(session: Session, kind: str, name: str) -> int:
    return sum(
        1 << _NUMBERS[operation] for operation in _APPLICABLE[kind] if session.allows(operation, kind, name)
    )
