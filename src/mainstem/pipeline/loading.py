"""A pipeline's files, read and put together. Python files run here, before Spark does."""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.declare import noting
from mainstem.pipeline.parsing import Import, parse
from mainstem.pipeline.parts import Insert, Part, Pipeline, PipelineError, Position

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def load(files: list[Path], name: str = "") -> Pipeline:
    """From files, and what they import. A folder stands for the .sql and .py files in it."""
    chosen = [file for given in files for file in _files(given)]
    name = name or (files[0].stem if files[0].suffix else files[0].resolve().name)
    if not NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} is no name for a pipeline: use letters, digits, '.', '_', '-' (--name)"
        )
    parts: list[Part] = []
    seen: set[Path] = set()
    for file in chosen:
        _add(file, parts, seen)
    if not parts:
        raise InvalidRequest(f"{', '.join(map(str, files))}: nothing is declared there")
    folder = files[0] if files[0].is_dir() else files[0].parent
    numbered, has_python = tuple(_numbered(parts)), any(file.suffix == ".py" for file in seen)
    return Pipeline(name, tuple(map(str, files)), str(folder.resolve()), numbered, has_python)


def _numbered(parts: list[Part]) -> Iterator[Part]:
    """Inserts have no name of their own, and need one for their checkpoint."""
    counted: Counter[str] = Counter()
    for part in parts:
        if isinstance(part, Insert):
            counted[part.into.lower()] += 1
            yield replace(part, name=f"{part.into}-insert-{counted[part.into.lower()]}")
        else:
            yield part


def _files(given: Path) -> list[Path]:
    if given.is_dir():
        found = sorted([*given.glob("*.sql"), *given.glob("*.py")])
        if not found:
            raise InvalidRequest(f"{given}: no .sql or .py file in this folder")
        return found
    if given.suffix not in (".sql", ".py"):
        raise InvalidRequest(f"{given}: a pipeline is a .sql or a .py file")
    return [given]


def _add(file: Path, parts: list[Part], seen: set[Path]) -> None:
    if file.resolve() in seen:
        return
    seen.add(file.resolve())
    if file.suffix == ".py":
        parts += _python(file)
        return
    for part in parse(_text(file), str(file)):
        if not isinstance(part, Import):
            parts.append(part)
            continue
        other = file.parent / part.path
        if other.suffix not in (".sql", ".py") or not other.is_file():
            raise PipelineError(part.at, f"there is no .sql or .py file {str(other)!r}")
        _add(other, parts, seen)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{file}: not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise InvalidRequest(f"{file}: cannot be read: {error.strerror}") from None


def _python(file: Path) -> list[Part]:
    _text(file)
    name = f"mainstem_pipeline_{file.stem}"  # whatever it is called, it hides no other module
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent.resolve()))
    sys.modules[name] = module
    with noting() as noted:
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            raise _where(file, error) from error
        finally:
            sys.path.pop(0)
    return noted


def _where(file: Path, error: BaseException) -> Exception:
    """An error of the user's file, by the line of that file which led to it."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return PipelineError(
            Position(str(file), error.lineno, error.offset or 1), f"syntax error: {error.msg}"
        )
    lines = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == file.resolve()
    ]
    at = Position(str(file), (lines[-1].lineno or 1) if lines else 1, 1)
    return PipelineError(at, f"{type(error).__name__}: {error}")
