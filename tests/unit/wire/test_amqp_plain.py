"""The hot AMQP modules hold both a compiled and a plain way: where one runs, the other is tested here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mainstem.model.hot import compiled_modules

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent


def test_the_plain_source_passes_the_tests_of_the_compiled_one(tmp_path):
    if not compiled_modules()["mainstem.wire.amqp.scan"]:
        pytest.skip("nothing is compiled here: the other tests have run the plain source")
    source, copy = ROOT / "src" / "mainstem", tmp_path / "mainstem"
    no_binaries = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    for room in ("model", "wire"):
        shutil.copytree(source / room, copy / room, ignore=no_binaries)
    shutil.copy(source / "__init__.py", copy)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    check = "from mainstem.wire.amqp import scan; assert scan.__file__.endswith('.py')"
    environment = os.environ | {"PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", check], env=environment, cwd=tmp_path, check=True)
    tests = [HERE / "test_amqp_scan.py", HERE / "test_amqp_deliver.py"]
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:mainstem"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *map(str, tests)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
