"""What a run writes stays, whatever runs follow it."""

from bench.run import free_stem


def test_a_later_run_of_the_same_commit_gets_a_name_of_its_own(tmp_path):
    assert free_stem(tmp_path, "2026-11-19-abc") == "2026-11-19-abc"
    (tmp_path / "2026-11-19-abc.json").write_text("{}")
    assert free_stem(tmp_path, "2026-11-19-abc") == "2026-11-19-abc-2"
    (tmp_path / "2026-11-19-abc-2.json").write_text("{}")
    assert free_stem(tmp_path, "2026-11-19-abc") == "2026-11-19-abc-3"
