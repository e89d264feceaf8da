"""Hot modules compile where they can, and their plain source is enough where they cannot."""

import importlib.util
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from mainstem.model.hot import HOT_MODULES, compiled_modules

ROOT = Path(__file__).parents[3]
NEEDS_CYTHON = pytest.mark.skipif(
    importlib.util.find_spec("Cython") is None, reason="Cython is not installed, so nothing can be compiled"
)
NEEDS_COMPILER = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler on this machine"
)


def build_copy(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Build the model room in a copy, so that the working tree is left as it is."""
    model = folder / "src" / "mainstem" / "model"
    shutil.copytree(ROOT / "src" / "mainstem" / "model", model, ignore=shutil.ignore_patterns("*.so", "*.c"))
    shutil.copy(ROOT / "src" / "mainstem" / "__init__.py", model.parent)
    for name in ("setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    (folder / "README.md").touch()
    return subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def built_modules(folder: Path) -> list[str]:
    names = [
        path.name for path in (folder / "src").rglob("*") if path.name.endswith(tuple(EXTENSION_SUFFIXES))
    ]
    return sorted(name.split(".")[0] for name in names)


def test_every_module_that_exists_is_reported_once():
    found = compiled_modules()
    assert "mainstem.model.record_loop" in found
    assert set(found) <= set(HOT_MODULES)
    assert all(isinstance(compiled, bool) for compiled in found.values())


@NEEDS_CYTHON
@NEEDS_COMPILER
def test_the_compiled_loop_passes_the_tests_of_the_plain_one(tmp_path):
    done = build_copy(tmp_path)
    assert done.returncode == 0, done.stderr
    assert built_modules(tmp_path) == ["batch", "big_endian", "record_check", "record_loop"]
    tests = [
        ROOT / "tests/unit/model/test_records.py",
        ROOT / "tests/unit/model/test_batch_header.py",
        ROOT / "tests/unit/model/test_big_endian.py",
        ROOT / "tests/property/test_batch_codec.py",
    ]
    check = "from mainstem.model import record_loop; assert not record_loop.__file__.endswith('.py')"
    path = os.pathsep.join([str(tmp_path / "src"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", check], env=environment, cwd=tmp_path, check=True)
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:mainstem",
            *map(str, tests),
        ],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


@NEEDS_CYTHON
def test_without_a_compiler_the_build_succeeds_and_compiles_nothing(tmp_path):
    done = build_copy(tmp_path, CC="false", LDSHARED="false")
    assert done.returncode == 0, done.stderr
    assert built_modules(tmp_path) == []


def test_compiling_can_be_switched_off(tmp_path):
    done = build_copy(tmp_path, MAINSTEM_NO_COMPILE="1")
    assert done.returncode == 0, done.stderr
    assert built_modules(tmp_path) == []
