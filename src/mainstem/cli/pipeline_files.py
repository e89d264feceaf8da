"""What the verbs that take a pipeline's files share: loading and checking them, and saying what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from mainstem.cli.output import remark
from mainstem.client.settings import ClientSettings
from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.parts import Pipeline, PipelineError, PipelineErrors

F = TypeVar("F", bound=Callable[..., Any])
FOLDER = "mainstem-checkpoints"
_SECRETS = (
    re.compile(r"(://[^:/@\s]+:)([^@]+)(?=@)"),
    re.compile(r"((?:password|secret|token|jaas[\w.]*)\W{0,3}=\s*['\"]?)([^'\"&;\s]+)", re.IGNORECASE),
    re.compile(r"(:thin:[^/\s]+/)([^@]+)(?=@)"),
)


def files_argument(function: F) -> F:
    """Adds FILES and --name."""
    function = click.option("--name", default="", help="Its name. [that of the first file]")(function)
    return click.argument(
        "files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="FILE..."
    )(function)


def load_checked(
    files: tuple[Path, ...],
    name: str,
    settings: ClientSettings | None,
    spark: Mapping[str, str] | None = None,
) -> tuple[Pipeline, Any]:
    """Loaded and checked. Every mistake is told on its own line, with exit code 2; a doubt is a remark."""
    try:
        from mainstem.pipeline.loading import load
        from mainstem.pipeline.validating import validate
    except ImportError:
        from mainstem.pipeline.session import NEEDS_SPARK

        raise InvalidRequest(NEEDS_SPARK) from None
    try:
        pipeline = load(list(files), name)
        checked = validate(pipeline, settings, spark)
    except PipelineErrors as errors:
        raise InvalidRequest("\n".join(map(shown, errors.all))) from None
    except PipelineError as error:
        raise InvalidRequest(shown(error)) from None
    for doubt in checked.doubts:
        remark(f"warning: {shown(doubt)}")
    return pipeline, checked


def shown(error: PipelineError) -> str:
    """With the line it is about and a mark under the place, where the file can be read."""
    try:
        line = Path(error.at.file).read_text(encoding="utf-8").splitlines()[error.at.line - 1]
    except (OSError, IndexError, UnicodeDecodeError):
        return str(error)
    line = hidden(line)
    mark = "".join("\t" if c == "\t" else " " for c in line[: error.at.column - 1]) + "^"
    return f"{error}\n    {line}\n    {mark}"


def hidden(text: str) -> str:
    """With stars for what looks like a password; as long as before, so that marks stay in place."""
    for secret in _SECRETS:
        text = secret.sub(lambda found: found[1] + "*" * len(found[2]), text)
    return text


def checkpoints_of(pipeline: Pipeline, given: str | None) -> str:
    """By default beside the file: found again from wherever the command is run."""
    base = given or f"{pipeline.folder}/{FOLDER}"
    return f"{base.rstrip('/')}/{pipeline.name}"
