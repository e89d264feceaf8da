from __future__ import annotations

import pytest

from mainstem.model.errors import Inequivalent


@pytest.mark.parametrize(
    ("received", "current", "text"),
    [
        (100_000, None, "queue 'orders' exists without x-max-length, not with 100000"),
        (None, 7, "queue 'orders' exists with x-max-length 7, not without"),
        (8, 7, "queue 'orders' exists with x-max-length 7, not 8"),
    ],
)
def test_what_differs_is_told_in_words(received, current, text):
    assert str(Inequivalent("queue 'orders'", "x-max-length", received, current)) == text
