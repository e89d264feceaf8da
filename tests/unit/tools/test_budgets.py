from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "tools" / "budgets.py"


@pytest.fixture
def budgets(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("budgets", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "budgets", module)
    spec.loader.exec_module(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "EXCEPTIONS", {})
    Path("src").mkdir()
    Path("tests/a").mkdir(parents=True)
    Path("tests/b").mkdir()
    return module


def test_small_files_pass(budgets, capsys):
    Path("src/a.py").write_text("def f(self, a, b): ...\n")
    assert budgets.main() == 0
    assert "1 files within budget" in capsys.readouterr().out


def test_long_files_long_functions_and_many_parameters_are_named(budgets, capsys):
    Path("src/long.py").write_text("x = 1\n" * 601)
    Path("src/f.py").write_text(
        "def long():\n" + "    x = 1\n" * 80 + "def wide(a, b, c, d, e, f, g, h, *, i): ...\n"
    )
    assert budgets.main() == 1
    assert capsys.readouterr().out.splitlines() == [
        "src/f.py:1: long has 81 lines, at most 80",
        "src/f.py:82: wide has 9 parameters, at most 8",
        "src/long.py: 601 lines, at most 600",
    ]


def test_an_exception_with_a_reason_passes_until_it_is_not_needed(budgets, capsys):
    Path("src/long.py").write_text("x = 1\n" * 601)
    budgets.EXCEPTIONS["src/long.py"] = "a table that reads best in one piece"
    assert budgets.main() == 0
    Path("src/long.py").write_text("x = 1\n")
    assert budgets.main() == 1
    assert "src/long.py: no longer needs its exception" in capsys.readouterr().out


def test_two_test_files_of_one_name_are_refused(budgets, capsys):
    Path("tests/a/test_x.py").touch()
    Path("tests/b/test_x.py").touch()
    assert budgets.main() == 1
    assert "a test file of that name exists: tests/a/test_x.py" in capsys.readouterr().out
