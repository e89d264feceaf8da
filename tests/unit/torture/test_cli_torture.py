from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from mainstem.cli.main import cli
from mainstem.torture import disks


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "precious").write_text("data")
    result = CliRunner().invoke(cli, ["torture", "--cycles", "1", "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert "not empty" in result.output
    assert (tmp_path / "precious").read_text() == "data"


def test_power_cuts_without_root_say_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(disks, "_may_mount", lambda: False)
    result = CliRunner().invoke(cli, ["torture", "--fault", "power", "--data", str(tmp_path / "new")])
    assert result.exit_code == 2
    assert "needs root" in result.output
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("text", ["soon", "0", "-5"])
def test_a_time_that_is_none_is_refused(text):
    result = CliRunner().invoke(cli, ["torture", "--for", text])
    assert result.exit_code == 2


def test_options_of_the_broker_alone_are_refused_before_spark():
    result = CliRunner().invoke(cli, ["torture", "--cycles", "3", "spark"])
    assert result.exit_code == 2
    assert "--cycles stands before spark" in result.output


def test_a_folder_that_holds_something_is_left_alone_by_queues_too(tmp_path):
    (tmp_path / "precious").write_text("data")
    result = CliRunner().invoke(cli, ["torture", "queues", "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert "not empty" in result.output


def test_without_pika_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pika", None)
    result = CliRunner().invoke(cli, ["torture", "queues"])
    assert result.exit_code == 1
    assert "pip install pika" in result.output


def test_a_folder_that_holds_something_is_left_alone_by_spark_too(tmp_path):
    pytest.importorskip("pyspark")
    (tmp_path / "precious").write_text("data")
    result = CliRunner().invoke(cli, ["torture", "spark", "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert "not empty" in result.output


def test_without_spark_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    result = CliRunner().invoke(cli, ["torture", "spark"])
    assert result.exit_code == 1
    assert "pip install 'mainstem[spark]'" in result.output
