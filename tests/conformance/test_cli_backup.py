"""Backup, restore and verify, as commands, against a broker that is busy meanwhile."""

import errno
import json
import os
import threading

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from security_house import Files

from mainstem.cli.main import cli
from mainstem.kernel.log.disk import OsDisk
from mainstem.testing import Broker


def run(*arguments, code=0):
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments], prog_name="mainstem")
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result


def values(broker, topic="orders"):
    return run("consume", topic, "-b", broker.kafka).stdout.split()


def send(broker, *texts, topic="orders"):
    producer = Producer({"bootstrap.servers": broker.kafka})
    for text in texts:
        producer.produce(topic, text)
    assert producer.flush(30) == 0


def test_a_backup_of_a_serving_broker_holds_all_that_was_acknowledged_before(tmp_path):
    with Broker({"journal.file_bytes": "1 MiB", "journal.reserve_bytes": 0}) as broker:
        before = [f"before-{n}" for n in range(2000)]
        send(broker, *before)
        stop = threading.Event()

        def keep_sending():
            number = 0
            while not stop.is_set():
                send(broker, *(f"during-{number}-{n}-{'x' * 500}" for n in range(50)))
                number += 1

        sender = threading.Thread(target=keep_sending)
        sender.start()
        try:
            (facts,) = map(
                json.loads,
                run("backup", tmp_path / "copy", "--http", broker.http, "--json").stdout.splitlines(),
            )
        finally:
            stop.set()
            sender.join()
        everything = values(broker)
    assert facts["verified"]
    assert facts["bytes"] > 0
    assert "sound" in run("verify", tmp_path / "copy").stdout
    run("restore", tmp_path / "copy", tmp_path / "again")
    with Broker(data=tmp_path / "again") as restored:
        found = values(restored)
        assert found[:2000] == before
        assert found == everything[: len(found)]  # a moment of the original, whole
        send(restored, "after")
        assert values(restored)[-1] == "after"
    assert "sound" in run("verify", tmp_path / "copy").stdout  # the restored one is a copy of its own


def test_the_variable_names_the_broker_as_for_the_other_commands(tmp_path, monkeypatch):
    with Broker() as broker:
        send(broker, "one")
        monkeypatch.setenv("MAINSTEM_HTTP", broker.http)
        run("backup", tmp_path / "copy")
        monkeypatch.delenv("MAINSTEM_HTTP")
        refused = run("-b", broker.kafka, "backup", tmp_path / "other", code=2)
        assert "--http" in refused.stderr
    with Broker(data=tmp_path / "copy") as copy:
        assert values(copy) == ["one"]


def test_a_folder_is_backed_up_whichever_broker_is_named(tmp_path):
    with Broker(data=tmp_path / "data"):
        pass
    run("-b", "127.0.0.1:1", "backup", tmp_path / "copy", "--data", tmp_path / "data")


def test_a_backup_is_asked_for_over_tls(tmp_path):
    files = Files(tmp_path)
    settings = {"security.tls_cert_file": str(files.cert), "security.tls_key_file": str(files.key)}
    with Broker(settings, listen={"http+tls": "127.0.0.1:0"}) as broker:
        where = broker.listening["http+tls"]
        run("backup", tmp_path / "copy", "--http", where, "--tls-ca", files.ca)
    assert "sound" in run("verify", tmp_path / "copy").stdout


def test_a_stopped_broker_is_backed_up_from_its_folder(tmp_path):
    with Broker(data=tmp_path / "data") as broker:
        send(broker, "one", "two")
        result = run("backup", tmp_path / "copy", "--data", tmp_path / "data", code=2)
        assert "is in use by process" in result.stderr
        assert "leave --data out" in result.stderr
    run("backup", tmp_path / "copy", "--data", tmp_path / "data")
    # Not the space that the journal has taken in advance.
    assert sum(path.stat().st_size for path in (tmp_path / "copy").rglob("*") if path.is_file()) < 1 << 20
    with Broker(data=tmp_path / "copy") as copy:
        assert values(copy) == ["one", "two"]


def test_targets_that_are_not_empty_are_refused(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with Broker(data=tmp_path / "data") as broker:
        assert "not an empty folder" in run("backup", tmp_path / "full", "--http", broker.http, code=2).stderr
        inside = run("backup", tmp_path / "data" / "inside", "--http", broker.http, code=2)
        assert "not apart from the data folder" in inside.stderr
        run("backup", tmp_path / "copy", "--http", broker.http)
    stopped = run("backup", tmp_path / "full", "--data", tmp_path / "data", code=2)
    assert "is not empty" in stopped.stderr
    assert "is not empty" in run("restore", tmp_path / "copy", tmp_path / "full", code=2).stderr


def test_a_token_is_asked_for_and_can_be_given(tmp_path):
    (tmp_path / "token").write_text("secret\n")
    with Broker({"security.http_token_file": str(tmp_path / "token")}) as broker:
        assert "--token-file" in run("backup", tmp_path / "copy", "--http", broker.http, code=1).stderr
        run("backup", tmp_path / "copy", "--http", broker.http, "--token-file", tmp_path / "token")


def test_where_people_must_log_in_a_backup_needs_a_token(tmp_path):
    (tmp_path / "users.toml").write_text('[users]\nadmin = "secret"\n')
    settings = {
        "security.authentication": "required",
        "security.users_file": str(tmp_path / "users.toml"),
    }
    with Broker(settings) as broker:
        result = run("backup", tmp_path / "copy", "--http", broker.http, code=1)
        assert "security.http_token_file" in result.stderr


def test_no_broker_is_said_with_what_to_do(tmp_path):
    result = run("backup", tmp_path / "copy", "--http", "127.0.0.1:1", code=1)
    assert "connection refused" in result.stderr
    assert "--data" in result.stderr


def test_verify_finds_a_changed_byte_and_names_the_file(tmp_path):
    with Broker(data=tmp_path / "data") as broker:
        send(broker, *(f"value-{n}" for n in range(100)))
        send(broker, "later")  # a round behind it: without one the damage would be a torn tail
        assert "is in use" in run("verify", tmp_path / "data", code=2).stderr
    assert "sound" in run("verify", tmp_path / "data").stdout
    (journal,) = [
        path for path in (tmp_path / "data" / "files").iterdir() if b"value-50" in path.read_bytes()
    ]
    data = bytearray(journal.read_bytes())
    at = data.index(b"value-50")
    data[at] ^= 1
    journal.write_bytes(data)
    result = run("verify", tmp_path / "data", "--json", code=1)
    report = json.loads(result.stdout)
    assert not report["sound"]
    assert journal.name in report["damage"]
    assert "DAMAGED" in run("verify", tmp_path / "data", code=1).stdout
    damaged = run("restore", tmp_path / "data", tmp_path / "new", code=1)
    assert "damaged" in damaged.stderr


@pytest.mark.parametrize("word", ["backup", "restore", "verify"])
def test_every_command_has_help_with_examples(word):
    assert "Examples:" in run(word, "--help").stdout


def test_a_folder_without_a_log_is_told(tmp_path):
    assert "there is no log" in run("verify", tmp_path, code=2).stderr


def test_what_lies_on_a_read_only_file_system_is_verified_and_restored(tmp_path, monkeypatch):
    with Broker(data=tmp_path / "data") as broker:
        send(broker, "one")
        monkeypatch.setattr(OsDisk, "lock", refuse_to_write)
        served = run("verify", tmp_path / "data", code=2)
        monkeypatch.undo()
        assert f"is in use by process {os.getpid()}" in served.stderr
    monkeypatch.setattr(OsDisk, "lock", refuse_to_write)
    assert "sound" in run("verify", tmp_path / "data").stdout
    run("restore", tmp_path / "data", tmp_path / "again")


def refuse_to_write(_disk, path):
    raise OSError(errno.EROFS, "Read-only file system", path)
