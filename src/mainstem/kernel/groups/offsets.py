"""Committed offsets of all groups: what is durable about a group.

Rules:
- A key is (topic id, partition); topic ids are never reused, so a topic made anew under an old name starts
  without offsets.
- Offsets inside a transaction are staged under their producer id and become visible, or vanish, in one
  `TxnOffsetsEnded`. While one is staged its key is unstable.
- The order of the journal decides between commits of one key. A staged offset counts from when it was
  staged, not from when its transaction ended: a plain commit in between wins, and so does the offset of
  another transaction that was staged later and ended earlier.

A broker may hold 100,000 groups with a few partitions each, so an offset is not an object but one packed
`bytes` in its group's dict: 130 bytes per partition and 350 per group, all tables included.

    key    topic id (16)  partition (u32)
    value  offset (i64)  leader epoch (i32)  commit_ms (i64)  metadata (utf-8, the rest)
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Sequence
from struct import Struct
from typing import TypeAlias

import msgspec

from mainstem.kernel.groups.staged import Staged, StagedOffset
from mainstem.model.errors import OffsetMetadataTooLarge

KEY_PARTITION = Struct(">I")
VALUE = Struct("<qiq")


class CommittedOffset(msgspec.Struct, array_like=True, frozen=True):
    """One offset as a group committed it; `leader_epoch` is -1 where the client named none."""

    topic_id: bytes
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int


class OffsetsCommitted(msgspec.Struct, array_like=True, tag=40, frozen=True):
    """`consumer`: whether the group has the newer protocol; None leaves it as it was."""

    group: str
    offsets: Sequence[CommittedOffset]
    consumer: bool | None = None


class OffsetsDeleted(msgspec.Struct, array_like=True, tag=41, frozen=True):
    """Also drops what transactions have staged for these (topic id, partition) keys.

    With `committed_upto_ms` only what was committed until then goes, and nothing that is staged: offsets that
    expire must not take along a commit that was on its way to the disk when that was decided.
    """

    group: str
    keys: Sequence[tuple[bytes, int]]
    committed_upto_ms: int | None = None


class GroupDeleted(msgspec.Struct, array_like=True, tag=42, frozen=True):
    group: str


class TopicOffsetsDeleted(msgspec.Struct, array_like=True, tag=43, frozen=True):
    """The topic is gone: no group has offsets of it any more."""

    topic_id: bytes


class TxnOffsetsStaged(msgspec.Struct, array_like=True, tag=44, frozen=True):
    """`consumer` is true at once, however the transaction ends."""

    producer_id: int
    group: str
    offsets: Sequence[CommittedOffset]
    consumer: bool | None = None


class TxnOffsetsEnded(msgspec.Struct, array_like=True, tag=45, frozen=True):
    producer_id: int
    commit: bool


OffsetDelta: TypeAlias = (
    OffsetsCommitted
    | OffsetsDeleted
    | GroupDeleted
    | TopicOffsetsDeleted
    | TxnOffsetsStaged
    | TxnOffsetsEnded
)

# Offsets in one delta of a dump: a slice of a snapshot ends between deltas, and a group may have very many.
MOST_DUMPED = 1000


def pack_key(topic_id: bytes, partition: int) -> bytes:
    return topic_id + KEY_PARTITION.pack(partition)


def unpack_key(key: bytes) -> tuple[bytes, int]:
    return key[:16], KEY_PARTITION.unpack_from(key, 16)[0]


def pack_value(at: CommittedOffset) -> bytes:
    return VALUE.pack(at.offset, at.leader_epoch, at.commit_ms) + at.metadata.encode()


def unpack_offset(key: bytes, value: bytes) -> CommittedOffset:
    topic_id, partition = unpack_key(key)
    offset, leader_epoch, commit_ms = VALUE.unpack_from(value)
    return CommittedOffset(topic_id, partition, offset, leader_epoch, value[VALUE.size :].decode(), commit_ms)


def check_metadata(metadata: str, max_bytes: int) -> None:
    """Refuse a commit whose free text is too long; asked per partition, before a delta is made."""
    size = len(metadata.encode())
    if size > max_bytes:
        raise OffsetMetadataTooLarge(f"{size} bytes of offset metadata, {max_bytes} allowed")


class GroupOffsets:
    """The machine: `apply` deltas in journal order, ask in between."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[bytes, bytes]] = {}
        self._staged = Staged()
        # topic id -> the groups with an offset of it: one name, or a set as soon as there are two. The
        # plain name keeps a topic with one reader, the usual case, from costing a set of 216 bytes.
        self._readers: dict[bytes, str | set[str]] = {}
        # Of the groups that have something committed or staged: those whose members speak the newer protocol.
        self._consumer: set[str] = set()

    # --- questions -----------------------------------------------------------------------------

    def __contains__(self, group: object) -> bool:
        return group in self._committed

    def groups(self) -> KeysView[str]:
        """Groups with at least one committed offset."""
        return self._committed.keys()

    def get(self, group: str, topic_id: bytes, partition: int) -> CommittedOffset | None:
        key = pack_key(topic_id, partition)
        value = self._committed.get(group, {}).get(key)
        return None if value is None else unpack_offset(key, value)

    def is_consumer(self, group: str) -> bool:
        """Its last members spoke the newer protocol (KIP-848)."""
        return group in self._consumer

    def all(self, group: str) -> Iterator[CommittedOffset]:
        return (unpack_offset(key, value) for key, value in self._committed.get(group, {}).items())

    def unstable(self, group: str, topic_id: bytes, partition: int) -> bool:
        """True while an open transaction may still change this offset (require_stable readers wait)."""
        return self._staged.holds(group, pack_key(topic_id, partition))

    def has_staged(self, group: str) -> bool:
        return self._staged.holds_group(group)

    def expired(
        self, group: str, now_ms: int, retention_ms: int, empty_since_ms: int | None = None
    ) -> list[tuple[bytes, int]]:
        """Keys whose retention has passed since they were committed and since the group became empty.

        For groups without members only, and `empty_since_ms` is when that began (None: always was, the
        group only stores offsets). Feed the answer to `OffsetsDeleted`.
        """
        floor_ms = now_ms - retention_ms
        if empty_since_ms is not None and empty_since_ms > floor_ms:
            return []
        return [
            unpack_key(key)
            for key, value in self._committed.get(group, {}).items()
            if VALUE.unpack_from(value)[2] <= floor_ms and not self._staged.holds(group, key)
        ]

    # --- replay --------------------------------------------------------------------------------

    def apply(self, delta: OffsetDelta) -> None:
        match delta:
            case OffsetsCommitted(group, offsets, consumer):
                self._note_protocol(group, consumer)
                for at in offsets:
                    key = pack_key(at.topic_id, at.partition)
                    self._staged.supersede(group, key)
                    self._put(group, key, pack_value(at))
            case TxnOffsetsStaged(producer_id, group, offsets, consumer):
                self._note_protocol(group, consumer)
                for at in offsets:
                    self._staged.put(producer_id, group, pack_key(at.topic_id, at.partition), pack_value(at))
            case TxnOffsetsEnded(producer_id, commit):
                ended = self._staged.end(producer_id)
                for group, key, value, order in ended:
                    if commit and value is not None:
                        self._staged.supersede(group, key, before=order)
                        self._put(group, key, value)
                for group in {group for group, *_ in ended}:
                    self._forget_if_empty(group)
            case OffsetsDeleted(group, keys, committed_upto_ms):
                for topic_id, partition in keys:
                    self._drop(group, pack_key(topic_id, partition), committed_upto_ms)
                self._forget_if_empty(group)
            case GroupDeleted(group):
                self._staged.drop_group(group)
                for topic_id in {key[:16] for key in self._committed.pop(group, ())}:
                    self._remove_reader(topic_id, group)
                self._consumer.discard(group)
            case TopicOffsetsDeleted(topic_id):
                self._drop_topic(topic_id)

    def dump(self) -> Iterator[OffsetDelta]:
        """May be taken in slices while the machine changes, if the call is made in the turn that notes the
        journal position, and every delta is applied in the turn that finds it on disk.

        What is staged is copied in the call: replay ends each transaction once, so it must begin with those
        that were open there. Committed offsets may be newer than that: the last one to be replayed wins.
        """
        return self._dump(list(self._staged.superseded()), list(self._committed), list(self._staged.live()))

    def _dump(
        self, superseded: list[StagedOffset], groups: list[str], live: list[StagedOffset]
    ) -> Iterator[OffsetDelta]:
        """Superseded stages first, so that the commits after them supersede them again."""
        for producer_id, group, key, value in superseded:
            yield TxnOffsetsStaged(producer_id, group, [unpack_offset(key, value)], self.is_consumer(group))
        for group in groups:
            keys = list(self._committed.get(group, ()))
            for start in range(0, len(keys), MOST_DUMPED):
                yield from self._dump_some(group, keys[start : start + MOST_DUMPED])
        for producer_id, group, key, value in live:
            yield TxnOffsetsStaged(producer_id, group, [unpack_offset(key, value)], self.is_consumer(group))

    def _dump_some(self, group: str, keys: list[bytes]) -> Iterator[OffsetDelta]:
        """What is still there of these offsets: all may have been deleted since the slice before."""
        committed = self._committed.get(group, {})
        some = [unpack_offset(key, committed[key]) for key in keys if key in committed]
        if some:
            yield OffsetsCommitted(group, some, self.is_consumer(group))

    # --- the two tables, always changed together -------------------------------------------------

    def _put(self, group: str, key: bytes, value: bytes) -> None:
        offsets = self._committed.setdefault(group, {})
        if key not in offsets:
            self._add_reader(key[:16], group)
        offsets[key] = value

    def _drop(self, group: str, key: bytes, committed_upto_ms: int | None) -> None:
        offsets = self._committed.get(group)
        if committed_upto_ms is None:
            self._staged.drop(group, key)
        elif (
            offsets is not None and key in offsets and VALUE.unpack_from(offsets[key])[2] > committed_upto_ms
        ):
            return
        if offsets is None or offsets.pop(key, None) is None:
            return
        topic_id = key[:16]
        if not any(other.startswith(topic_id) for other in offsets):
            self._remove_reader(topic_id, group)
        if not offsets:
            del self._committed[group]

    def _drop_topic(self, topic_id: bytes) -> None:
        readers = self._readers.pop(topic_id, set())
        groups = {readers} if isinstance(readers, str) else readers
        for group in groups:
            offsets = self._committed[group]
            for key in [key for key in offsets if key.startswith(topic_id)]:
                del offsets[key]
            if not offsets:
                del self._committed[group]
        for group in groups | self._staged.drop_topic(topic_id):
            self._forget_if_empty(group)

    def _note_protocol(self, group: str, consumer: bool | None) -> None:
        if consumer:
            self._consumer.add(group)
        elif consumer is False:
            self._consumer.discard(group)

    def _forget_if_empty(self, group: str) -> None:
        if group not in self._committed and not self._staged.holds_group(group):
            self._consumer.discard(group)

    def _add_reader(self, topic_id: bytes, group: str) -> None:
        readers = self._readers.setdefault(topic_id, group)
        if isinstance(readers, set):
            readers.add(group)
        elif readers != group:
            self._readers[topic_id] = {readers, group}

    def _remove_reader(self, topic_id: bytes, group: str) -> None:
        readers = self._readers.get(topic_id)
        if isinstance(readers, set):
            readers.discard(group)
        if readers == group or not readers:
            self._readers.pop(topic_id, None)
