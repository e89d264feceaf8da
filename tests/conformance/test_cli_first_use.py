"""What a new user stumbled over in the commands that talk to a broker."""

import itertools
import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from security_house import PASSWORDS, Files, guarded

from mainstem.cli.main import cli
from mainstem.testing import Broker

numbers = itertools.count()
OLD_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker():
    with Broker({"topics.default_partitions": 3}) as running:
        yield running


@pytest.fixture
def run(broker, monkeypatch, tmp_path):
    monkeypatch.setenv("MAINSTEM_BOOTSTRAP", broker.kafka)

    def run_command(*arguments, code=0, lines=None):
        if lines is not None:
            (tmp_path / "lines").write_text("".join(f"{line}\n" for line in lines))
            arguments = (*arguments, str(tmp_path / "lines"))
        result = CliRunner().invoke(cli, arguments, prog_name="mainstem")
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        return result

    return run_command


@pytest.fixture
def topic():
    return f"first-use-{next(numbers)}"


def objects(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def records(*triples):
    """Lines for `produce --input json --keep-partitions`: partition, time, value."""
    return [
        json.dumps({"partition": partition, "timestamp_ms": OLD_MS + at_ms, "value": value})
        for partition, at_ms, value in triples
    ]


@pytest.fixture
def spread(run, topic):
    """Three partitions; the newest message is in the one with the fewest."""
    run("topic", "create", topic, "-p", "3", "--config", "retention.ms=-1")
    lines = records((0, 9, "new"), (1, 1, "b1"), (1, 2, "b2"), (1, 3, "b3"), (2, 1, "c1"), (2, 4, "c2"))
    run("produce", topic, "--input", "json", "--keep-partitions", lines=lines)
    return topic


# --- consume --tail --------------------------------------------------------------------------------


def test_a_tail_is_the_newest_of_all_partitions(run, spread):
    def tail(count, *more):
        return run("consume", spread, "--tail", str(count), *more).stdout.split()

    assert tail(1) == ["new"]
    assert tail(3) == ["b3", "c2", "new"]
    assert tail(4) == ["b2", "b3", "c2", "new"]
    assert tail(5) == ["c1", "b2", "b3", "c2", "new"]  # of the same time, the later partition
    assert tail(100) == ["b1", "c1", "b2", "b3", "c2", "new"]
    assert tail(2, "-p", "1") == ["b2", "b3"]
    assert tail(2, "--until", "1") == ["c1", "new"]


def test_a_tail_keeps_the_order_of_a_partition_whose_clock_went_back(run, topic):
    run("topic", "create", topic, "-p", "1", "--config", "retention.ms=-1")
    lines = records((0, 3, "a"), (0, 1, "b"), (0, 2, "c"))
    run("produce", topic, "--input", "json", "--keep-partitions", lines=lines)
    assert run("consume", topic, "--tail", "2").stdout.split() == ["b", "c"]


def test_a_tail_looks_past_markers_aborted_and_open_transactions(run, topic, broker):
    run("topic", "create", topic, "-p", "1")
    producer = Producer({"bootstrap.servers": broker.kafka, "transactional.id": topic})
    producer.init_transactions(30)
    for value, end in (
        (b"first", producer.commit_transaction),
        (b"second", producer.commit_transaction),
        (b"aborted", producer.abort_transaction),
    ):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(30)
        end(30)
    producer.begin_transaction()
    for _ in range(20):
        producer.produce(topic, b"open")
    producer.flush(30)
    assert run("consume", topic, "--tail", "1").stdout.split() == ["second"]
    assert run("consume", topic, "--tail", "2").stdout.split() == ["first", "second"]
    assert run("consume", topic, "--tail", "1", "--uncommitted").stdout.split() == ["open"]
    producer.abort_transaction(30)


def test_after_the_tail_come_new_messages(run, spread, broker):
    code = "from mainstem.cli.main import main; main()"
    words = ["-b", broker.kafka, "consume", spread, "--tail", "2", "-f"]
    with subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE) as reader:
        try:
            assert [reader.stdout.readline(), reader.stdout.readline()] == [b"c2\n", b"new\n"]
            run("produce", spread, "-p", "1", lines=["later"])
            assert reader.stdout.readline() == b"later\n"
        finally:
            reader.kill()


# --- produce ---------------------------------------------------------------------------------------


def test_a_copy_needs_no_partitions_like_those_of_the_original(run, spread, topic):
    given = run("consume", spread, "--json").stdout.splitlines()
    copy = run("produce", f"{topic}-copy", "--input", "json", lines=given)
    assert "6 sent" in copy.stderr
    run("topic", "create", f"{topic}-one", "-p", "1")
    run("produce", f"{topic}-one", "--input", "json", lines=given)
    assert len(objects(run("consume", f"{topic}-one", "--json"))) == 6


def test_partitions_are_kept_when_asked_for_and_checked_before_anything_is_sent(run, spread, topic):
    given = run("consume", spread, "--json").stdout.splitlines()
    keep = ("--input", "json", "--keep-partitions")
    missing = run("produce", f"{topic}-kept", *keep, lines=given, code=2)
    assert f"mainstem topic create {topic}-kept -p 3" in missing.stderr
    run("topic", "create", f"{topic}-kept", "-p", "2")
    small = run("produce", f"{topic}-kept", *keep, lines=given, code=2)
    assert f"mainstem topic alter {topic}-kept -p 3" in small.stderr
    assert run("consume", f"{topic}-kept").stdout == ""
    run("topic", "alter", f"{topic}-kept", "-p", "3")
    run("produce", f"{topic}-kept", *keep, lines=given)
    before = [(one["partition"], one["value"]) for one in map(json.loads, given)]
    after = [(one["partition"], one["value"]) for one in objects(run("consume", f"{topic}-kept", "--json"))]
    assert sorted(after) == sorted(before)
    assert "no partition -1" in run("produce", topic, *keep, lines=records((-1, 0, "x")), code=2).stderr
    run("produce", topic, "--keep-partitions", lines=["x"], code=2)
    run("produce", topic, *keep, "-p", "1", lines=given, code=2)


def test_produce_says_that_it_made_the_topic_and_what_a_name_may_be(run, topic):
    assert f"made topic {topic}\n" in run("produce", topic, lines=["x"]).stderr
    assert "made" not in run("produce", topic, lines=["x"]).stderr
    wrong = run("produce", "bad topic", lines=["x"], code=2).stderr
    assert wrong == run("topic", "create", "bad topic", code=2).stderr
    assert "use letters" in wrong


# --- bench -----------------------------------------------------------------------------------------


def test_bench_asks_before_it_fills_a_topic_and_tells_its_partitions(run, spread):
    refused = run("bench", "--topic", spread, "--seconds", "0.1", code=2).stderr
    assert refused == f"Error: refused: this would fill topic '{spread}', which holds 6 messages; add --yes\n"
    (found,) = objects(run("bench", "--topic", spread, "--seconds", "0.1", "--yes", "--json"))
    assert "3 partitions" in found["conditions"]["load"]
    assert "Did you mean" in run("bench", "--topic", spread[:-1] + "x", code=2).stderr


# --- topics and groups -----------------------------------------------------------------------------


def test_deleting_several_topics_asks_once_before_any_is_deleted(run, spread, topic, monkeypatch):
    run("topic", "create", f"{topic}-other")
    refused = run("topic", "delete", f"{topic}-other", spread, code=2).stderr
    assert refused == (
        f"Error: refused: this would delete topics '{topic}-other', '{spread}' with 6 messages; add --yes\n"
    )
    asked = []
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    monkeypatch.setattr("click.confirm", lambda question, **_: asked.append(question))
    result = run("topic", "delete", f"{topic}-other", spread)
    assert asked == [
        f"Delete topics '{topic}-other', '{spread}' with 6 messages? They cannot be brought back."
    ]
    assert result.stdout == f"{topic}-other: deleted\n{spread}: deleted\n"


def test_what_alter_and_create_did_not_do_as_expected_is_said(run, topic):
    run("topic", "create", topic, "-p", "4", "--config", "retention.ms=1000000")
    same = run("topic", "create", topic, "--if-missing", "-p", "4", "--config", "durability=os")
    assert same.stderr == ""
    other = run("topic", "create", topic, "--if-missing", "-p", "8")
    assert f"{topic} has 4 partitions, not 8. To add some: mainstem topic alter {topic} -p 8" in other.stderr
    unset = run("topic", "alter", topic, "--unset", "retention.ms")
    assert unset.stdout == f"{topic}: 4 partitions, no configs of its own, retention.ms is unset\n"
    early = run("topic", "alter", topic, "--set", "durability=os")
    assert "acknowledged before they are on disk" in early.stderr
    early = run("topic", "create", f"{topic}-os", "--config", "durability=os")
    assert "acknowledged before they are on disk" in early.stderr


def test_what_was_trimmed_is_not_lag(run, topic):
    run("topic", "create", topic, "-p", "1")
    run("produce", topic, lines=["a", "b", "c", "d"])
    run("consume", topic, "--group", topic, "-n", "1")
    run("topic", "trim", topic, "--before", "3", "--yes")
    (row,) = objects(run("group", "lag", topic, "--json"))
    assert (row["committed"], row["end"], row["lag"]) == (1, 4, 1)


def test_a_group_that_cannot_be_is_a_wrong_request(run, spread):
    assert "invalid group id" in run("consume", spread, "--group", "", code=2).stderr


# --- where rules hold ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guard(tmp_path_factory):
    with guarded(Files(tmp_path_factory.mktemp("first-use"))) as running:
        yield running


@pytest.fixture
def act(guard, monkeypatch):
    monkeypatch.setenv("MAINSTEM_BOOTSTRAP", guard.kafka)

    def act_as(user, *words, code=0):
        env = {"MAINSTEM_USER": user, "MAINSTEM_PASSWORD": PASSWORDS[user]}
        result = CliRunner().invoke(cli, words, env=env, prog_name="mainstem")
        assert result.exit_code == code, result.output
        return result

    return act_as


def test_check_does_not_know_superusers_and_names_only_the_rules_that_decide(act):
    act("admin", "acl", "add", "alice", "read", "describe-configs", "--topic", "checked")
    act("admin", "acl", "add", "*", "write", "--topic", "checked", "--deny")
    refused = act("admin", "acl", "check", "admin", "read", "--topic", "checked", code=1)
    assert "may not read topic 'checked', unless it is a superuser" in refused.stderr
    assert "no rule allows it" in refused.stdout
    assert "no, unless it is a superuser" in refused.stdout
    as_json = act("admin", "acl", "check", "admin", "read", "--topic", "checked", "--json", code=1)
    assert json.loads(as_json.stdout)["allowed"] is False

    def rules(operation, code=0):
        found = act("admin", "acl", "check", "alice", operation, "--topic", "checked", "--json", code=code)
        return json.loads(found.stdout)["rules"]

    assert rules("read") == rules("describe") == "allow read literal 'checked' for User:alice"
    assert rules("describe-configs") == "allow describe_configs literal 'checked' for User:alice"
    assert rules("write", code=1) == "deny write literal 'checked' for User:*"
    assert rules("delete", code=1) == "no rule allows it"


def test_rules_are_guessed_when_mistyped_and_said_to_be_removed(act):
    assert "Did you mean read?" in act("admin", "acl", "add", "bob", "raed", "--topic", "x", code=2).stderr
    act("admin", "acl", "add", "bob", "read", "--topic", "x")
    assert act("admin", "acl", "rm", "--principal", "bob", "--yes").stderr == "Removed 1 rule.\n"


def test_who_may_not_see_configs_sees_the_rest_of_a_topic(act):
    act("admin", "topic", "create", "partly", "-p", "2")
    act("admin", "acl", "add", "alice", "describe", "--topic", "partly")
    result = act("alice", "topic", "describe", "partly")
    assert "partitions  2" in result.stdout
    assert "describe-configs" in result.stderr
    shown = json.loads(act("alice", "topic", "describe", "partly", "--json").stdout)
    assert (len(shown["partitions"]), shown["configs"]) == (2, None)
    act("admin", "acl", "add", "alice", "alter", "--topic", "partly")
    assert act("alice", "topic", "alter", "partly", "-p", "3").stdout == "partly: 3 partitions\n"
