"""The members of a classic group: who is in, who leads, which protocols all of them speak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mainstem.kernel.groups.classic_messages import ClassicMemberView, JoinedMember, JoinRequest
from mainstem.kernel.groups.room import Holding, Room
from mainstem.model.errors import FencedInstanceId, UnknownMember

# What a member costs beside the strings it sends.
MEMBER_BYTES = 512


@dataclass(slots=True)
class Waiting:
    """A request that is parked in the group until a rebalance answers it."""

    token: object


@dataclass(slots=True)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    join: Waiting | None = None
    sync: Waiting | None = None
    is_new: bool = True  # its first join is not answered yet, so it cannot heartbeat

    @classmethod
    def of(cls, member_id: str, request: JoinRequest) -> Member:
        return cls(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            request.protocols,
        )

    def size(self) -> int:
        """In bytes, as limits count it."""
        names = len(self.member_id) + len(self.instance_id or "") + len(self.client_id)
        return MEMBER_BYTES + names + size_of(self.protocols) + len(self.assignment)

    def names(self) -> set[str]:
        return {name for name, _ in self.protocols}

    def metadata(self, protocol_name: str) -> bytes:
        return dict(self.protocols)[protocol_name]

    def view(self, protocol_name: str | None) -> ClassicMemberView:
        return ClassicMemberView(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            b"" if protocol_name is None else self.metadata(protocol_name),
            b"" if protocol_name is None else self.assignment,
        )


def size_of(protocols: Iterable[tuple[str, bytes]]) -> int:
    return sum(len(name) + len(metadata) for name, metadata in protocols)


class Members:
    """In order of joining; the first to join leads until it goes.

    Counts are kept, not taken: a rebalance of a thousand members asks for them a thousand times.
    """

    def __init__(self, room: Room, own: int = 0) -> None:
        """`own`: bytes that the group takes by itself."""
        self._holding = Holding(room, own)
        self._size = 0  # bytes, without those
        self._by_id: dict[str, Member] = {}
        self.ids_given: set[str] = set()  # told their id, not joined with it yet
        self._offered: Counter[str] = Counter()  # protocol name -> members that offer it
        self.joining = 0  # members whose join waits
        self._static: dict[str, str] = {}  # instance id -> member id
        self.leader_id: str | None = None

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def held(self) -> int:
        """Bytes of the room."""
        return self._holding.held

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_id.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def __getitem__(self, member_id: str) -> Member:
        return self._by_id[member_id]

    def of_instance(self, instance_id: str | None) -> str | None:
        return None if instance_id is None else self._static.get(instance_id)

    def check(self, member_id: str, instance_id: str | None) -> Member:
        """The member a request speaks for, or why it may not."""
        if instance_id is not None:
            owner = self._static.get(instance_id)
            if owner is None:
                raise UnknownMember(instance_id)
            if owner != member_id:
                raise FencedInstanceId(f"{instance_id!r} is now member {owner}")
        if member_id not in self._by_id:
            raise UnknownMember(member_id)
        return self._by_id[member_id]

    def add(self, member: Member) -> None:
        self._by_id[member.member_id] = member
        self._hold(member.size())
        self._offered.update(member.names())
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> Member:
        member = self._by_id.pop(member_id)
        self._hold(-member.size())
        self._offered.subtract(member.names())
        if member.instance_id is not None:
            del self._static[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self._by_id), None)
        return member

    def replace(self, old_id: str, new_id: str, client_id: str, client_host: str) -> Member:
        """A static member came back under a new id: it keeps its assignment and its lead."""
        old = self._by_id.pop(old_id)
        member = Member(
            new_id,
            old.instance_id,
            client_id,
            client_host,
            old.session_timeout_ms,
            old.rebalance_timeout_ms,
            old.protocols,
            old.assignment,
            is_new=False,
        )
        self._by_id[new_id] = member
        self._hold(member.size() - old.size())
        if old.instance_id is not None:
            self._static[old.instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    def update(self, member: Member, request: JoinRequest) -> None:
        self._hold(size_of(request.protocols) - size_of(member.protocols))
        self._offered.subtract(member.names())
        self._offered.update({name for name, _ in request.protocols})
        member.protocols = request.protocols
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms

    def assign(self, member: Member, assignment: bytes) -> None:
        self._hold(len(assignment) - len(member.assignment))
        member.assignment = assignment

    def give_id(self, member_id: str) -> None:
        """It counts as a member would that says nothing yet: nobody may be given ids without end."""
        self.ids_given.add(member_id)
        self._hold(MEMBER_BYTES + len(member_id))

    def take_id_back(self, member_id: str) -> None:
        """It joined with it, or went. For any other nothing happens."""
        if member_id in self.ids_given:
            self.ids_given.remove(member_id)
            self._hold(-MEMBER_BYTES - len(member_id))

    def has_room(self, more: int, max_bytes: int) -> bool:
        return self._holding.fits(more, max_bytes)

    def give_up_room(self) -> None:
        """The group is dead: nobody will take its members out one by one."""
        self.ids_given.clear()
        self._holding.give_back()

    def _hold(self, more: int) -> None:
        self._size += more
        self._holding.hold(self._size)

    def park_join(self, member: Member, token: object) -> None:
        member.join = Waiting(token)
        self.joining += 1

    def unpark_join(self, member: Member) -> Waiting | None:
        waiting, member.join = member.join, None
        self.joining -= waiting is not None
        return waiting

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader takes part in this rebalance; False if nobody does."""
        joined = [member.member_id for member in self if member.join is not None]
        if self.leader_id not in joined:
            if not joined:
                return False
            self.leader_id = joined[0]
        return True

    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self), default=0)

    # --- protocols -----------------------------------------------------------------------------

    def common_protocols(self) -> set[str]:
        """Names that every member offers."""
        return {name for name, count in self._offered.items() if count == len(self)}

    def chosen_protocol(self) -> str:
        """Each member votes for the common protocol it likes best; most votes win, ties go by name."""
        common = self.common_protocols()
        votes = Counter(next(name for name, _ in member.protocols if name in common) for member in self)
        return min(votes, key=lambda name: (-votes[name], name))

    def joined(self, protocol_name: str) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(protocol_name))
            for member in self
        )
