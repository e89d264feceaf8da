"""Functions that SQL may call: Spark's own, as a real Spark listed them, and whether there may be others.

The list is a fact about one version of Spark. Only what is certain is refused: a newer Spark may have more
functions, and so may one that loads extensions or keeps functions in a catalog.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import metadata, resources
from pathlib import Path

from sqlglot import exp

from mainstem.pipeline.dialect import Text, position_of
from mainstem.pipeline.parts import PipelineError

LIST = "spark_functions.txt"  # made by tools/spark_functions.py
# Words of Spark's grammar that are written like functions, and are in no list.
SYNTAX = frozenset({"identifier", "timediff", "timestampadd", "timestampdiff", "try_cast"})
# Settings by which a session gets functions of others.
EXTENDING = ("spark.sql.extensions", "spark.sql.catalog")
_VERSION = re.compile(r"(\d+)\.(\d+)")
_CALL = re.compile(r"\s*\(")
_NAME = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Functions:
    names: frozenset[str]  # in lower case
    may_have_more: bool


def spark_functions(settings: Mapping[str, str], installed: str | None = None) -> Functions:
    """Of the Spark that a pipeline will run with: the one that is `installed`, with some settings.

    Pipelines are also checked where there is none; then it is taken for that of the list.
    """
    version, names = _listed()
    extended = any(name.startswith(EXTENDING) for name in settings) or _defaults_extend()
    newer = _major_minor(_installed() if installed is None else installed) > version
    return Functions(names | SYNTAX, extended or newer)


@cache
def _listed() -> tuple[tuple[int, int], frozenset[str]]:
    """The list, and the version of the Spark that it was taken from, which stands in its first line."""
    head, *lines = resources.files(__package__).joinpath(LIST).read_text(encoding="utf-8").splitlines()
    return _major_minor(head), frozenset(lines)


def _installed() -> str:
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return ""


def _major_minor(text: str) -> tuple[int, int]:
    found = _VERSION.search(text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _defaults_extend() -> bool:
    """Whether spark-defaults.conf names such a setting; Spark reads it by itself."""
    folders = [os.environ.get("SPARK_CONF_DIR"), f"{os.environ.get('SPARK_HOME', '')}/conf"]
    for folder in filter(None, folders):
        try:
            lines = (Path(folder) / "spark-defaults.conf").read_text(errors="replace").splitlines()
        except OSError:
            continue
        if any(line.strip().startswith(EXTENDING) for line in lines):
            return True
    return False


def unknown_functions(tree: exp.Query, text: Text, known: Collection[str]) -> Iterator[PipelineError]:
    """`known` are names in lower case."""
    for node in tree.find_all(exp.Func):
        name = _called(node, text)
        if name and name.lower() not in known:
            near = get_close_matches(name.lower(), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            yield PipelineError(position_of(node, text), f"there is no function {name!r}{hint}")


def _called(node: exp.Func, text: Text) -> str:
    """The name as it is written; empty for what is no call by name, a hint, or a function of a catalog."""
    is_other = isinstance(node.parent, exp.Dot) or node.find_ancestor(exp.Hint) is not None
    if "start" not in node.meta or is_other:
        return ""
    begin, end = node.meta["start"], node.meta["end"] + 1
    name = text.text[begin:end].strip("`")
    return name if _NAME.fullmatch(name) and _CALL.match(text.text, end) else ""
