"""Kafka Connect carries the lines of a file into a topic and on into another file."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request

import pytest
from java_kit import until

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

STRINGS = "org.apache.kafka.connect.storage.StringConverter"
LINES = [f"line {number}" for number in range(200)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def write(path, settings):
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def worker(broker, port):
    return {
        "bootstrap.servers": broker.kafka,
        "listeners": f"http://127.0.0.1:{port}",
        "key.converter": STRINGS,
        "value.converter": STRINGS,
        "offset.flush.interval.ms": 500,
    }


def connectors(folder, topic):
    source = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(folder / "in.txt"),
        "topic": topic,
    }
    sink = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": "1",
        "file": str(folder / "out.txt"),
        "topics": topic,
    }
    return {"source": source, "sink": sink}


def arrived(folder, count):
    out = folder / "out.txt"
    return lambda: out.exists() and len(out.read_text().splitlines()) >= count


def test_connect_standalone_copies_a_file_through_a_topic_and_goes_on_where_it_was(
    java, broker, house, tmp_path
):
    settings = {**worker(broker, free_port()), "offset.storage.file.filename": tmp_path / "offsets"}
    files = [write(tmp_path / "worker.properties", settings)]
    for name, connector in connectors(tmp_path, "lines-standalone").items():
        files.append(write(tmp_path / f"{name}.properties", {"name": name, **connector}))
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES[:100]))
    first = java.start("org.apache.kafka.connect.cli.ConnectStandalone", *files)
    until("the first lines", arrived(tmp_path, 100), first)
    first.stop()
    with (tmp_path / "in.txt").open("a") as more:
        more.write("".join(f"{line}\n" for line in LINES[100:]))
    second = java.start("org.apache.kafka.connect.cli.ConnectStandalone", *files)
    until("the other lines", arrived(tmp_path, len(LINES)), second)
    second.stop()
    assert (tmp_path / "out.txt").read_text().splitlines() == LINES
    assert [value.decode() for _, value in house.read("lines-standalone")] == LINES


def call(port, path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method="POST" if body else "GET")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, json.dumps(body).encode() if body else None, timeout=30) as answer:
        return json.load(answer)


def ready(port):
    try:
        return call(port, "/connectors") is not None
    except (urllib.error.URLError, ConnectionError):
        return False


def test_connect_distributed_writes_each_line_once_though_a_worker_is_killed(java, broker, house, tmp_path):
    """Its own group protocol, three compacted topics, and a transactional producer per task."""
    ports = free_port(), free_port()
    workers = []
    for number, port in enumerate(ports):
        settings = worker(broker, port) | {
            "group.id": "connect",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 1000,
            "scheduled.rebalance.max.delay.ms": 1000,
            "exactly.once.source.support": "enabled",
            "offset.storage.topic": "connect-offsets",
            "config.storage.topic": "connect-configs",
            "status.storage.topic": "connect-status",
            "offset.storage.replication.factor": 1,
            "config.storage.replication.factor": 1,
            "status.storage.replication.factor": 1,
        }
        file = write(tmp_path / f"worker-{number}.properties", settings)
        workers.append(java.start("org.apache.kafka.connect.cli.ConnectDistributed", file))
    for port in ports:
        until("a worker that answers", lambda port=port: ready(port), *workers)
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES[:100]))
    house.make_topic("lines-distributed")
    wanted = connectors(tmp_path, "lines-distributed")["source"]
    call(ports[0], "/connectors", {"name": "source", "config": wanted})
    with house.follow("lines-distributed") as lines:
        until("the first lines", lambda: len(lines.records()) >= 100, *workers)
        task = call(ports[0], "/connectors/source/status")["tasks"][0]["worker_id"]
        runs = next(number for number, port in enumerate(ports) if task.endswith(f":{port}"))
        workers[runs].kill()
        with (tmp_path / "in.txt").open("a") as more:
            more.write("".join(f"{line}\n" for line in LINES[100:]))
        other = workers[1 - runs]
        until("the other lines", lambda: len(lines.records()) >= len(LINES), other)
        assert [value.decode() for _, value in lines.records()] == LINES
    other.stop()
