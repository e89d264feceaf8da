"""A group of the classic protocol: its members agree on an assignment that one of them, the leader, makes.

    EMPTY ──join──> PREPARING ──all joined, or time is up──> COMPLETING ──leader syncs──> STABLE
      ^                │  ^                                       │                          │
      └──nobody left───┘  └──────── a member joins anew, changes, leaves or expires ─────────┘

Rules:
- A request of JoinGroup or SyncGroup waits in the group under the caller's token and is answered exactly
  once: by the rebalance, by its member's removal, or by a newer request of the same member.
- Time comes in as `now_ms`; call `tick` when `next_deadline_ms` is reached. Member ids come in too.
- The group is in memory only. After a restart nobody is a member, every old id is refused with
  UnknownMember, and clients join anew (docs/decisions/0004-groups.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mainstem.kernel.groups.classic_members import Member, Members, Waiting, size_of
from mainstem.kernel.groups.classic_messages import (
    Answer,
    ClassicLimits,
    ClassicState,
    ClassicView,
    JoinRequest,
    JoinResult,
    Leaver,
    LeaveResult,
    SyncRequest,
    SyncResult,
)
from mainstem.kernel.groups.deadlines import Deadlines
from mainstem.kernel.groups.room import Room, group_bytes
from mainstem.model.errors import (
    AssignmentTooLarge,
    CoordinatorClosing,
    FencedInstanceId,
    GroupError,
    GroupFull,
    GroupNotEmpty,
    GroupNotFound,
    IllegalGeneration,
    InconsistentProtocol,
    InvalidSessionTimeout,
    MainstemError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)

EMPTY, PREPARING, COMPLETING = ClassicState.EMPTY, ClassicState.PREPARING, ClassicState.COMPLETING
STABLE, DEAD = ClassicState.STABLE, ClassicState.DEAD

TRANSITIONS: dict[ClassicState, frozenset[ClassicState]] = {
    EMPTY: frozenset({PREPARING, DEAD}),
    PREPARING: frozenset({COMPLETING, EMPTY, DEAD}),
    COMPLETING: frozenset({STABLE, PREPARING, DEAD}),
    STABLE: frozenset({PREPARING, DEAD}),
    DEAD: frozenset({DEAD}),
}

# A client may name a rebalance timeout of zero; waiting for absent members must not become a busy loop.
MIN_RETRY_MS = 1_000

# Groups of this type hold topic subscriptions, so offsets of topics they do not read may be deleted.
TOPIC_READERS = "consumer"


class ClassicGroup:
    def __init__(
        self, group_id: str, now_ms: int, limits: ClassicLimits | None = None, room: Room | None = None
    ) -> None:
        self.group_id = group_id
        self.state = EMPTY
        self.generation = 0
        self.protocol_type = ""  # of the members, and still of the last ones when they are gone
        self.protocol_name: str | None = None
        self.empty_since_ms: int | None = now_ms
        self._limits = limits or ClassicLimits()
        self._members = Members(room or Room(self._limits.max_total_bytes), group_bytes(group_id))
        self._awaited_syncs: set[str] = set()
        self._sessions: Deadlines[str] = Deadlines()  # of members and of those who were given an id
        self._join_ends_ms: int | None = None
        self._sync_ends_ms: int | None = None
        # The first rebalance waits `_step_ms` at a time, again whenever someone new came, for at most
        # `_left_ms` more. None: an ordinary rebalance.
        self._initial: tuple[int, int] | None = None
        self._someone_new = False
        self._answers: list[Answer] = []

    # --- requests ------------------------------------------------------------------------------

    def join(self, token: object, request: JoinRequest, now_ms: int) -> list[Answer]:
        try:
            self._join(token, request, now_ms)
        except MainstemError as error:
            self._answers.append(Answer(token, error))
        return self._take_answers()

    def sync(self, token: object, request: SyncRequest, now_ms: int) -> list[Answer]:
        try:
            self._sync(token, request, now_ms)
        except MainstemError as error:
            self._answers.append(Answer(token, error))
        return self._take_answers()

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now_ms: int) -> None:
        member = self._check_member(member_id, instance_id, generation)
        self._extend_session(member, now_ms)
        if self.state is PREPARING:
            raise RebalanceInProgress(self.group_id)

    def leave(self, leavers: Sequence[Leaver], now_ms: int) -> tuple[list[LeaveResult], list[Answer]]:
        """One result per leaver, in order; the answers are to others whom this lets go on."""
        self._check_alive()
        results = []
        for leaver in leavers:
            error: GroupError | None = None
            try:
                self._leave(leaver)
            except GroupError as refused:
                error = refused
            results.append(LeaveResult(leaver.member_id, leaver.instance_id, error))
        if any(result.error is None for result in results):
            self._rebalance_or_complete(now_ms)
        return results, self._take_answers()

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, now_ms: int, in_txn: bool = False
    ) -> None:
        """May these offsets be committed? An allowed commit counts as a heartbeat.

        A negative generation is a writer outside the group. It is let in while the group is empty; inside
        a transaction always, because old producers do not say who they consume as.
        """
        self._check_alive()
        if generation < 0 and self.state is EMPTY:
            return
        if generation < 0 and not member_id and instance_id is None:
            if not in_txn:
                raise UnknownMember(f"{self.group_id} has members, and the commit names none")
            return
        member = self._check_member(member_id, instance_id, generation)
        if self.state is COMPLETING and not in_txn:
            raise RebalanceInProgress(self.group_id)
        if not in_txn:
            self._extend_session(member, now_ms)

    def check_delete(self) -> None:
        if self.state is DEAD:
            raise GroupNotFound(self.group_id)
        if self.state is not EMPTY:
            raise GroupNotEmpty(self.group_id)

    def check_offsets_delete(self) -> None:
        """For a live group of topic readers the caller also checks that none subscribes to the topic."""
        if self.state is DEAD:
            raise GroupNotFound(self.group_id)
        if self.state is not EMPTY and self.protocol_type != TOPIC_READERS:
            raise GroupNotEmpty(self.group_id)

    def describe(self) -> ClassicView:
        name = self.protocol_name if self.state is STABLE else None
        return ClassicView(
            self.group_id,
            self.state,
            self.protocol_type,
            name or "",
            self.generation,
            self._members.leader_id,
            tuple(member.view(name) for member in self._members),
        )

    @property
    def idle(self) -> bool:
        """No members and none on the way: forgetting the group now would surprise nobody."""
        return self.state in (EMPTY, DEAD) and not self._members.ids_given

    # --- time ----------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        deadlines = (self._sessions.next_ms(), self._join_ends_ms, self._sync_ends_ms)
        return min((at_ms for at_ms in deadlines if at_ms is not None), default=None)

    def tick(self, now_ms: int) -> list[Answer]:
        for member_id in self._sessions.due(now_ms):
            self._expire(member_id, now_ms)
        if self._join_ends_ms is not None and self._join_ends_ms <= now_ms:
            self._end_join_phase(now_ms)
        if self._sync_ends_ms is not None and self._sync_ends_ms <= now_ms:
            self._end_sync_phase(now_ms)
        return self._take_answers()

    def close(self, error: MainstemError) -> list[Answer]:
        """The group is deleted or the broker stops: everyone who waits gets `error`."""
        for member in self._members:
            self._answer_join(member, error)
            self._answer_sync(member, error)
        self._sessions = Deadlines()
        self._join_ends_ms = self._sync_ends_ms = None
        self._members.give_up_room()
        self._move(DEAD, None)
        return self._take_answers()

    # --- joining -------------------------------------------------------------------------------

    def _join(self, token: object, request: JoinRequest, now_ms: int) -> None:
        self._check_alive()
        if not self._limits.min_session_ms <= request.session_timeout_ms <= self._limits.max_session_ms:
            raise InvalidSessionTimeout(
                f"{request.session_timeout_ms} ms is outside "
                f"{self._limits.min_session_ms}..{self._limits.max_session_ms}"
            )
        if not self._has_room_for(request.member_id):
            if request.member_id in self._members:
                self._remove(request.member_id)
            self._members.take_id_back(request.member_id)
            self._sessions.clear(request.member_id)
            raise GroupFull(f"{self.group_id} has {len(self._members)} members")
        self._check_protocols(request)
        self._check_room_for(request)
        if not request.member_id:
            self._join_without_id(token, request, now_ms)
        elif request.member_id in self._members.ids_given and request.instance_id is None:
            self._add(token, request.member_id, request, now_ms)
        else:
            self._rejoin(self._members.check(request.member_id, request.instance_id), token, request, now_ms)

    def _has_room_for(self, member_id: str) -> bool:
        if self.state is EMPTY:
            return True
        known = member_id in self._members
        if self.state is PREPARING:
            # Who waits is counted, not who is a member: after the limit was lowered the last to rejoin go.
            waits = known and self._members[member_id].join is not None
            return waits or self._members.joining < self._limits.max_members
        return known or len(self._members) < self._limits.max_members

    def _check_room_for(self, request: JoinRequest) -> None:
        """A member that is in and asks for too much stays in with what it said before, until it goes."""
        known_as = request.member_id or self._members.of_instance(request.instance_id)
        if known_as is not None and known_as in self._members:
            more = size_of(request.protocols) - size_of(self._members[known_as].protocols)
        else:
            more = Member.of(request.member_id or request.new_member_id, request).size()
        if not self._members.has_room(more, self._limits.max_group_bytes):
            raise GroupFull(f"no room for {more} more bytes of metadata in {self.group_id}")

    def _check_protocols(self, request: JoinRequest) -> None:
        names = {name for name, _ in request.protocols}
        if self.state is EMPTY:
            if not request.protocol_type or not names:
                raise InconsistentProtocol("a member must name a protocol type and at least one protocol")
        elif request.protocol_type != self.protocol_type:
            raise InconsistentProtocol(f"{request.protocol_type!r} is not {self.protocol_type!r}")
        elif len(self._members) and not names & self._members.common_protocols():
            raise InconsistentProtocol(f"none of {sorted(names)} is spoken by every member")

    def _join_without_id(self, token: object, request: JoinRequest, now_ms: int) -> None:
        known_as = self._members.of_instance(request.instance_id)
        if known_as is not None:
            self._take_over(known_as, token, request, now_ms)
        elif request.instance_id is None and request.id_required:
            self._members.give_id(request.new_member_id)
            self._sessions.set(request.new_member_id, now_ms + request.session_timeout_ms)
            raise MemberIdRequired(request.new_member_id)
        else:
            self._add(token, request.new_member_id, request, now_ms)

    def _add(self, token: object, member_id: str, request: JoinRequest, now_ms: int) -> None:
        if not len(self._members):
            self.protocol_type = request.protocol_type
        if self._initial is not None:
            self._someone_new = True
        member = Member.of(member_id, request)
        self._members.add(member)
        self._members.park_join(member, token)
        self._members.take_id_back(member_id)
        self._sessions.set(member_id, now_ms + self._limits.new_member_join_ms)
        self._rebalance_or_complete(now_ms)

    def _rejoin(self, member: Member, token: object, request: JoinRequest, now_ms: int) -> None:
        same = member.protocols == request.protocols
        leads = self._members.leader_id == member.member_id
        # The leader's rejoin always rebalances: only it knows what else its assignment depends on.
        if same and (self.state is COMPLETING or (self.state is STABLE and not leads)):
            self._answers.append(Answer(token, self._join_result(member)))
            return
        self._park_join(member, token, request)
        self._rebalance_or_complete(now_ms)

    def _take_over(self, old_id: str, token: object, request: JoinRequest, now_ms: int) -> None:
        """A static member is back without its id: give it a new one and fence whoever holds the old."""
        old_leader_id = self._members.leader_id or ""
        old = self._members[old_id]
        fenced = FencedInstanceId(f"{request.instance_id!r} is now member {request.new_member_id}")
        self._answer_join(old, fenced)
        self._answer_sync(old, fenced)
        self._sessions.clear(old_id)
        self._awaited_syncs.discard(old_id)
        member = self._members.replace(old_id, request.new_member_id, request.client_id, request.client_host)
        self._park_join(member, token, request)
        self._extend_session(member, now_ms)
        if self.state is STABLE and self._members.chosen_protocol() == self.protocol_name:
            # Nobody else notices. A client that does not know skip_assignment must not believe that it
            # leads, or it would send an assignment: it is told that its former self does.
            leads = self._members.leader_id == member.member_id
            if leads and not request.skips_assignment:
                result = self._join_result(member, leader_id=old_leader_id)
            else:
                result = self._join_result(member, skip_assignment=leads)
            self._answer_join(member, result)
        else:
            self._rebalance_or_complete(now_ms)

    def _park_join(self, member: Member, token: object, request: JoinRequest) -> None:
        self._members.update(member, request)
        self._answer_join(member, RebalanceInProgress("the member has joined again"))
        self._members.park_join(member, token)

    # --- the join phase ------------------------------------------------------------------------

    def _rebalance_or_complete(self, now_ms: int) -> None:
        if PREPARING in TRANSITIONS[self.state] and (self.state is not EMPTY or len(self._members)):
            self._prepare(now_ms)
        elif self.state is PREPARING and self._initial is None:
            self._complete_if_all_joined(now_ms)

    def _prepare(self, now_ms: int) -> None:
        if self.state is COMPLETING:
            for member in self._members:
                self._members.assign(member, b"")
                if self._answer_sync(member, RebalanceInProgress(self.group_id)):
                    self._extend_session(member, now_ms)
        self._awaited_syncs.clear()
        self._sync_ends_ms = None
        was_empty = self.state is EMPTY
        self._move(PREPARING, now_ms)
        delay_ms = self._limits.initial_delay_ms
        if was_empty and delay_ms > 0:
            left_ms = max(self._members.rebalance_timeout_ms() - delay_ms, 0)
            self._initial, self._someone_new = (delay_ms, left_ms), False
            self._join_ends_ms = now_ms + delay_ms
        elif was_empty:
            self._complete_join(now_ms)
        else:
            self._join_ends_ms = now_ms + self._members.rebalance_timeout_ms()
            self._complete_if_all_joined(now_ms)

    def _complete_if_all_joined(self, now_ms: int) -> None:
        if not self._members.ids_given and self._members.joining == len(self._members):
            self._complete_join(now_ms)

    def _end_join_phase(self, now_ms: int) -> None:
        if self._initial is None or not self._someone_new or self._initial[1] == 0:
            self._complete_join(now_ms)
            return
        step_ms, left_ms = self._initial
        next_ms = min(self._limits.initial_delay_ms, left_ms)
        self._initial, self._someone_new = (next_ms, max(left_ms - step_ms, 0)), False
        self._join_ends_ms = now_ms + next_ms

    def _complete_join(self, now_ms: int) -> None:
        self._initial = self._join_ends_ms = None
        absent = [member for member in self._members if member.join is None and member.instance_id is None]
        for member in absent:
            self._remove(member.member_id)
        if len(self._members) and not self._members.elect_joined_leader():
            # Only static members are left, all of them away: wait on until they come or their sessions end.
            self._join_ends_ms = now_ms + max(self._members.rebalance_timeout_ms(), MIN_RETRY_MS)
            return
        self.generation += 1
        if not len(self._members):
            self.protocol_name = None
            self._move(EMPTY, now_ms)
            return
        self.protocol_name = self._members.chosen_protocol()
        self._move(COMPLETING, now_ms)
        self._awaited_syncs = {member.member_id for member in self._members}
        self._sync_ends_ms = now_ms + self._members.rebalance_timeout_ms()
        for member in self._members:
            self._answer_join(member, self._join_result(member))
            member.is_new = False
            self._extend_session(member, now_ms)

    # --- the sync phase ------------------------------------------------------------------------

    def _sync(self, token: object, request: SyncRequest, now_ms: int) -> None:
        member = self._check_member(request.member_id, request.instance_id, request.generation)
        if request.protocol_type not in (None, self.protocol_type):
            raise InconsistentProtocol(f"{request.protocol_type!r} is not {self.protocol_type!r}")
        if request.protocol_name not in (None, self.protocol_name):
            raise InconsistentProtocol(f"{request.protocol_name!r} is not {self.protocol_name!r}")
        if self.state is PREPARING:
            raise RebalanceInProgress(self.group_id)
        assigns = self.state is COMPLETING and member.member_id == self._members.leader_id
        if assigns:
            self._check_room_for_assignments(request)
        self._awaited_syncs.discard(member.member_id)
        if not self._awaited_syncs:
            self._sync_ends_ms = None
        self._answer_sync(member, RebalanceInProgress("the member has synced again"))
        member.sync = Waiting(token)
        if self.state is STABLE:
            self._give_assignment(member, now_ms)
        elif assigns:
            self._move(STABLE, now_ms)
            for one in self._members:
                self._members.assign(one, request.assignments.get(one.member_id, b""))
                self._give_assignment(one, now_ms)

    def _check_room_for_assignments(self, request: SyncRequest) -> None:
        """The leader may try again; if it does not, it goes when the time for this is up."""
        more = sum(
            len(request.assignments.get(one.member_id, b"")) - len(one.assignment) for one in self._members
        )
        if not self._members.has_room(more, self._limits.max_group_bytes):
            raise AssignmentTooLarge(f"no room for {more} more bytes of assignments in {self.group_id}")

    def _give_assignment(self, member: Member, now_ms: int) -> None:
        result = SyncResult(self.protocol_type, self.protocol_name or "", member.assignment)
        if self._answer_sync(member, result):
            self._extend_session(member, now_ms)

    def _end_sync_phase(self, now_ms: int) -> None:
        """Whoever was told the generation and never asked for its assignment is not there any more."""
        self._sync_ends_ms = None
        if self._awaited_syncs:
            for member_id in sorted(self._awaited_syncs):
                self._remove(member_id)
            self._prepare(now_ms)

    # --- going away ----------------------------------------------------------------------------

    def _leave(self, leaver: Leaver) -> None:
        if not leaver.member_id:
            member_id = self._members.of_instance(leaver.instance_id)
            if member_id is None:
                raise UnknownMember(leaver.instance_id or "")
            self._remove(member_id)
        elif leaver.member_id in self._members.ids_given:
            self._members.take_id_back(leaver.member_id)
            self._sessions.clear(leaver.member_id)
        else:
            self._remove(self._members.check(leaver.member_id, leaver.instance_id).member_id)

    def _expire(self, member_id: str, now_ms: int) -> None:
        if member_id in self._members.ids_given:
            self._members.take_id_back(member_id)
        else:
            member = self._members[member_id]
            # Who waits for a rebalance cannot heartbeat; its session starts anew with the answer.
            if not member.is_new and (member.join or member.sync):
                return
            self._remove(member_id)
            if self.state in (STABLE, COMPLETING):
                self._prepare(now_ms)
                return
        if self.state is PREPARING:
            self._complete_if_all_joined(now_ms)

    def _remove(self, member_id: str) -> None:
        member = self._members.remove(member_id)
        self._answer_join(member, UnknownMember(member_id))
        self._answer_sync(member, UnknownMember(member_id))
        self._sessions.clear(member_id)
        self._awaited_syncs.discard(member_id)

    # --- small parts ---------------------------------------------------------------------------

    def _check_alive(self) -> None:
        if self.state is DEAD:
            raise CoordinatorClosing(self.group_id)

    def _check_member(self, member_id: str, instance_id: str | None, generation: int) -> Member:
        self._check_alive()
        member = self._members.check(member_id, instance_id)
        if generation != self.generation:
            raise IllegalGeneration(f"{generation}, the group is at {self.generation}")
        return member

    def _extend_session(self, member: Member, now_ms: int) -> None:
        self._sessions.set(member.member_id, now_ms + member.session_timeout_ms)

    def _move(self, state: ClassicState, now_ms: int | None) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        self.state = state
        self.empty_since_ms = now_ms if state is EMPTY else None

    def _join_result(
        self, member: Member, leader_id: str | None = None, skip_assignment: bool = False
    ) -> JoinResult:
        leader_id = leader_id or self._members.leader_id or ""
        name = self.protocol_name or ""
        return JoinResult(
            self.generation,
            self.protocol_type,
            name,
            leader_id,
            member.member_id,
            self._members.joined(name) if leader_id == member.member_id else (),
            skip_assignment,
        )

    def _answer_join(self, member: Member, result: JoinResult | MainstemError) -> bool:
        return self._answer(self._members.unpark_join(member), result)

    def _answer_sync(self, member: Member, result: SyncResult | MainstemError) -> bool:
        waiting, member.sync = member.sync, None
        return self._answer(waiting, result)

    def _answer(self, waiting: Waiting | None, result: JoinResult | SyncResult | MainstemError) -> bool:
        if waiting is not None:
            self._answers.append(Answer(waiting.token, result))
        return waiting is not None

    def _take_answers(self) -> list[Answer]:
        answers, self._answers = self._answers, []
        return answers

    def member_ids(self) -> Iterable[str]:
        return [member.member_id for member in self._members]
