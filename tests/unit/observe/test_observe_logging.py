from __future__ import annotations

import io
import json
import logging
import re

import pytest

from mainstem.model.logs import get_log
from mainstem.observe import start_logging


@pytest.fixture
def stream():
    """Whatever a test does to the global loggers is undone."""
    names = ("mainstem", "asyncio")
    before = [(logging.getLogger(n), list(logging.getLogger(n).handlers)) for n in names]
    level = logging.getLogger("mainstem").level
    yield io.StringIO()
    for logger, handlers in before:
        logger.handlers, logger.propagate = handlers, True
    logging.getLogger("mainstem").setLevel(level)


def test_people_read_time_level_message_and_facts(stream):
    start_logging("info", "text", stream)
    get_log("mainstem.test").event("connection closed", peer="127.0.0.1:5000", why="bad frame", count=3)
    line = stream.getvalue()
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} info ", line)
    assert line.endswith('connection closed peer=127.0.0.1:5000 why="bad frame" count=3\n')


def test_what_a_peer_sent_cannot_fake_a_line(stream):
    start_logging("info", "text", stream)
    get_log("mainstem.test").warning("odd client", name='x"\n2031-01-01 info all is well\x1b[2J')
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_machines_read_one_json_object_a_line(stream):
    start_logging("debug", "json", stream)
    log = get_log("mainstem.test")
    log.debug("first", path="/a", message="kept apart", time=5)
    log.error("second", error=ValueError("why"))
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["level"], first["log"], first["message"]) == ("debug", "mainstem.test", "first")
    assert (first["path"], first["message_"], first["time_"]) == ("/a", "kept apart", 5)
    assert first["time"].endswith("Z")
    assert second["error"] == "ValueError: why"
    assert "ValueError: why" in second["traceback"]


def test_an_error_shows_its_traceback_below_the_line(stream):
    start_logging("info", "text", stream)
    get_log("mainstem.test").error("task ended", error=ValueError("why"))
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith('task ended error="ValueError: why"')
    assert rest
    assert all(row.startswith("    ") for row in rest)


def test_lines_below_the_level_are_not_written(stream):
    start_logging("warning", "text", stream)
    get_log("mainstem.test").event("quiet")
    assert stream.getvalue() == ""


def test_uncaught_asyncio_errors_look_like_ours(stream):
    start_logging("info", "json", stream)
    try:
        raise OSError("lost")
    except OSError:
        logging.getLogger("asyncio").exception("Task exception was never retrieved")
    entry = json.loads(stream.getvalue())
    assert entry["log"] == "asyncio"
    assert "lost" in entry["traceback"]


def test_starting_twice_does_not_double_lines(stream):
    start_logging("info", "text", io.StringIO())
    start_logging("info", "text", stream)
    get_log("mainstem.test").event("once")
    assert stream.getvalue().count("once") == 1


@pytest.mark.parametrize("template", [None, "%(levelname)s: %(message)s"])
def test_handlers_of_somebody_elses_program_show_the_facts_too(template, capsys, monkeypatch):
    """Without a handler the standard library writes warnings to standard error: so do workers of Spark."""
    monkeypatch.setattr(logging.getLogger("mainstem"), "propagate", False)  # to those of pytest
    log = get_log("mainstem.test")
    if template is not None:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(template))
        monkeypatch.setattr(logging.getLogger("mainstem"), "handlers", [handler])
    log.warning("rows were refused", topic="orders", records=3, why="100 %\n")
    line = 'rows were refused topic=orders records=3 why="100 %\\n"\n'
    assert capsys.readouterr().err == (line if template is None else f"WARNING: {line}")
