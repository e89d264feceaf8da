"""Mainstem's errors as Kafka's error codes: one table, and a test that it is complete."""

from __future__ import annotations

from mainstem.model import errors as e

NONE = 0
UNKNOWN_SERVER_ERROR = -1
UNSUPPORTED_VERSION = 35

CODES: dict[type[e.MainstemError], int] = {
    e.MainstemError: UNKNOWN_SERVER_ERROR,
    e.OffsetOutOfRange: 1,
    e.CorruptBatch: 2,
    e.GrowsTooLarge: 10,  # for which some clients split a batch
    e.UnknownTopic: 3,
    e.RequestTimedOut: 7,
    e.BatchTooLarge: 10,
    e.OffsetMetadataTooLarge: 12,
    e.CoordinatorClosing: 15,
    e.InvalidTopicName: 17,
    e.InvalidRequiredAcks: 21,
    e.IllegalGeneration: 22,
    e.InconsistentProtocol: 23,
    e.InvalidGroupId: 24,
    e.UnknownMember: 25,
    e.InvalidSessionTimeout: 26,
    e.RebalanceInProgress: 27,
    e.InvalidCommitOffsetSize: 28,
    e.InvalidTimestamp: 32,
    e.UnsupportedMechanism: 33,
    e.IllegalSaslState: 34,
    e.UnsupportedVersion: UNSUPPORTED_VERSION,
    e.TopicExists: 36,
    e.InvalidPartitions: 37,
    e.InvalidReplicationFactor: 38,
    e.InvalidReplicaAssignment: 39,
    e.InvalidConfig: 40,
    e.InvalidRequest: 42,
    e.RequestTooLarge: 42,
    e.NotSupported: UNSUPPORTED_VERSION,
    e.UnsupportedBatchFormat: 43,
    e.PolicyViolation: 44,
    e.ProducerError: UNKNOWN_SERVER_ERROR,
    e.OutOfOrderSequence: 45,
    e.DuplicateSequence: 46,
    e.InvalidProducerEpoch: 47,
    e.InvalidTransactionState: 48,
    e.InvalidProducerIdMapping: 49,
    e.InvalidTransactionTimeout: 50,
    e.ConcurrentTransactions: 51,
    e.SecurityDisabled: 54,
    e.StorageError: 56,
    e.DiskFull: 56,
    e.StorageFailed: 56,
    e.CorruptFile: 56,
    e.DataFolderLocked: 56,
    e.FormatTooNew: 56,
    e.AuthenticationFailed: 58,
    e.UnknownProducer: 59,
    e.TokensDisabled: 61,
    e.InvalidPrincipal: 67,
    e.GroupNotEmpty: 68,
    e.GroupNotFound: 69,
    e.FencedLeaderEpoch: 74,
    e.UnknownLeaderEpoch: 75,
    e.UnsupportedCompression: 76,
    e.MemberIdRequired: 79,
    e.GroupFull: 81,
    e.FencedInstanceId: 82,
    e.GroupSubscribedToTopic: 86,
    e.InvalidRecord: 87,
    e.OffsetsUnstable: 88,
    e.ProducerFenced: 90,
    e.ResourceNotFound: 91,
    e.DuplicateResource: 92,
    e.UnacceptableCredential: 93,
    e.UnknownTopicId: 100,
    e.TransactionalIdNotFound: 105,
    e.FencedMemberEpoch: 110,
    e.UnreleasedInstanceId: 111,
    e.UnsupportedAssignor: 112,
    e.StaleMemberEpoch: 113,
    e.TransactionAbortable: 120,
    e.InvalidRecordState: 121,
    e.ShareSessionNotFound: 122,
    e.InvalidShareSessionEpoch: 123,
    e.InvalidRegularExpression: 128,
    e.ShareSessionLimitReached: 133,
    # What Kafka answers when a group's record is too large to be written; clients tell their user and stop.
    e.AssignmentTooLarge: UNKNOWN_SERVER_ERROR,
    e.GroupError: UNKNOWN_SERVER_ERROR,
    e.QueueError: 42,
    e.AccessError: 58,
    e.ClientError: UNKNOWN_SERVER_ERROR,  # a client's own, never a broker's
    e.BrokerUnreachable: UNKNOWN_SERVER_ERROR,
    e.BrokerRefused: UNKNOWN_SERVER_ERROR,
    e.NotAuthorized: UNKNOWN_SERVER_ERROR,  # by kind of resource, see below
}

# NotAuthorized has one code per kind of resource.
NOT_AUTHORIZED = {
    "topic": 29,
    "group": 30,
    "cluster": 31,
    "transactional_id": 53,
    "delegation_token": 65,
}


def code_of(error: BaseException) -> int:
    """The code for an error, or that of its nearest ancestor; a bug is UNKNOWN_SERVER_ERROR."""
    if isinstance(error, e.NotAuthorized):
        return NOT_AUTHORIZED.get(error.kind, 31)
    for cls in type(error).__mro__:
        code = CODES.get(cls)
        if code is not None:
            return code
    return UNKNOWN_SERVER_ERROR


def code_of_read(error: BaseException) -> int:
    """As `code_of`, for who asked for records."""
    if isinstance(error, e.CorruptFile):
        # To ask again is of no use, and clients that are told of storage do so for ever, without a word.
        return CODES[e.CorruptBatch]
    return code_of(error)


# Longest error message: fits the short strings of old versions, however it is encoded.
_LONGEST_TEXT = 1000


def text_of(error: BaseException) -> str:
    """What an error says, for a response's message field. Names in it may be as long as a client likes."""
    return str(error)[:_LONGEST_TEXT]
