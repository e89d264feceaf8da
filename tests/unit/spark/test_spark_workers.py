"""What a worker of Spark has loaded is not looked at again between its tasks."""

from __future__ import annotations

import gc

from mainstem.spark.workers import settle


def test_what_is_loaded_is_frozen_once() -> None:
    settle.cache_clear()
    before = gc.get_freeze_count()
    try:
        settle()
        frozen = gc.get_freeze_count()
        assert frozen > before
        later = [[number] for number in range(1000)]
        settle()
        assert gc.get_freeze_count() <= frozen, "what came later is not kept for good"
        assert any(each is later for each in gc.get_objects())
    finally:
        gc.unfreeze()
