"""Reports of real queries with our source and sink (PySpark 4.3); only names are cut."""

import copy
import json

import pytest

from mainstem.pipeline.book_progress import is_idle, progress_of, topics_read
from mainstem.pipeline.progress import QueryProgress

WINDOWED = {
    "id": "52d1759c-83c6-4c8e-a3ef-0094b3aad0e4",
    "runId": "9da100fa-0379-414e-a0bd-f6012cdd3629",
    "name": None,
    "timestamp": "2026-11-15T20:09:23.682Z",
    "batchId": 1,
    "batchDuration": 643,
    "numInputRows": 400,
    "inputRowsPerSecond": 56.3,
    "processedRowsPerSecond": 622.1,
    "durationMs": {
        "addBatch": 513,
        "commitOffsets": 43,
        "getBatch": 0,
        "latestOffset": 1,
        "queryPlanning": 48,
        "triggerExecution": 643,
        "walCommit": 33,
    },
    "eventTime": {
        "avg": "2026-01-01T00:29:30.000Z",
        "max": "2026-01-01T00:59:00.000Z",
        "min": "2026-01-01T00:00:00.000Z",
        "watermark": "2026-01-01T00:58:50.000Z",
    },
    "stateOperators": [
        {
            "operatorName": "stateStoreSave",
            "numRowsTotal": 2,
            "numRowsUpdated": 60,
            "allUpdatesTimeMs": 17,
            "numRowsRemoved": 58,
            "allRemovalsTimeMs": 13,
            "commitTimeMs": 26,
            "memoryUsedBytes": 15200,
            "numRowsDroppedByWatermark": 0,
            "numShufflePartitions": 1,
            "numStateStoreInstances": 1,
            "customMetrics": {
                "SnapshotLastUploaded.partition_0_default": -1,
                "forceSnapshotCount": 0,
                "loadedMapCacheHitCount": 2,
                "loadedMapCacheMissCount": 0,
                "numSnapshotsAutoRepaired": 0,
                "stateOnCurrentVersionSizeBytes": 1592,
            },
        }
    ],
    "sources": [
        {
            "description": "PythonMicroBatchStreamWithTriggerAvailableNow@663fd975",
            "startOffset": {"orders": {"0": 200, "1": 200}},
            "endOffset": {"orders": {"0": 400, "1": 400}},
            "latestOffset": {"orders": {"0": 500, "1": 500}},
            "numInputRows": 400,
            "inputRowsPerSecond": 56.3,
            "processedRowsPerSecond": 622.1,
        }
    ],
    "sink": {
        "description": "org.apache.spark.sql.execution.datasources.v2.python.PythonTable@5bfa1003",
        "numOutputRows": 58,
    },
    "observedMetrics": {"mainstem": {"rows": 58}},
}
FIRST_BATCH = WINDOWED | {
    "timestamp": "2026-11-15T20:09:16.575Z",
    "batchId": 0,
    "batchDuration": 7078,
    "inputRowsPerSecond": 0.0,
    "processedRowsPerSecond": 56.5,
    "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"},
    "sink": {"description": "PythonTable", "numOutputRows": 0},
}
IDLE = {
    "id": "f43a899a-59d0-4663-a7d8-c80f5431f1d0",
    "runId": "aef3284c-7e40-4564-8f1f-aebdb61cdc45",
    "name": None,
    "timestamp": "2026-11-15T20:09:41.000Z",
    "batchId": 3,
    "batchDuration": 4,
    "numInputRows": 0,
    "inputRowsPerSecond": 0.0,
    "processedRowsPerSecond": 0.0,
    "durationMs": {"latestOffset": 3, "triggerExecution": 4},
    "stateOperators": [],
    "sources": [
        {
            "description": "PythonMicroBatchStreamWithTriggerAvailableNow@5c4e2caa",
            "startOffset": {"orders": {"0": 500, "1": 500}},
            "endOffset": {"orders": {"0": 500, "1": 500}},
            "latestOffset": {"orders": {"0": 500, "1": 500}},
            "numInputRows": 0,
            "inputRowsPerSecond": 0.0,
            "processedRowsPerSecond": 0.0,
        }
    ],
    "sink": {"description": "NoopTable", "numOutputRows": 0},
}


def changed(**changes):
    return copy.deepcopy(WINDOWED) | changes


def source(end, latest):
    return {"description": "some source", "endOffset": end, "latestOffset": latest}


def test_a_windowed_query_tells_all_its_figures():
    assert progress_of(WINDOWED, "revenue") == QueryProgress(
        query="revenue",
        batch=1,
        at_ms=1_794_773_364_325,
        input_rows=400,
        input_rows_per_s=56.3,
        output_rows=58,
        output_rows_per_s=8.2,  # of the same seven seconds
        batch_ms=643,
        lag=200,
        watermark_ms=1_767_229_130_000,
        state_rows=2,
        state_bytes=15_200,
    )


def test_a_first_batch_has_its_own_time_to_divide_by_and_no_watermark_yet():
    first = progress_of(FIRST_BATCH, "revenue")
    assert (first.input_rows_per_s, first.output_rows, first.watermark_ms) == (56.5, 0, None)


def test_an_idle_query_reads_nothing_and_is_not_behind():
    idle = progress_of(IDLE, "copy")
    assert (idle.batch, idle.input_rows, idle.input_rows_per_s, idle.lag) == (3, 0, 0.0, 0)
    assert (idle.state_rows, idle.state_bytes, idle.watermark_ms) == (0, 0, None)


@pytest.mark.parametrize("rows", [0, -1])  # -1 until the first batch after a start, and of files always
def test_a_trigger_that_found_nothing_to_do_has_put_out_nothing(rows):
    idle = IDLE | {"sink": {"description": "FileSink[file:/lake]", "numOutputRows": rows}}
    assert is_idle(idle)
    assert progress_of(idle, "copy").output_rows == 0


def test_a_batch_without_input_that_nobody_counted_stays_unknown():
    closing = changed(numInputRows=0, inputRowsPerSecond=0.0, sink={"numOutputRows": -1})
    assert not is_idle(closing)
    assert progress_of(closing, "revenue").output_rows == -1


@pytest.mark.parametrize("sink", [{"numOutputRows": -1}, {"description": "files"}, {}, None])
def test_a_sink_that_does_not_count_leaves_the_rows_unknown(sink):
    unknown = progress_of(changed(sink=sink), "lake")
    assert (unknown.output_rows, unknown.output_rows_per_s) == (-1, 0.0)


def test_rows_are_those_that_were_counted_on_the_way_or_told_by_the_job():
    counted = changed(sink={"numOutputRows": -1}, observedMetrics={"written": {"rows": 7}})
    assert progress_of(counted, "copy").output_rows == 7
    assert progress_of(changed(sink={"numOutputRows": -1}), "lake", 9).output_rows == 9
    assert progress_of(changed(observedMetrics={"written": {"rows": 0}}), "copy").output_rows == 0
    assert progress_of(changed(), "lake", -1).output_rows == -1  # written before, by who did not count


def test_topics_are_told_by_the_sources_that_have_some():
    sources = [
        source({"a": {"0": 4}, "b": {}}, None),
        source(17, 20),
        source(json.dumps({"c": {"1": 2}}), None),
    ]
    assert topics_read(changed(sources=sources)) == {"a", "c"}
    assert topics_read({}) == set()


def test_a_batch_without_input_may_close_windows():
    closing = changed(numInputRows=0, inputRowsPerSecond=0.0, batchDuration=500, sink={"numOutputRows": 10})
    assert progress_of(closing, "revenue").output_rows_per_s == 20.0


@pytest.mark.parametrize(
    ("sources", "lag"),
    [
        ([], None),
        ([source(17, 20)], None),  # a number: Spark's rate source
        ([source(None, None)], None),
        ([source("no json", "no json")], None),
        ([source({"t": {"0": "x"}}, {"t": {"0": 1}})], None),
        ([source({"t": {"0": 4}}, {"t": {"0": 10}})], 6),
        ([source(json.dumps({"t": {"0": 4}}), json.dumps({"t": {"0": 10}}))], 6),
        ([source({"t": {"0": 4}}, {"t": {"0": 10, "1": 3}})], 9),  # a partition that is new
        ([source({"t": {"0": 10}}, {"t": {"0": 4}})], 0),  # a topic that was made anew
        (
            [
                source({"t": {"0": 4}}, {"t": {"0": 10}}),
                source(17, 20),
                source({"u": {"0": 1}}, {"u": {"0": 2}}),
            ],
            7,
        ),
    ],
)
def test_the_lag_is_what_is_there_less_what_was_read(sources, lag):
    assert progress_of(changed(sources=sources), "revenue").lag == lag


@pytest.mark.parametrize("rate", ["NaN", "Infinity", float("nan"), float("inf"), None, -1.0])
def test_rates_that_are_no_numbers_are_computed(rate):
    assert progress_of(changed(inputRowsPerSecond=rate), "revenue").input_rows_per_s == 622.1


def test_a_report_that_lacks_everything_is_a_batch_of_nothing():
    assert progress_of({}, "revenue") == QueryProgress(
        query="revenue",
        batch=0,
        at_ms=0,
        input_rows=0,
        input_rows_per_s=0.0,
        output_rows=-1,
        output_rows_per_s=0.0,
        batch_ms=0,
    )
