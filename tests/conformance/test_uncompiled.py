"""A broker whose hot modules are not compiled, as where there is no compiler, serves real clients alike."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka_kit import create_topic, read

import mainstem
from mainstem.model.hot import HOT_MODULES
from mainstem.torture.server import PLAIN_PROGRAM, Server

SOURCE = Path(mainstem.__file__).parent
# Where each hot module comes from in the very process that serves; then it does.
REPORT = """
import importlib, json, pathlib
from mainstem.model.hot import HOT_MODULES, compiled_modules
files = {name: importlib.import_module(name).__file__ for name in HOT_MODULES}
pathlib.Path(PATH).write_text(json.dumps([compiled_modules(), files]))
"""


@pytest.fixture(scope="module")
def uncompiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uncompiled")
    source = folder / "src"
    left_out = shutil.ignore_patterns("*.so", "*.c", "__pycache__")
    shutil.copytree(SOURCE, source / SOURCE.name, ignore=left_out)
    program = REPORT.replace("PATH", repr(str(folder / "report.json"))) + PLAIN_PROGRAM
    # The child that merges files takes the path from the environment, too.
    server = Server(folder / "data", program=program, before=["env", f"PYTHONPATH={source}"])
    server.start()
    yield server, folder
    server.kill_all()


def produce(address: str, topic: str, values: list[str], **settings) -> None:
    producer = Producer({"bootstrap.servers": address, **settings})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def test_none_of_the_hot_modules_is_compiled_in_its_process(uncompiled):
    server, folder = uncompiled
    compiled, files = json.loads((folder / "report.json").read_text())
    assert compiled == dict.fromkeys(HOT_MODULES, False)
    assert all(file.startswith(f"{folder}/src/") and file.endswith(".py") for file in files.values())
    # Nor is one of their libraries mapped, from wherever.
    maps = Path(f"/proc/{server.pid}/maps").read_text().splitlines()
    assert [line for line in maps if "/mainstem/" in line and ".so" in line] == []


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"compression.type": "none"}, id="uncompressed"),
        pytest.param({"compression.type": "lz4"}, id="lz4"),
        pytest.param({"enable.idempotence": True}, id="idempotent"),
    ],
)
def test_what_is_produced_is_consumed(uncompiled, topic, settings):
    address = uncompiled[0].kafka
    create_topic(address, topic)
    values = [f"{number:05} {'x' * 100}" for number in range(5000)]
    produce(address, topic, values, **settings)
    assert read(address, topic, len(values)) == values


def test_a_committed_transaction_is_read_and_an_aborted_one_is_not(uncompiled, topic):
    address = uncompiled[0].kafka
    create_topic(address, topic)
    producer = Producer({"bootstrap.servers": address, "transactional.id": topic})
    producer.init_transactions(60)
    for value, end in [("aborted", producer.abort_transaction), ("committed", producer.commit_transaction)]:
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(60) == 0
        end(60)
    produce(address, topic, ["last"])
    assert read(address, topic, 2) == ["committed", "last"]
    assert read(address, topic, 3, committed=False) == ["aborted", "committed", "last"]
