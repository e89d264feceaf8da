from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_the_tour_names_files_that_exist():
    named = re.findall(r"`([a-z0-9_]+/[a-z0-9_/]+\.py)`", (ROOT / "docs" / "tour.md").read_text())
    assert named
    assert [name for name in named if not (ROOT / "src" / "mainstem" / name).exists()] == []


def test_python_snippets_of_the_readme_compile():
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(snippets) >= 3
    for snippet in snippets:
        compile(snippet, "README.md", "exec")


def test_every_make_target_in_the_docs_exists():
    text = "\n".join(page.read_text() for page in PAGES)
    named = set(re.findall(r"(?:^|`|\$ )make ([a-z][a-z-]*)", text, re.MULTILINE))
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"run", "test", "lint", "bench"} <= named <= targets


def test_the_shell_script_that_makes_the_environment_parses():
    subprocess.run(["sh", "-n", str(ROOT / "tools" / "venv.sh")], check=True)
