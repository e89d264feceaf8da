from __future__ import annotations

import json

import pytest

from mainstem.cli.output import (
    Column,
    confirm,
    emit_record,
    emit_rows,
    human_bytes,
    human_ms,
    listed,
    printable,
    progress,
)
from mainstem.model.errors import InvalidRequest

ROWS = [{"name": "orders", "size": 2048, "hidden": True}, {"name": "[bold]x" + "y" * 200, "size": 5}]
COLUMNS = [Column("name", "topic"), Column("size", "size", "right", human_bytes)]


def test_people_get_chosen_columns_never_cut_in_a_pipe(capsys):
    emit_rows(ROWS, COLUMNS, as_json=False)
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["topic", "size"]
    assert "2.0 KiB" in out
    assert "[bold]x" + "y" * 200 in out
    assert "True" not in out


def test_machines_get_one_whole_object_per_line(capsys):
    emit_rows(ROWS, COLUMNS, as_json=True)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS


def test_no_rows_leave_the_result_empty(capsys):
    emit_rows([], COLUMNS, as_json=False, empty="No topics yet.")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "No topics yet.\n")


def test_a_record_is_a_line_per_fact_or_one_object(capsys):
    emit_record({"name": "orders", "partitions": 3}, as_json=False)
    assert capsys.readouterr().out == "name        orders\npartitions  3\n"
    emit_record({"name": "orders"}, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"name": "orders"}


def test_a_message_cannot_drive_the_terminal():
    assert printable("a\x1b[2Jb\n") == "a\\x1b[2Jb\\n"
    assert printable("für 5 €") == "für 5 €"


def test_without_a_terminal_only_yes_confirms(monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    confirm("delete orders", yes=True)
    with pytest.raises(InvalidRequest, match="^refused: this would delete orders; add --yes$"):
        confirm("delete orders", yes=False)


def test_at_a_terminal_the_deed_is_a_question_with_its_note(monkeypatch):
    asked = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.confirm", lambda question, **_: asked.append(question))
    confirm("delete topic 'a'", "It is gone then.", yes=False)
    confirm(f"delete {listed('topic', ['a', 'b'])}", yes=False)
    assert asked == ["Delete topic 'a'? It is gone then.", "Delete topics 'a', 'b'?"]


def test_progress_is_silent_without_a_terminal(capsys):
    with progress("copying", 10) as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**30, "1.0 GiB"), (2**50, "1024.0 TiB")],
)
def test_bytes_for_people(count, text):
    assert human_bytes(count) == text


@pytest.mark.parametrize(
    ("duration_ms", "text"), [(0.1234, "0.123 ms"), (999, "999 ms"), (1500, "1.5 s"), (604_800_000, "7 d")]
)
def test_durations_for_people(duration_ms, text):
    assert human_ms(duration_ms) == text


def test_yes_and_no_are_words_for_people_and_truth_for_programs(capsys):
    for as_json in (False, True):
        emit_record({"internal": False, "durable": True}, as_json=as_json)
    assert capsys.readouterr().out == 'internal  no\ndurable   yes\n{"internal": false, "durable": true}\n'
