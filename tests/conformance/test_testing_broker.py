"""The broker that ships for tests: started, used by a real client, restarted, killed."""

import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

import mainstem
from mainstem.model.errors import InvalidConfig, InvalidRequest, MainstemError
from mainstem.testing import Broker


def send(broker, *values, topic="orders"):
    failed = []
    producer = Producer({"bootstrap.servers": broker.kafka})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(30) == 0
    assert not failed


def read(broker, count, topic="orders"):
    from confluent_kafka import TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        messages = consumer.consume(count, 30)
        assert all(message.error() is None for message in messages)
        return [message.value() for message in messages]
    finally:
        consumer.close()


def test_a_broker_in_a_with_block_serves_a_real_client():
    with Broker() as broker:
        send(broker, b"one", b"two")
        assert read(broker, 2) == [b"one", b"two"]
        assert broker.is_running
    assert not broker.is_running


def test_its_http_listener_says_that_it_is_ready():
    with Broker() as broker, urllib.request.urlopen(f"http://{broker.http}/readyz") as answer:
        assert answer.read() == b"ok\n"


def test_two_brokers_do_not_see_each_other():
    with Broker() as one, Broker() as other:
        assert one.kafka != other.kafka
        assert one.data != other.data
        send(one, b"one")
        send(other, b"other")
        assert read(one, 1) == [b"one"]
        assert read(other, 1) == [b"other"]


def test_restart_keeps_the_data_and_the_ports():
    with Broker() as broker:
        before = broker.kafka, broker.http
        send(broker, b"kept")
        broker.restart()
        assert (broker.kafka, broker.http) == before
        assert read(broker, 1) == [b"kept"]


def test_a_temporary_folder_goes_with_its_broker_and_a_given_one_stays(tmp_path):
    with Broker() as broker:
        folder = broker.data
        assert folder.is_dir()
    assert not folder.exists()
    with Broker(data=tmp_path / "mine") as broker:
        send(broker, b"kept")
    with Broker(data=tmp_path / "mine") as broker:
        assert read(broker, 1) == [b"kept"]
    assert (tmp_path / "mine").is_dir()


def test_settings_are_those_of_the_settings_file_and_a_wrong_one_is_an_error():
    with Broker({"topics.auto_create": False}) as broker:
        producer = Producer({"bootstrap.servers": broker.kafka, "message.timeout.ms": 500})
        errors = []
        producer.produce("orders", b"x", on_delivery=lambda error, _: errors.append(error))
        producer.flush(30)
        assert errors[0] is not None
    with (
        pytest.raises(InvalidConfig, match="did you mean topics.auto_create"),
        Broker({"topics.auto_creat": 1}),
    ):
        pass


@pytest.mark.parametrize("process", [False, True])
def test_a_broker_that_cannot_start_says_why_and_leaves_no_folder(tmp_path, monkeypatch, process):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(InvalidConfig, match="settings of Broker: server.node_id"):
        Broker({"server.node_id": -1}, process=process).start()
    with pytest.raises(InvalidRequest, match="must be addresses by name"):
        Broker(listen="127.0.0.1:0", process=process)
    assert list(tmp_path.glob("mainstem-test-*")) == []


def test_variables_of_the_environment_do_not_change_it(monkeypatch):
    monkeypatch.setenv("MAINSTEM_SERVER__LISTEN", "kafka=192.0.2.1:1")
    with Broker() as broker:
        assert broker.kafka.startswith("127.0.0.1:")


def test_the_switch_interval_of_the_test_run_is_given_back():
    before = sys.getswitchinterval()
    with Broker():
        pass
    assert sys.getswitchinterval() == before


def test_a_killed_process_comes_back_with_everything_that_was_acknowledged():
    with Broker({"topics.default_partitions": 1}, process=True) as broker:
        before = broker.kafka
        send(broker, b"acknowledged")
        broker.kill()
        assert not broker.is_running
        broker.restart()
        assert broker.kafka == before
        assert read(broker, 1) == [b"acknowledged"]


def test_a_process_leaves_no_folder_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Broker(process=True) as broker:
        broker.restart()
        assert len(list(tmp_path.iterdir())) == 2
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(MainstemError), Broker({"server.node_id": "none"}, process=True):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_thread_cannot_be_killed():
    with Broker() as broker, pytest.raises(InvalidRequest, match="process=True"):
        broker.kill()


@pytest.mark.parametrize("process", [False, True])
def test_a_busy_port_is_named_with_its_holder(process):
    with Broker() as first:
        second = Broker(process=process, listen={"kafka": first.kafka})
        with (
            pytest.raises(MainstemError, match=f"port {first.kafka.split(':')[1]} for kafka is taken"),
            second,
        ):
            pass
        assert not second.is_running


TESTS_OF_A_USER = """
import pytest

@pytest.fixture(scope="session")
def mainstem_settings():
    return {"topics.default_partitions": 3}

def test_fresh(mainstem_broker):
    assert mainstem_broker.is_running
    test_fresh.address = mainstem_broker.kafka

def test_fresh_again(mainstem_broker, mainstem_session_broker):
    assert mainstem_broker.settings["topics.default_partitions"] == 3
    assert mainstem_broker.kafka != mainstem_session_broker.kafka
"""


def test_the_plugin_gives_fixtures_to_the_tests_of_a_user(tmp_path):
    (tmp_path / "test_user.py").write_text(TESTS_OF_A_USER)
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment["PYTHONPATH"] = str(Path(mainstem.__file__).parent.parent)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "mainstem.testing.plugin", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 passed" in run.stdout
