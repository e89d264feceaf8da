from __future__ import annotations

import importlib

import pytest


@pytest.fixture
def plan(monkeypatch):
    """Say which settings count as planned. By module, since the package exports a function of its name."""
    module = importlib.import_module("mainstem.config.load")
    return lambda *keys: monkeypatch.setattr(module, "PLANNED", frozenset(keys))


@pytest.fixture
def nothing_planned(plan):
    """For tests of what a setting means, whether or not a room reads it yet."""
    plan()
