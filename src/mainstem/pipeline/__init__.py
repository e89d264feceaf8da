"""Pipelines: SQL and Python files that say what Spark computes over topics, and how they are run."""

from mainstem.pipeline.declare import (
    Message,
    function,
    message,
    read_stream,
    read_table,
    stream,
    table,
    view,
)

__all__ = ["Message", "function", "message", "read_stream", "read_table", "stream", "table", "view"]
