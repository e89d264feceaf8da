"""Offsets that open transactions have staged, in the order they were staged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

StagedOffset: TypeAlias = tuple[int, str, bytes, bytes]  # producer id, group, key, value


@dataclass(slots=True)
class Stage:
    order: int
    value: bytes
    superseded: bool = False  # a commit that came later has won; the key stays unstable until the end


class Staged:
    """Few and short-lived, unlike committed offsets, so plain objects will do."""

    def __init__(self) -> None:
        self._next_order = 0
        self._by_producer: dict[int, dict[tuple[str, bytes], Stage]] = {}
        self._producers: dict[str, set[int]] = {}  # group -> producers that staged something for it

    def put(self, producer_id: int, group: str, key: bytes, value: bytes) -> None:
        self._by_producer.setdefault(producer_id, {})[group, key] = Stage(self._next_order, value)
        self._next_order += 1
        self._producers.setdefault(group, set()).add(producer_id)

    def end(self, producer_id: int) -> list[tuple[str, bytes, bytes | None, int]]:
        """Forget this producer's stages; (group, key, value or None where superseded, order) of each."""
        stages = self._by_producer.pop(producer_id, {})
        for group in {group for group, _ in stages}:
            self._forget(group, producer_id)
        return [
            (group, key, None if stage.superseded else stage.value, stage.order)
            for (group, key), stage in stages.items()
        ]

    def supersede(self, group: str, key: bytes, before: int | None = None) -> None:
        for _, stage in self._of(group, key):
            if before is None or stage.order < before:
                stage.superseded = True

    def drop(self, group: str, key: bytes) -> None:
        for producer_id in list(self._producers.get(group, ())):
            stages = self._by_producer[producer_id]
            stages.pop((group, key), None)
            if not any(other == group for other, _ in stages):
                self._forget(group, producer_id)
            if not stages:
                del self._by_producer[producer_id]

    def drop_group(self, group: str) -> None:
        for key in [key for _, name, key, _ in self._all() if name == group]:
            self.drop(group, key)

    def drop_topic(self, topic_id: bytes) -> set[str]:
        """The groups that had staged something for it."""
        gone = {(group, key) for _, group, key, _ in self._all() if key.startswith(topic_id)}
        for group, key in gone:
            self.drop(group, key)
        return {group for group, _ in gone}

    def holds(self, group: str, key: bytes) -> bool:
        return any(True for _ in self._of(group, key))

    def holds_group(self, group: str) -> bool:
        return group in self._producers

    def superseded(self) -> Iterator[StagedOffset]:
        return ((who, group, key, stage.value) for who, group, key, stage in self._all() if stage.superseded)

    def live(self) -> Iterator[StagedOffset]:
        return (
            (who, group, key, stage.value) for who, group, key, stage in self._all() if not stage.superseded
        )

    def _all(self) -> list[tuple[int, str, bytes, Stage]]:
        stages = [
            (producer_id, group, key, stage)
            for producer_id, by_key in self._by_producer.items()
            for (group, key), stage in by_key.items()
        ]
        return sorted(stages, key=lambda entry: entry[3].order)

    def _of(self, group: str, key: bytes) -> Iterator[tuple[int, Stage]]:
        for producer_id in self._producers.get(group, ()):
            stage = self._by_producer[producer_id].get((group, key))
            if stage is not None:
                yield producer_id, stage

    def _forget(self, group: str, producer_id: int) -> None:
        producers = self._producers.get(group)
        if producers is not None:
            producers.discard(producer_id)
            if not producers:
                del self._producers[group]
