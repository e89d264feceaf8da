"""Keep files and functions small enough to read: `python tools/budgets.py` from the root of the repository.

Budgets: 600 lines a file, 80 lines a function, 8 parameters. An exception is listed below with its reason;
one that is no longer needed fails too. Test files need distinct names, because pytest imports them by name
alone.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("src", "tests", "bench", "examples", "tools")
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 80
MAX_PARAMETERS = 8

# "path" or "path:function" -> why it reads better over budget.
EXCEPTIONS: dict[str, str] = {}


def over_budget(path: Path) -> Iterator[tuple[str, str]]:
    """(name of the exception it would need, what is wrong) for everything too big in one file."""
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    if lines > MAX_FILE_LINES:
        yield f"{path}", f"{path}: {lines} lines, at most {MAX_FILE_LINES}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name, where = f"{path}:{node.name}", f"{path}:{node.lineno}: {node.name}"
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield name, f"{where} has {length} lines, at most {MAX_FUNCTION_LINES}"
            if parameters(node) > MAX_PARAMETERS:
                yield name, f"{where} has {parameters(node)} parameters, at most {MAX_PARAMETERS}"


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in given)


def repeated_test_names(paths: list[Path]) -> Iterator[str]:
    seen: dict[str, Path] = {}
    for path in paths:
        if path.name.startswith("test_") and seen.setdefault(path.name, path) != path:
            yield f"{path}: a test file of that name exists: {seen[path.name]}"


def main() -> int:
    # What lies in a hidden folder was fetched, not written.
    every = (path for folder in FOLDERS for path in Path(folder).rglob("*.py"))
    paths = sorted(path for path in every if not any(part.startswith(".") for part in path.parts))
    found = [finding for path in paths for finding in over_budget(path)]
    wrong = [text for name, text in found if name not in EXCEPTIONS]
    wrong += [f"{name}: no longer needs its exception" for name in EXCEPTIONS if name not in dict(found)]
    wrong += repeated_test_names(paths)
    print("\n".join(wrong) or f"{len(paths)} files within budget")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
