"""What a pipeline's files may say is in its page."""

import re
from pathlib import Path

import pytest

from mainstem.cli.pipeline import VERBS
from mainstem.cli.pipeline_init import PYTHON, SQL
from mainstem.pipeline.loading import load
from mainstem.pipeline.parsing import parse
from mainstem.pipeline.settings import PER_MESSAGE, READING, TABLE, WRITING
from mainstem.pipeline.validating import validate

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/pipelines/README.md").read_text()


@pytest.mark.parametrize("name", sorted({*READING, *WRITING, *TABLE, *PER_MESSAGE}))
def test_every_option_is_in_the_page(name):
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_in_the_page_of_commands(verb):
    assert f"mainstem pipeline {verb}" in (ROOT / "docs/operate/cli.md").read_text()


def test_the_sql_of_the_page_is_a_pipeline():
    blocks = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    assert blocks
    for block in blocks:
        assert parse(block, "README.md")


@pytest.mark.parametrize(("file", "text"), [("shop.sql", SQL), ("shop.py", PYTHON)])
def test_what_init_writes_is_a_sound_pipeline(tmp_path, monkeypatch, file, text):
    monkeypatch.chdir(tmp_path)
    Path(file).write_text(text.replace("{name}", "shop"))
    Path("shop-customers.csv").write_text("id,region\n")
    assert validate(load([Path(file)]), None).order
