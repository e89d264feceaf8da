from __future__ import annotations

import pytest

from mainstem.model.meters import Meters
from mainstem.observe import add_process_meters, render


def test_counters_and_gauges_are_rendered_by_name_with_labels():
    meters = Meters()
    produced = meters.counter("mainstem_produced_bytes", "Bytes\nproduced", "topic")
    produced.at("b").value += 5
    produced.at('a"\\\n').value += 1
    meters.gauge("mainstem_connections", "Open connections").at().value = 3
    assert render(meters).splitlines() == [
        "# HELP mainstem_connections Open connections",
        "# TYPE mainstem_connections gauge",
        "mainstem_connections 3",
        "# HELP mainstem_produced_bytes_total Bytes\\nproduced",
        "# TYPE mainstem_produced_bytes_total counter",
        'mainstem_produced_bytes_total{topic="a\\"\\\\\\n"} 1',
        'mainstem_produced_bytes_total{topic="b"} 5',
    ]


def test_a_gauge_can_be_read_when_somebody_looks():
    meters = Meters()
    waiting = [1, 2]
    meters.gauge("waiting", "Waiting").at().read = lambda: len(waiting)
    waiting.append(3)
    assert "waiting 3" in render(meters)


def test_histogram_buckets_are_cumulative_and_a_bound_belongs_to_its_bucket():
    meters = Meters()
    sync = meters.histogram("sync_seconds", "Sync", "disk", bounds=(0.1, 1.0)).at("a")
    for value in (0.05, 0.1, 0.5, 7.0):
        sync.observe(value)
    assert render(meters).splitlines()[2:] == [
        'sync_seconds_bucket{disk="a",le="0.1"} 2',
        'sync_seconds_bucket{disk="a",le="1"} 3',
        'sync_seconds_bucket{disk="a",le="+Inf"} 4',
        'sync_seconds_sum{disk="a"} 7.65',
        'sync_seconds_count{disk="a"} 4',
    ]


def test_asking_twice_gives_the_same_meter_and_a_different_shape_is_refused():
    meters = Meters()
    assert meters.counter("n", "N", "a").at("x") is meters.counter("n", "N", "a").at("x")
    with pytest.raises(ValueError, match="exists as counter"):
        meters.gauge("n", "N", "a")
    with pytest.raises(ValueError, match="labels"):
        meters.counter("n", "N", "a").at("x", "y")


def test_a_dropped_meter_is_gone():
    meters = Meters()
    topics = meters.counter("n", "N", "topic")
    topics.at("gone").value = 1
    topics.drop("gone")
    topics.drop("gone")
    assert "gone" not in render(meters)


def test_process_meters_know_memory_files_and_time():
    meters = Meters()
    add_process_meters(meters, "1.2.3", 1_700_000_000.0)()
    text = render(meters)
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values["process_resident_memory_bytes"]) > 1_000_000
    assert float(values["process_open_fds"]) > 0
    assert float(values["process_cpu_seconds_total"]) > 0
    assert values['mainstem_build_info{version="1.2.3"}'] == "1"
