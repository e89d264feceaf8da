"""Compiles the hot modules, if it can. Everything else about the package is in pyproject.toml.

The hot modules are plain Python with their C types in a .pxd file beside them; Cython makes them faster and
nothing depends on it. No compiler, no Cython, or MAINSTEM_NO_COMPILE=1: the same source runs as it is.
`python setup.py build_ext --inplace` compiles a working tree; `mainstem doctor` tells what runs compiled.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

ROOT = Path(__file__).parent
LIST = ROOT / "src" / "mainstem" / "model" / "hot.py"
# Bounds stay checked: these modules read bytes from the network. Annotations stay what they are in Python, so
# that `int` has no upper end unless a .pxd file says so.
DIRECTIVES = {"language_level": 3, "annotation_typing": False, "wraparound": False}
FLAGS = ["-g0"] if os.name == "posix" else []  # debug symbols would be four fifths of the module


def hot_modules() -> list[str]:
    """`HOT_MODULES` of mainstem.model.hot, read without importing the package and what it depends on."""
    scope: dict[str, object] = {}
    exec(compile(LIST.read_text(), str(LIST), "exec"), scope)
    modules = scope["HOT_MODULES"]
    assert isinstance(modules, tuple)
    return list(modules)


def extensions() -> list[Extension]:
    if os.environ.get("MAINSTEM_NO_COMPILE"):
        return []
    try:
        from Cython.Build import cythonize
        from Cython.Compiler.Errors import CompileError
    except ImportError:
        return []
    found: list[Extension] = []
    for module in hot_modules():
        source = Path("src", *module.split(".")).with_suffix(".py")
        if not (ROOT / source).exists():
            continue
        try:
            extension = Extension(module, [str(source)], extra_compile_args=FLAGS)
            made = cythonize([extension], build_dir="build/cython", compiler_directives=DIRECTIVES)
        except CompileError as error:
            print(f"warning: {module} will run uncompiled: {error}", file=sys.stderr)
            continue
        for extension in made:
            extension.optional = True  # here, since cythonize makes new ones without it
        found += made
    return found


setup(ext_modules=extensions())
