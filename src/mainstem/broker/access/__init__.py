"""Who may do what: users, access control lists, and the decision.

`book` holds users and ACLs as a state machine of deltas, `authorizer` decides with them, `scram` and `sasl`
let people prove who they are, `security` is the door through which all of it is changed.
"""

from __future__ import annotations

from mainstem.broker.access.authorizer import ANONYMOUS, Access, AclAccess, OpenAccess

__all__ = ["ANONYMOUS", "Access", "AclAccess", "OpenAccess"]
