from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import mainstem
from mainstem.config import SETTINGS, Config, load
from mainstem.config.sections import PLANNED
from mainstem.model.errors import InvalidConfig

SOURCE = Path(mainstem.__file__).parent


def keys_read(path: Path) -> Iterator[str]:
    """`section.key` for every `....section.key` in a file's code; comments and texts do not count."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            owner = node.value
            if isinstance(owner, ast.Attribute):
                yield f"{owner.attr}.{node.attr}"
            elif isinstance(owner, ast.Name):
                yield f"{owner.id}.{node.attr}"


def test_a_setting_is_planned_exactly_as_long_as_nothing_reads_it():
    by_method = {f"topics.{name.replace('.', '_')}" for name in Config().topics.configs()} | {"server.listen"}
    rooms = [path for path in SOURCE.rglob("*.py") if "config" not in path.relative_to(SOURCE).parts]
    read = {key for path in rooms for key in keys_read(path)} | by_method
    assert {key for key in SETTINGS if key not in read} == PLANNED, (
        "wired up: take it off PLANNED in config/sections.py and make the docs page again; "
        "new and unread: wire it up"
    )


def test_a_planned_setting_cannot_be_set_but_its_default_may_be_written_down(plan):
    plan("log.level")
    with pytest.raises(InvalidConfig, match="log.level is planned and not yet in effect"):
        load({"log.level": "debug"}, {})
    assert load({"log.level": "info"}, {}).log.level == "info"
