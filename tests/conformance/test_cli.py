"""The commands that talk to a broker, against a broker."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer
from kafka_kit import Wire, batch
from share_kit import ACCEPT, Sharer, configure

import mainstem
from mainstem.cli.main import cli
from mainstem.testing import Broker

numbers = itertools.count()
PROGRAM = [sys.executable, "-c", "from mainstem.cli.main import main; main()"]


@pytest.fixture(scope="module")
def broker():
    with Broker({"topics.default_partitions": 3}) as running:
        yield running


@pytest.fixture
def run(broker, monkeypatch):
    monkeypatch.setenv("MAINSTEM_BOOTSTRAP", broker.kafka)

    def run_command(*arguments, code=0, input=None):
        result = CliRunner().invoke(cli, arguments, input=input, prog_name="mainstem")
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        return result

    return run_command


@pytest.fixture
def start(broker):
    """Start a command as a process of its own: for standard input and signals."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAINSTEM_")}
    environment |= {
        "MAINSTEM_BOOTSTRAP": broker.kafka,
        "PYTHONPATH": str(Path(mainstem.__file__).parent.parent),
    }
    running = []

    def start_command(*arguments):
        process = subprocess.Popen(
            [*PROGRAM, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            # Whoever runs the tests in the background has them ignore Ctrl-C, and their children too.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        running.append(process)
        return process

    yield start_command
    for process in running:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()


@pytest.fixture
def topic():
    return f"topic-{next(numbers)}"


@pytest.fixture
def filled(run, topic, tmp_path):
    """A topic of three partitions with twelve messages, k0:v0 to k11:v11."""
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"k{n}:v{n}\n" for n in range(12)))
    run("topic", "create", topic)
    run("produce", topic, str(lines), "-K", ":")
    return topic


def objects(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


# --- topics ----------------------------------------------------------------------------------------


def test_a_topic_is_created_described_altered_and_deleted(run, topic):
    made = run("topic", "create", topic, "-p", "2", "--config", "retention.ms=86400000")
    assert made.stdout == f"{topic}: created, 2 partitions\n"
    run("topic", "create", topic, "--if-missing")
    (facts,) = objects(run("topic", "describe", topic, "--json"))
    assert len(facts["partitions"]) == 2
    run("topic", "alter", topic, "--set", "max.message.bytes=2000", "--partitions", "5")
    (facts,) = objects(run("topic", "describe", topic, "--json"))
    assert len(facts["partitions"]) == 5
    assert {"name": "max.message.bytes", "value": "2000", "source": "topic"} in facts["configs"]
    run("topic", "alter", topic, "--unset", "max.message.bytes")
    (facts,) = objects(run("topic", "describe", topic, "--json"))
    assert "max.message.bytes" not in [config["name"] for config in facts["configs"]]
    assert "deleted" in run("topic", "delete", topic, "--yes").stdout
    assert topic not in [row["topic"] for row in objects(run("topic", "ls", "--json"))]


def test_topics_are_listed_by_pattern_with_their_messages(run, filled):
    run("topic", "create", f"{filled}-other")
    assert objects(run("topic", "ls", filled, "--json")) == [
        {"topic": filled, "partitions": 3, "messages": 12, "internal": False}
    ]
    names = [row["topic"] for row in objects(run("topic", "ls", f"{filled}*", "--json", "--quick"))]
    assert names == [filled, f"{filled}-other"]
    assert "12" in run("topic", "ls").stdout


def test_messages_are_told_as_a_range_of_offsets_and_said_to_be(run, topic, broker):
    run("topic", "create", topic, "-p", "1")
    producer = Producer({"bootstrap.servers": broker.kafka, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"one")
    producer.commit_transaction()
    assert objects(run("topic", "ls", topic, "--json"))[0]["messages"] == 2  # with the marker
    for command in ("ls", "describe"):
        told = " ".join(run("topic", command, "--help").stdout.split())
        assert "counted by their offsets" in told
        assert "transactions' markers or compaction" in told


def test_a_mistyped_topic_is_guessed(run, filled):
    wrong = filled.replace("topic", "topik")
    result = run("topic", "describe", wrong, code=2)
    assert f"there is no topic {wrong!r}. Did you mean {filled}" in result.stderr.replace("\n", " ")


def test_creating_twice_is_an_error(run, filled):
    assert "already exists" in run("topic", "create", filled, code=1).stderr


def test_after_a_failure_the_names_that_were_not_tried_are_told(run, topic, filled):
    first, last = f"{topic}-first", f"{topic}-last"
    refused = run("topic", "create", first, filled, last, code=1)
    assert refused.stdout.splitlines() == [f"{first}: created, 3 partitions"]
    assert f"Not tried after that: '{last}'" in refused.stderr
    run("topic", "describe", last, code=2)
    assert "Not tried" not in run("topic", "create", last, filled, code=1).stderr


def test_nothing_to_send_makes_no_topic(run, topic):
    assert "0 sent" in run("produce", topic, "/dev/null").stderr
    run("topic", "describe", topic, code=2)


def test_a_dry_run_creates_nothing(run, topic):
    assert "would be created" in run("topic", "create", topic, "--dry-run").stdout
    run("topic", "describe", topic, code=2)


def test_a_wrong_config_is_told(run, topic):
    assert "retention" in run("topic", "create", topic, "--config", "retentoin.ms=1", code=2).stderr
    run("topic", "create", topic, "--config", "nonsense", code=2)


def test_destructive_commands_need_a_yes_where_nobody_can_be_asked(run, filled):
    for arguments in (
        ("topic", "delete", filled),
        ("topic", "trim", filled, "--before", "latest"),
    ):
        assert "add --yes" in run(*arguments, code=2).stderr
    (row,) = objects(run("topic", "ls", filled, "--json"))
    assert row["messages"] == 12


def test_the_oldest_messages_are_trimmed(run, filled):
    rows = objects(run("topic", "trim", filled, "--before", "1", "--dry-run", "--json"))
    assert [row["deleted"] for row in rows] == [1, 1, 1]
    run("topic", "trim", filled, "--before", "1", "--yes")
    (row,) = objects(run("topic", "ls", filled, "--json"))
    assert row["messages"] == 9
    for behind in ("+5", "1000", "2100-01-01"):
        assert "behind the end" in run("topic", "trim", filled, "--before", behind, "--yes", code=2).stderr
    run("topic", "trim", filled, "--before", "latest", "--yes")
    assert run("consume", filled).stdout == ""


def test_a_topic_that_is_only_compacted_is_not_trimmed_nor_said_to_be(run, topic, tmp_path, monkeypatch):
    (tmp_path / "lines").write_text("a:1\na:2\n")
    run("topic", "create", topic, "-p", "1", "--config", "cleanup.policy=compact")
    run("produce", topic, str(tmp_path / "lines"), "-K", ":")
    trim = ("topic", "trim", topic, "--before", "latest")
    for words in ([*trim, "--dry-run"], [*trim, "--yes"], [*trim, "--yes", "--json"]):
        refused = run(*words, code=2)
        assert refused.stdout == ""
        assert "is only compacted" in refused.stderr
        assert "trim needs cleanup.policy=delete" in refused.stderr
    with monkeypatch.context() as patch:  # as for who may not see configs
        patch.setattr("mainstem.cli.topic._is_only_compacted", lambda *_: False)
        refused = run(*trim, "--yes", code=2)
        assert refused.stdout == ""
        assert "trim needs cleanup.policy=delete" in refused.stderr
    run("topic", "alter", topic, "--set", "cleanup.policy=compact,delete")
    assert "to delete" in run(*trim, "--dry-run").stdout
    assert [row["deleted"] for row in objects(run(*trim, "--yes", "--json"))] == [2]


# --- produce and consume ---------------------------------------------------------------------------


def test_lines_go_in_and_come_out(run, filled):
    lines = run("consume", filled, "-K", "=").stdout.splitlines()
    assert sorted(lines) == sorted(f"k{n}=v{n}" for n in range(12))


def test_standard_input_is_sent_line_by_line_as_it_comes(run, start, topic):
    run("topic", "create", topic, "-p", "1")
    process = start("produce", topic)
    process.stdin.write(b"first\n")
    process.stdin.flush()
    reader = start("consume", topic, "-f", "--from", "earliest")
    assert reader.stdout.readline() == b"first\n"  # though the input has not ended
    process.stdin.write(b"second\r\nthird")
    process.stdin.close()
    assert reader.stdout.readline() == b"second\n"
    assert reader.stdout.readline() == b"third\n"
    assert process.wait(30) == 0


def test_follow_starts_at_the_end_and_ctrl_c_ends_it(run, start, filled, broker):
    reader = start("consume", filled, "-f", "--group", "follower", "--from", "latest")
    producer = Producer({"bootstrap.servers": broker.kafka})
    stop = threading.Event()

    def keep_sending():  # until it is seen: whoever starts to read starts at some end
        while not stop.wait(0.05):
            producer.produce(filled, b"news")
            producer.flush(10)

    sender = threading.Thread(target=keep_sending)
    sender.start()
    try:
        assert reader.stdout.readline() == b"news\n"
    finally:
        stop.set()
        sender.join()
    reader.send_signal(2)
    reader.communicate(timeout=30)
    assert reader.returncode == 0
    committed = {
        row["partition"]: row["committed"] for row in objects(run("group", "lag", "follower", "--json"))
    }
    assert sum(committed.values()) > 12


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "ended"])
def test_what_a_follower_printed_is_committed_though_nothing_more_comes(run, start, filled, end):
    group = f"g-{filled}"
    reader = start("consume", filled, "-f", "--group", group)
    for _ in range(12):
        reader.stdout.readline()

    def lag() -> int:
        (row,) = [row for row in objects(run("group", "lag", "--json")) if row["group"] == group] or [{}]
        return row.get("lag", -1)

    if end == signal.SIGKILL:
        while lag() != 0:
            os.sched_yield()
    reader.send_signal(end)
    reader.communicate(timeout=30)
    assert reader.returncode == (0 if end == signal.SIGTERM else -end)
    assert lag() == 0


def test_json_out_is_json_in(run, filled, topic, tmp_path):
    given = run("consume", filled, "--json").stdout
    copy = tmp_path / "copy.json"
    copy.write_text(given)
    run("topic", "create", f"{topic}-copy", "-p", "3")
    run("produce", f"{topic}-copy", str(copy), "--input", "json", "-z", "zstd", "-H", "copied=yes")
    fields = ("partition", "offset", "key", "value", "timestamp_ms")
    before = [tuple(one[name] for name in fields) for one in map(json.loads, given.splitlines())]
    copies = objects(run("consume", f"{topic}-copy", "--json"))
    assert [tuple(one[name] for name in fields) for one in copies] == before
    assert copies[0]["headers"] == [{"name": "copied", "value": "yes"}]


def test_bytes_that_are_no_text_survive_the_way_through_json(run, topic, tmp_path):
    data = bytes(range(256))
    (tmp_path / "picture").write_bytes(data)
    run("topic", "create", topic, "-p", "1")
    run("produce", topic, str(tmp_path / "picture"), "--input", "file", "--key", "p")
    (found,) = objects(run("consume", topic, "--json"))
    assert "value_base64" in found
    (tmp_path / "out.json").write_text(json.dumps(found))
    run("produce", topic, str(tmp_path / "out.json"), "--input", "json")
    assert CliRunner().invoke(cli, ["consume", topic, "-n", "1"]).stdout_bytes == data + b"\n"
    first, second = objects(run("consume", topic, "--json"))
    assert first["value_base64"] == second["value_base64"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nonsense", "line 1 is not JSON"),
        ("[1]", "not a JSON object"),
        ('{"valu": 1}', "has a field 'valu'"),
        ('{"value_base64": "*"}', "not base64"),
        ('{"partition": "x"}', "whole numbers"),
        ('{"headers": 3}', "headers must be"),
    ],
)
def test_a_wrong_json_line_is_told_by_its_number(run, topic, tmp_path, line, why):
    (tmp_path / "in.json").write_text(line + "\n")
    assert why in run("produce", topic, str(tmp_path / "in.json"), "--input", "json", code=2).stderr


def test_what_was_sent_before_a_wrong_line_is_told_and_all_of_it_is_there(run, topic, tmp_path):
    (tmp_path / "in.json").write_text('{"value": "x"}\n' * 20_000 + "nonsense\n")
    said = run("produce", topic, str(tmp_path / "in.json"), "--input", "json", code=2).stderr
    assert "line 20001 is not JSON" in said
    assert f"20,000 sent to {topic} before that" in said
    assert len(objects(run("consume", topic, "--json"))) == 20_000


def test_a_line_without_its_separator_is_told(run, topic, tmp_path):
    (tmp_path / "lines").write_text("a:b\nnothing\n")
    assert "line 2 has no ':'" in run("produce", topic, str(tmp_path / "lines"), "-K", ":", code=2).stderr


def test_an_empty_value_can_be_a_tombstone(run, topic, tmp_path):
    (tmp_path / "lines").write_text("a:\n")
    run("topic", "create", topic, "-p", "1")
    run("produce", topic, str(tmp_path / "lines"), "-K", ":", "--tombstones")
    (found,) = objects(run("consume", topic, "--json"))
    assert found["value"] is None


def test_a_partition_can_be_chosen_and_must_exist(run, filled, tmp_path):
    (tmp_path / "lines").write_text("here\n")
    run("produce", filled, str(tmp_path / "lines"), "-p", "2")
    assert run("consume", filled, "-p", "2", "--tail", "1").stdout == "here\n"
    assert "partitions 0 to 2" in run("produce", filled, str(tmp_path / "lines"), "-p", "3", code=2).stderr
    assert "partitions 0 to 2" in run("consume", filled, "-p", "3", code=2).stderr


def test_reading_can_start_and_end_anywhere(run, topic, tmp_path):
    lines = tmp_path / "lines.json"
    old = 1_700_000_000_000
    lines.write_text(
        "".join(json.dumps({"value": str(n), "timestamp_ms": old + n}) + "\n" for n in range(10))
    )
    run("topic", "create", topic, "-p", "1", "--config", "retention.ms=-1")
    run("produce", topic, str(lines), "--input", "json")

    def values(*arguments):
        return run("consume", topic, *arguments).stdout.split()

    assert values("--from", "7") == ["7", "8", "9"]
    assert values("--from", "-2") == ["8", "9"]
    assert values("--tail", "3") == ["7", "8", "9"]
    assert values("--from", "2023-11-14T22:13:20.004+00:00", "--until", "6") == ["4", "5"]
    assert values("--from", "10m ago") == []
    assert values("-n", "2") == ["0", "1"]
    assert values("--until", "2") == ["0", "1"]
    run("consume", topic, "--from", "tomorrow", code=2)
    run("consume", topic, "--from", "1", "--tail", "1", code=2)


def test_formats(run, topic, tmp_path):
    (tmp_path / "lines").write_text('{"key": "k", "value": "v\\u0001", "headers": {"a": "b"}}\n')
    run("topic", "create", topic, "-p", "1")
    run("produce", topic, str(tmp_path / "lines"), "--input", "json")
    template = "{topic} {partition} {offset} {key} {value} {headers}"
    assert run("consume", topic, "--format", template).stdout == f"{topic} 0 0 k v\x01 a=b\n"
    assert "76 01" in run("consume", topic, "--format", "hex").stdout
    assert "there is no format" in run("consume", topic, "--format", "xml", code=2).stderr
    assert "a template has no {nothing}" in run("consume", topic, "--format", "{nothing}", code=2).stderr


def test_messages_of_aborted_transactions_are_left_out(run, topic, broker):
    run("topic", "create", topic, "-p", "1")
    producer = Producer({"bootstrap.servers": broker.kafka, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"aborted")
    producer.flush(30)
    producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, b"committed")
    producer.commit_transaction(30)
    assert run("consume", topic).stdout.split() == ["committed"]
    assert run("consume", topic, "--uncommitted").stdout.split() == ["aborted", "committed"]
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(30)
    assert run("consume", topic).stdout.split() == ["committed"]  # and does not wait for the rest
    producer.abort_transaction(30)


# --- messages --------------------------------------------------------------------------------------


def test_one_message_is_shown_with_its_batch(run, filled):
    (found,) = [one for one in objects(run("consume", filled, "--json")) if one["key"] == "k5"]
    where = (filled, str(found["partition"]), str(found["offset"]))
    (shown,) = objects(run("message", "show", *where, "--json"))
    assert shown["value"] == "v5"
    assert shown["batch"]["compression"] == "none"
    assert "v5" in run("message", "show", *where).stdout
    assert "holds offsets 0 to" in run("message", "show", filled, "0", "999", code=2).stderr
    assert "partitions 0 to 2" in run("message", "show", filled, "9", "0", code=2).stderr


def test_messages_are_found_by_key_text_and_header(run, filled):
    assert [one["value"] for one in objects(run("message", "find", filled, "--key", "k7", "--json"))] == [
        "v7"
    ]
    found = objects(run("message", "find", filled, "--contains", "v1", "--json"))
    assert sorted(one["value"] for one in found) == ["v1", "v10", "v11"]
    assert len(objects(run("message", "find", filled, "--contains", "v", "-n", "2", "--json"))) == 2
    assert run("message", "find", filled, "--header", "a=b").stdout == ""
    run("message", "find", filled, code=2)


# --- groups ----------------------------------------------------------------------------------------


def test_a_group_reads_on_where_it_was(run, filled):
    first = run("consume", filled, "--group", f"g-{filled}", "-n", "5").stdout.split()
    second = run("consume", filled, "--group", f"g-{filled}").stdout.split()
    assert sorted(first + second) == sorted(f"v{n}" for n in range(12))
    assert run("consume", filled, "--group", f"g-{filled}").stdout == ""


def test_lag_is_told_per_partition_and_in_total(run, filled):
    group = f"g-{filled}"
    run("consume", filled, "--group", group, "-n", "5")
    rows = objects(run("group", "lag", group, "--json"))
    assert sum(row["lag"] for row in rows) == 7
    (total,) = [row for row in objects(run("group", "lag", "--json")) if row["group"] == group]
    assert total["lag"] == 7
    assert group in run("group", "ls").stdout


def test_a_share_group_is_shown_moved_and_deleted(run, topic, broker):
    group = f"s-{topic}"
    run("topic", "create", topic, "-p", "1")
    with Wire(broker.kafka) as wire, Sharer(broker.kafka, group, topic) as sharer:
        wire.produce(topic, batch(["a", "b", "c"]))
        configure(wire, group, share_auto_offset_reset="earliest")
        sharer.join()
        assert len(sharer.fetch()) == 3
        sharer.acknowledge((1, 1, [ACCEPT]))
        (described,) = objects(run("group", "describe", group, "--json"))
        assert (described["state"], described["members"][0]["member"]) == ("Stable", sharer.member)
        run("group", "delete", group, "--yes", code=1)
        run("group", "seek", group, "--to", "latest", "--yes", code=1)
        sharer.beat(-1)
    (row,) = objects(run("group", "lag", group, "--json"))
    assert (row["committed"], row["end"], row["lag"]) == (0, 3, 2)
    (total,) = [row for row in objects(run("group", "lag", "--json")) if row["group"] == group]
    assert total["lag"] == 2
    run("group", "seek", group, "--to", "latest", "--yes")
    (row,) = objects(run("group", "lag", group, "--json"))
    assert (row["committed"], row["lag"]) == (3, 0)
    run("group", "delete", group, "--yes")
    assert group not in run("group", "ls").stdout


def test_a_group_is_moved_and_a_dry_run_moves_nothing(run, filled):
    group = f"g-{filled}"
    run("consume", filled, "--group", group)

    def lag():
        return sum(row["lag"] for row in objects(run("group", "lag", group, "--json")))

    rows = objects(run("group", "seek", group, "--to", "earliest", "--dry-run", "--json"))
    assert sum(row["change"] for row in rows) == -12
    assert lag() == 0
    run("group", "seek", group, "--to", "earliest", "--yes")
    assert lag() == 12
    run("group", "seek", group, "--to", "+1", "--yes")
    assert lag() == 9
    run("group", "seek", group, "--to", "latest", "--topic", f"{filled}:0", "--yes")
    run("group", "seek", group, "--to", "10m ago", "--yes")
    assert lag() == 12
    assert "add --yes" in run("group", "seek", group, "--to", "latest", code=2).stderr
    assert (
        "partitions 0 to 2"
        in run("group", "seek", group, "--to", "1", "--topic", f"{filled}:9", code=2).stderr
    )
    assert lag() == 12


def test_a_new_group_is_placed_where_asked(run, filled):
    group = f"new-{filled}"
    assert "there is no group" in run("group", "seek", group, "--to", "latest", "--yes", code=2).stderr
    run("group", "seek", group, "--topic", filled, "--to", "latest", "--yes")
    assert run("consume", filled, "--group", group).stdout == ""


def test_a_live_group_is_described_and_not_moved(run, filled, broker):
    group = f"live-{filled}"
    consumer = Consumer(
        {
            "bootstrap.servers": broker.kafka,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "client.id": "me",
        }
    )
    consumer.subscribe([filled])
    assert consumer.poll(30).error() is None
    consumer.commit(asynchronous=False)
    (facts,) = objects(run("group", "describe", group, "--json"))
    assert facts["state"] == "Stable"
    assert facts["members"][0]["client"] == "me"
    assert sorted(facts["members"][0]["reads"]) == [f"{filled}:{partition}" for partition in range(3)]
    assert "stop what reads for it" in run("group", "seek", group, "--to", "earliest", "--yes", code=1).stderr
    dry = run("group", "seek", group, "--to", "earliest", "--dry-run")
    assert "To move it, stop its 1 member first." in dry.stderr
    assert "stop them first" in run("group", "delete", group, "--yes", code=1).stderr
    assert "alone" in run("consume", filled, "--group", group, code=1).stderr
    consumer.close()
    run("group", "delete", group, "--yes")
    assert "there is no group" in run("group", "describe", group, code=2).stderr


# --- the rest --------------------------------------------------------------------------------------


def test_no_broker_is_said_with_what_to_do(run):
    result = run("-b", "127.0.0.1:1", "topic", "ls", code=1)
    assert "cannot reach 127.0.0.1:1: connection refused; is the broker running?" in result.stderr
    assert "mainstem serve" in result.stderr


def test_the_flag_of_the_command_wins_over_that_of_the_program_and_the_variable(run, broker, filled):
    run("-b", "127.0.0.1:1", "topic", "ls", "-b", broker.kafka)
    run("topic", "ls", "-b", "nowhere:port", code=2)


def test_a_user_needs_a_password_from_somewhere(run):
    assert "--password-file" in run("topic", "ls", "--user", "alice", code=2).stderr


def test_bench_says_speed_latency_and_conditions(run):
    (found,) = objects(run("bench", "--seconds", "0.2", "--partitions", "2", "--json"))
    assert found["produce"]["messages"] > 0
    assert found["consume"]["messages"] > 0
    assert found["latency"]["end_to_end"]["p99_ms"] > 0
    assert "acks all" in found["conditions"]["load"]
    assert not [
        row for row in objects(run("topic", "ls", "--json")) if row["topic"].startswith("mainstem-bench")
    ]


@pytest.mark.parametrize(
    "words",
    [
        *(["topic", verb] for verb in ("ls", "create", "describe", "alter", "trim", "delete")),
        *(["group", verb] for verb in ("ls", "describe", "lag", "seek", "delete")),
        *(["message", verb] for verb in ("show", "find")),
        *([verb] for verb in ("produce", "consume", "bench", "demo")),
    ],
)
def test_every_command_has_help_with_examples(run, words):
    help_text = run(*words, "--help").stdout
    assert "Examples:" in help_text
    assert f"mainstem {' '.join(words)}" in help_text
