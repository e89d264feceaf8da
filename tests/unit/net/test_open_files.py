"""Connections leave the log the files that it has to open."""

import resource

import pytest

from mainstem.net.open_files import SPARE_FILES, connections_that_fit


@pytest.mark.parametrize(
    ("limit", "taken"),
    [
        (resource.RLIM_INFINITY, 10_000),
        (65_536, 10_000),
        (10_000 + SPARE_FILES, 10_000),
        (4096, 4096 - SPARE_FILES),
        (256, 128),
    ],
)
def test_fewer_connections_are_taken_where_few_files_may_be_open(monkeypatch, limit, taken):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert connections_that_fit(10_000) == taken
