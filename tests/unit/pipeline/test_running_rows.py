"""Rows of a run, as Spark's reports and the job's own figures tell them."""

import json
from types import SimpleNamespace

from mainstem.pipeline.counting import Tally
from mainstem.pipeline.running import Watched, _news


def report(batch: int, second: int, rows_in: int, **steps: int) -> SimpleNamespace:
    told = {
        "batchId": batch,
        "timestamp": f"2031-05-04T12:00:{second:02d}.000Z",
        "numInputRows": rows_in,
        "durationMs": {"latestOffset": 1, "triggerExecution": 1, **steps},
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
    }
    return SimpleNamespace(json=json.dumps(told))


def test_the_figure_of_a_job_goes_to_its_batch_and_not_to_the_idle_trigger_before_with_the_same_number():
    tally = Tally()
    tally.wrote(6, 17)  # before anybody looked at the reports
    query = SimpleNamespace(recentProgress=[report(6, 1, 0), report(6, 2, 20, addBatch=400)])
    one = Watched("lake", query, tally=tally)
    assert [(batch.input_rows, batch.output_rows) for batch in _news(one)] == [(0, 0), (20, 17)]
    assert (one.rows_in, one.rows_out) == (20, 17)


def test_a_batch_that_nobody_counted_leaves_the_sum_unknown():
    query = SimpleNamespace(recentProgress=[report(0, 1, 20, addBatch=400), report(1, 2, 0)])
    one = Watched("lake", query)
    assert [batch.output_rows for batch in _news(one)] == [-1, 0]
    assert one.rows_out == -1
