"""What went wrong, in a line for people: Spark's errors carry plans and the traces of two languages."""

from __future__ import annotations

import re

from mainstem.model.errors import MainstemError
from mainstem.pipeline.parts import PipelineError

# Our own errors, raised in a process of Spark's and handed on as text.
_OURS = re.compile(r"mainstem\.[\w.]+\.(\w+): (.+)")
_PYTHON = re.compile(r"^(?:[\w.]*\.)?(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
_CALLED = "An error occurred while calling"  # Py4J's; what it was comes in the next line
_AGGREGATE = "Append output mode not supported"
LONGEST = 500


def reason(error: BaseException) -> str:
    """The one line that helps."""
    if isinstance(error, MainstemError):
        return str(error)
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        return _cut(ours[-1][1])
    if "Traceback" in text:
        python = _PYTHON.findall(text[text.rindex("Traceback") :])
        if python:
            return _cut(f"{python[-1][0]}: {python[-1][1]}")
    lines = [line.strip() for line in _STATE.sub("", text).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith(_CALLED):
        lines[0] = lines[1].lstrip(": ")
    first = lines[0] if lines else type(error).__name__
    if _AGGREGATE in text or "STREAMING_OUTPUT_MODE" in text:
        first += " Give the stream a timestamp and a watermark, or write output = 'changelog'."
    return _cut(first)


def where(error: BaseException) -> str:
    """The position that was noted when the part was made, if any."""
    if isinstance(error, PipelineError):
        return ""
    notes = getattr(error, "__notes__", [])
    return f"{notes[-1]}: " if notes else ""


def _cut(text: str) -> str:
    text = text.strip().rstrip("\\")
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
