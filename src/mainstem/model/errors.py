"""Every error that Mainstem raises on purpose, as one tree.

    MainstemError
    ├── InvalidRequest              the request itself makes no sense
    │   ├── UnsupportedVersion
    │   ├── InvalidTopicName, InvalidPartitions, InvalidReplicationFactor, InvalidReplicaAssignment
    │   ├── InvalidConfig, InvalidTimestamp, InvalidRecord
    │   ├── InvalidGroupId, InvalidSessionTimeout, InvalidRegularExpression
    │   ├── InvalidTransactionTimeout, InvalidRequiredAcks, InvalidPrincipal
    │   ├── InvalidCommitOffsetSize, OffsetMetadataTooLarge, UnsupportedAssignor
    │   └── RequestTooLarge
    ├── UnknownTopic, UnknownTopicId, TopicExists, PolicyViolation
    ├── CorruptBatch, BatchTooLarge, UnsupportedBatchFormat, UnsupportedCompression
    ├── OffsetOutOfRange, FencedLeaderEpoch, UnknownLeaderEpoch
    ├── RequestTimedOut             it may still happen: it was journalled, the disk is slow
    ├── ProducerError
    │   ├── OutOfOrderSequence, DuplicateSequence, UnknownProducer
    │   ├── ProducerFenced, InvalidProducerEpoch, InvalidProducerIdMapping
    │   ├── InvalidTransactionState, ConcurrentTransactions, TransactionAbortable
    │   └── TransactionalIdNotFound
    ├── GroupError
    │   ├── UnknownMember, IllegalGeneration, RebalanceInProgress, MemberIdRequired
    │   ├── InconsistentProtocol, FencedInstanceId, GroupNotFound, GroupNotEmpty, GroupFull
    │   ├── AssignmentTooLarge
    │   ├── FencedMemberEpoch, StaleMemberEpoch, UnreleasedInstanceId
    │   ├── GroupSubscribedToTopic, OffsetsUnstable
    │   ├── ShareSessionNotFound, InvalidShareSessionEpoch, ShareSessionLimitReached, InvalidRecordState
    │   └── CoordinatorClosing
    ├── QueueError
    │   ├── UnknownNamespace, UnknownExchange, UnknownQueue
    │   ├── QueueLocked             it belongs to another connection alone
    │   ├── QueueInUse, QueueNotEmpty, ExchangeInUse, NotForClients
    │   └── Inequivalent            it exists, with another value of the argument it names
    ├── AccessError
    │   ├── AuthenticationFailed, UnsupportedMechanism, IllegalSaslState
    │   ├── NotAuthorized           names operation and resource
    │   ├── SecurityDisabled, TokensDisabled
    │   └── UnacceptableCredential, DuplicateResource, ResourceNotFound
    ├── StorageError
    │   ├── DiskFull                typed, recoverable: reads and trims go on
    │   ├── StorageFailed           an fsync or write failed: the process must end
    │   ├── CorruptFile             names file and position
    │   ├── BodyGone                a link names a body by an address that is no more: look it up again
    │   ├── DataFolderLocked, FormatTooNew
    ├── ClientError                 seen from our own client's side of a connection
    │   ├── BrokerUnreachable       names the address, why, and what to try
    │   └── BrokerRefused           the broker's answer: code, name, and its own words
    └── NotSupported                an honest "not here", never a fake success

Raise them with facts: `UnknownTopic("orders")`, `CorruptFile(path, position, "bad crc")`. Each front has
one table from these to its own wire codes, and a test that the table is complete.
"""

from __future__ import annotations

from collections.abc import Sequence


class MainstemError(Exception):
    """Base of all errors that a client or an operator may see."""


# --- requests that make no sense ---------------------------------------------------------------


class InvalidRequest(MainstemError): ...


class UnsupportedVersion(InvalidRequest): ...


class InvalidTopicName(InvalidRequest): ...


class InvalidPartitions(InvalidRequest): ...


class InvalidReplicationFactor(InvalidRequest): ...


class InvalidReplicaAssignment(InvalidRequest): ...


class InvalidConfig(InvalidRequest): ...


class InvalidTimestamp(InvalidRequest): ...


class InvalidRecord(InvalidRequest):
    """`positions` are those in the batch of the records at fault, where only some of them are."""

    def __init__(self, message: str, positions: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.positions = positions


class InvalidGroupId(InvalidRequest): ...


class InvalidSessionTimeout(InvalidRequest): ...


class InvalidRegularExpression(InvalidRequest): ...


class InvalidTransactionTimeout(InvalidRequest): ...


class InvalidRequiredAcks(InvalidRequest): ...


class InvalidPrincipal(InvalidRequest): ...


class InvalidCommitOffsetSize(InvalidRequest): ...


class OffsetMetadataTooLarge(InvalidRequest): ...


class UnsupportedAssignor(InvalidRequest): ...


class RequestTooLarge(InvalidRequest): ...


# --- topics and batches ------------------------------------------------------------------------


class UnknownTopic(MainstemError): ...


class UnknownTopicId(MainstemError): ...


class TopicExists(MainstemError): ...


class PolicyViolation(MainstemError): ...


class CorruptBatch(MainstemError): ...


class GrowsTooLarge(CorruptBatch):
    """Decompressed, it is more than was allowed."""


class BatchTooLarge(MainstemError): ...


class UnsupportedBatchFormat(MainstemError): ...


class UnsupportedCompression(MainstemError): ...


class OffsetOutOfRange(MainstemError):
    """The offset asked for is below the start or above the end of the partition."""

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(f"offset {offset} is outside {start}..{end}")
        self.offset, self.start, self.end = offset, start, end


class FencedLeaderEpoch(MainstemError): ...


class UnknownLeaderEpoch(MainstemError): ...


class RequestTimedOut(MainstemError): ...


# --- producers and transactions ----------------------------------------------------------------


class ProducerError(MainstemError): ...


class OutOfOrderSequence(ProducerError): ...


class DuplicateSequence(ProducerError): ...


class UnknownProducer(ProducerError): ...


class ProducerFenced(ProducerError): ...


class InvalidProducerEpoch(ProducerError): ...


class InvalidProducerIdMapping(ProducerError): ...


class InvalidTransactionState(ProducerError): ...


class ConcurrentTransactions(ProducerError): ...


class TransactionAbortable(ProducerError): ...


class TransactionalIdNotFound(ProducerError): ...


# --- groups ------------------------------------------------------------------------------------


class GroupError(MainstemError): ...


class UnknownMember(GroupError): ...


class IllegalGeneration(GroupError): ...


class RebalanceInProgress(GroupError): ...


class MemberIdRequired(GroupError):
    """Join again with the id that comes with this answer."""

    def __init__(self, member_id: str) -> None:
        super().__init__(f"join again as {member_id}")
        self.member_id = member_id


class InconsistentProtocol(GroupError): ...


class FencedInstanceId(GroupError): ...


class GroupNotFound(GroupError): ...


class GroupNotEmpty(GroupError): ...


class GroupFull(GroupError): ...


class AssignmentTooLarge(GroupError): ...


class FencedMemberEpoch(GroupError): ...


class StaleMemberEpoch(GroupError): ...


class UnreleasedInstanceId(GroupError): ...


class GroupSubscribedToTopic(GroupError): ...


class OffsetsUnstable(GroupError): ...


class CoordinatorClosing(GroupError): ...


class ShareSessionNotFound(GroupError): ...


class InvalidShareSessionEpoch(GroupError): ...


class ShareSessionLimitReached(GroupError): ...


class InvalidRecordState(GroupError):
    """Who acknowledges does not hold the records: their time was up, or they were never taken."""


# --- queues ------------------------------------------------------------------------------------


class QueueError(MainstemError): ...


class UnknownNamespace(QueueError): ...


class UnknownExchange(QueueError): ...


class UnknownQueue(QueueError): ...


class QueueLocked(QueueError): ...


class QueueInUse(QueueError): ...


class QueueNotEmpty(QueueError): ...


class ExchangeInUse(QueueError): ...


class NotForClients(QueueError):
    """A thing of the broker's own: it cannot be changed, deleted or published to."""


class Inequivalent(QueueError):
    """Something of that name exists, and differs in one argument."""

    def __init__(self, what: str, argument: str, received: object, current: object) -> None:
        has = f"without {argument}" if current is None else f"with {argument} {current!r}"
        wanted = (
            f"with {received!r}" if current is None else "without" if received is None else repr(received)
        )
        super().__init__(f"{what} exists {has}, not {wanted}")
        self.argument, self.received, self.current = argument, received, current


# --- access ------------------------------------------------------------------------------------


class AccessError(MainstemError): ...


class AuthenticationFailed(AccessError): ...


class UnsupportedMechanism(AccessError): ...


class IllegalSaslState(AccessError): ...


class SecurityDisabled(AccessError): ...


class TokensDisabled(AccessError): ...


class UnacceptableCredential(AccessError): ...


class DuplicateResource(AccessError): ...


class ResourceNotFound(AccessError): ...


class NotAuthorized(AccessError):
    """`principal` may not do `operation` on `resource` (kind, name)."""

    def __init__(self, principal: str, operation: str, kind: str, name: str) -> None:
        super().__init__(f"{principal} may not {operation} {kind} {name!r}")
        self.principal, self.operation, self.kind, self.name = principal, operation, kind, name


# --- storage -----------------------------------------------------------------------------------


class StorageError(MainstemError): ...


class DiskFull(StorageError): ...


class StorageFailed(StorageError): ...


class CorruptFile(StorageError):
    """Bytes on disk are not what was written; says where."""

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(f"{path} is corrupt at byte {position}: {why}")
        self.path, self.position, self.why = path, position, why


class BodyGone(StorageError): ...


class DataFolderLocked(StorageError): ...


class FormatTooNew(StorageError): ...


# --- our own client ----------------------------------------------------------------------------


class ClientError(MainstemError): ...


class BrokerUnreachable(ClientError): ...


class BrokerRefused(ClientError):
    """A broker answered with an error code; `what` is what was asked for."""

    def __init__(self, code: int, name: str, what: str, message: str | None = None) -> None:
        text = message or name.lower().replace("_", " ")
        # The broker's own words may name it already.
        _, quote, rest = what.partition("'")
        named = f"'{rest}" if quote else f"'{what}'"
        super().__init__(text if message and named in message else f"{what}: {text}")
        self.code, self.name, self.what = code, name, what


class DataLost(ClientError):
    """What was to be read is no longer there: deleted by retention, or with its topic."""


class NotSupported(MainstemError): ...
