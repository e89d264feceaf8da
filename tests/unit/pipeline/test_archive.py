"""The class archive of Spark's JVM: only whole files come into place, and one session at a time makes one."""

import os
import subprocess
import sys

import pytest

from mainstem.pipeline.archive import archive_path, finish, start_making

WHOLE = b"\xa8\xab\x0b\xf0 and the classes"


@pytest.mark.parametrize("data", [b"", b"\0\0", bytes(4096)])
def test_an_unfinished_file_is_dropped(tmp_path, data):
    unfinished, path = tmp_path / "x.jsa.1", tmp_path / "x.jsa"
    unfinished.write_bytes(data)

    assert not finish(unfinished, path)
    assert list(tmp_path.iterdir()) == []


def test_a_jvm_that_wrote_nothing_leaves_nothing(tmp_path):
    assert not finish(tmp_path / "x.jsa.1", tmp_path / "x.jsa")


def test_one_session_at_a_time_makes_it_and_leftovers_of_a_killed_one_are_dropped(tmp_path):
    path = tmp_path / "cache" / "x.jsa"
    path.parent.mkdir()
    (path.parent / "x.jsa.77").write_bytes(WHOLE)

    first = start_making(path)

    assert first is not None
    assert not (path.parent / "x.jsa.77").exists()
    assert start_making(path) is None
    for descriptor in (first.lock, first.ends, first.held):
        os.close(descriptor)
    assert start_making(path) is not None


def test_nothing_is_made_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("not a folder")

    assert start_making(tmp_path / "file" / "x.jsa") is None


def test_the_file_comes_into_place_when_its_writer_ends(tmp_path):
    path = tmp_path / "x.jsa"
    making = start_making(path)
    assert making is not None
    finisher = [sys.executable, "-m", "mainstem.pipeline.archive", str(making.unfinished), str(path)]
    writer = subprocess.Popen(
        [sys.executable, "-c", f"input(); open({str(making.unfinished)!r}, 'wb').write({WHOLE!r})"],
        stdin=subprocess.PIPE,
        pass_fds=(making.held,),
    )
    making.launched()
    waiting = subprocess.Popen(finisher, stdin=making.ends)

    assert not path.exists()
    writer.communicate(b"\n")
    assert waiting.wait(timeout=60) == 0
    assert path.read_bytes() == WHOLE


def test_another_java_or_spark_has_an_archive_of_its_own(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name / "jars").mkdir(parents=True)
        (tmp_path / name / "java").write_text(name)
    one, two = tmp_path / "one", tmp_path / "two"

    names = {archive_path(tmp_path, str(java / "java"), spark) for java in (one, two) for spark in (one, two)}

    assert len(names) == 4
    assert archive_path(tmp_path, str(one / "java"), one) in names
