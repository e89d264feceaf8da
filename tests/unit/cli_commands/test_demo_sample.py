"""The figures that the demo's pipeline must find."""

import json
from datetime import UTC, datetime

from mainstem.cli.demo_results import committed_files
from mainstem.cli.demo_sample import (
    WATERMARK_S,
    WINDOW_S,
    Expected,
    Figure,
    figure_of,
    region_of,
    write_sample,
)
from mainstem.pipeline.loading import load
from mainstem.pipeline.validating import validate

T0_S = 1_800_000_000 // WINDOW_S * WINDOW_S


def order(customer: str, amount: float, at_s: float) -> bytes:
    time = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="microseconds")
    return json.dumps({"id": 1, "customer": customer, "amount": amount, "time": time}).encode()


def expected() -> Expected:
    made = Expected()
    for customer, amount, past_s in (("c-0000", 0.1, 0), ("c-0004", 0.2, 59.9), ("c-0001", 5.0, 60)):
        made.add(order(customer, amount, T0_S + past_s))
    return made


def test_nothing_is_closed_before_the_watermark_has_passed_it():
    made = expected()
    made.add(order("c-0002", 1.0, T0_S + WINDOW_S + WATERMARK_S - 0.001))
    assert made.closed() == {}
    made.add(order("c-0002", 1.0, T0_S + WINDOW_S + WATERMARK_S))
    window = (T0_S, region_of("c-0000"))
    assert made.closed() == {window: Figure(*window, 30, 2)}


def test_missing_wrong_and_early_rows_are_told():
    made = expected()
    made.add(order("c-0002", 1.0, T0_S + 2 * WINDOW_S + WATERMARK_S))
    right = dict(made.closed())
    assert list(made.differences(right, "topic")) == []
    first, second = sorted(right)
    assert "no row for" in next(made.differences({first: right[first]}, "topic"))
    wrong = right | {second: Figure(*second, 1, 1)}
    assert "it must be 5.00 of 1" in next(made.differences(wrong, "topic"))
    early = (T0_S + 50 * WINDOW_S, "north")
    assert "cannot be over" in next(made.differences(right | {early: Figure(*early, 1, 1)}, "topic"))


def test_a_row_of_the_result_is_read_in_cents():
    value = b'{"minute": "2027-01-15T08:00:00.000000Z", "region": "north", "revenue": 19.99, "orders": 3}'
    at_s = int(datetime(2027, 1, 15, 8, tzinfo=UTC).timestamp())
    assert figure_of(value) == Figure(at_s, "north", 1999, 3)


def test_the_sample_is_a_sound_pipeline(tmp_path):
    file = write_sample(tmp_path / "sample")
    checked = validate(load([file]), None)
    assert checked.columns["lake"] == ("minute", "region", "revenue", "orders")


def test_files_are_counted_once_where_spark_has_gathered_its_notes(tmp_path):
    def note(name: str, *files: str) -> None:
        lines = [json.dumps({"path": f"file:///lake/{file}", "action": "add"}) for file in files]
        (tmp_path / name).write_text("\n".join(["v1", *lines]))

    note("8", "a%20b.parquet")
    note("9.compact", "a%20b.parquet", "c.parquet")
    note("10", "d.parquet")
    (tmp_path / ".10.crc").write_bytes(b"")
    assert committed_files(tmp_path) == ["/lake/a b.parquet", "/lake/c.parquet", "/lake/d.parquet"]


def test_the_sample_is_written_anew_while_somebody_still_writes_into_the_old_one(tmp_path, monkeypatch):
    folder = tmp_path / "mainstem-sample"
    write_sample(folder)
    (folder / "checkpoint").mkdir()

    def rmtree_and_write(path, **_):
        folder.mkdir(exist_ok=True)  # by whoever has not ended yet

    monkeypatch.setattr("mainstem.cli.demo_sample.shutil.rmtree", rmtree_and_write)
    assert write_sample(folder).exists()
    assert not (folder / "checkpoint").exists()
