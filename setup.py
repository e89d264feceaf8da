"""Compiles the hot modules, if it can. Everything else about the package is in pyproject.toml.

The hot modules are plain Python with their C types in a .pxd file beside them; Cython makes them faster and
nothing depends on it. No compiler, no Cython, or MAINSTEM_NO_COMPILE=1: the same source runs as it is. It is
all of them or none, because they call each other past Python: one that was compiled needs the others to be.
`python setup.py build_ext --inplace` compiles a working tree; `mainstem doctor` tells what runs compiled.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
LIST = ROOT / "src" / "mainstem" / "model" / "hot.py"
# Bounds stay checked: these modules read bytes from the network. Annotations stay what they are in Python, so
# that `int` has no upper end unless a .pxd file says so.
DIRECTIVES = {"language_level": 3, "annotation_typing": False, "show_performance_hints": False}
# Debug symbols would be four fifths of the module; the warning is about C that Cython writes.
FLAGS = ["-g0", "-Wno-sign-compare"] if os.name == "posix" else []


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
        if (ROOT / source).exists():
            types = source.with_suffix(".pxd")
            # As a dependency, the file of types is part of a source distribution too.
            depends = [str(types)] if (ROOT / types).exists() else []
            found.append(Extension(module, [str(source)], depends=depends, extra_compile_args=FLAGS))
    try:
        made = cythonize(found, build_dir="build/cython", compiler_directives=DIRECTIVES)
    except CompileError as error:
        print(f"warning: everything will run uncompiled: {error}", file=sys.stderr)
        return []
    for extension in made:
        extension.optional = True  # here, since cythonize makes new ones without it
    return list(made)


class AllOrNone(build_ext):
    """Takes back what was compiled if something was not."""

    def build_extensions(self) -> None:
        super().build_extensions()
        built = [Path(self.get_ext_fullpath(extension.name)) for extension in self.extensions]
        if not all(path.exists() for path in built):
            for path in built:
                path.unlink(missing_ok=True)


setup(ext_modules=extensions(), cmdclass={"build_ext": AllOrNone})
