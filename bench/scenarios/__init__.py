"""Every scenario, in the order in which they run. One file per kind of question."""

from bench.lab import Scenario
from bench.scenarios import (
    cold,
    columns,
    consume,
    interference,
    latency,
    many_topics,
    merge,
    pipeline_start,
    produce,
    produce_raw,
    ready,
    small_requests,
    spark_history,
    spark_read,
    spark_sink,
    spark_stream,
)

SCENARIOS: tuple[Scenario, ...] = (
    *produce.SCENARIOS,
    *produce_raw.SCENARIOS,
    *small_requests.SCENARIOS,
    *consume.SCENARIOS,
    *ready.SCENARIOS,
    *columns.SCENARIOS,
    *cold.SCENARIOS,
    *merge.SCENARIOS,
    *interference.SCENARIOS,
    *latency.SCENARIOS,
    *many_topics.SCENARIOS,
    *spark_read.SCENARIOS,
    *spark_stream.SCENARIOS,
    *spark_history.SCENARIOS,
    *spark_sink.SCENARIOS,
    *pipeline_start.SCENARIOS,
)
