"""`mainstem sql` on a real Spark and a real broker."""

import csv
import datetime
import io
import json
import os
import struct
import subprocess
import sys

import pytest
from click.testing import CliRunner
from spark_kit import T0_MS, House, new_name

from mainstem.cli.main import cli
from mainstem.model.records import Record

NOON = datetime.datetime.fromtimestamp(T0_MS / 1000, datetime.UTC)
COMMAND = (sys.executable, "-c", "from mainstem.cli.main import main; main()", "sql")
REGIONS = ("north", "south")


def orders_of(count):
    return [
        json.dumps(
            {
                "id": i,
                "customer": f"c{i % 3}",
                "region": REGIONS[i % 2],
                "amount": i + 0.5,
                "at": (NOON + datetime.timedelta(seconds=i)).isoformat(),
                "items": [{"sku": "a", "n": i}],
            }
        ).encode()
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def topics(spark, shared_broker):
    """Filled once: orders in two partitions, one of them no JSON; customers; and lines of text."""
    house = House(spark, shared_broker.kafka)
    names = {stem: new_name(stem) for stem in ("orders", "customers", "lines")}
    house.create(names["orders"], 2)
    house.create(names["customers"])
    house.create(names["lines"])
    values = orders_of(100)
    house.fill(names["orders"], values[:60], key=b"k")
    house.fill(names["orders"], [*values[60:], b"no json"], partition=1, first_ms=T0_MS + 3_600_000)
    house.fill(names["customers"], [b'{"id": "c%d", "name": "Customer %d"}' % (i, i) for i in range(3)])
    house.put(
        names["lines"],
        [
            Record(0, T0_MS, b"k1", b"one", (("h", b"x"),)),
            Record(0, T0_MS, None, b"t\xffo"),
            Record(0, T0_MS, b"k3", None),
        ],
    )
    return {stem: f"`{name}`" for stem, name in names.items()}


@pytest.fixture
def sql(topics, shared_broker):
    """Runs the command in this process, whose Spark it finds; `{orders}` and the like stand for topics."""

    def run(query, *flags, exit_code=0):
        words = ["sql", query.format(**topics), "-b", shared_broker.kafka]
        words += [flag.format(**{stem: name.strip("`") for stem, name in topics.items()}) for flag in flags]
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == exit_code, done.output
        return done

    return run


def rows(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_join_of_two_topics_with_sums_is_printed_as_a_table(sql):
    done = sql(
        "select c.name, count(*) as orders, sum(o.amount) as revenue from {orders} o "
        "join {customers} c on o.customer = c.id group by c.name order by c.name"
    )

    head, *lines = (line.split() for line in done.stdout.splitlines())
    assert head == ["name", "orders", "revenue"]
    sums = [sum(i + 0.5 for i in range(customer, 100, 3)) for customer in range(3)]
    counts = [34, 33, 33]
    assert lines == [["Customer", str(i), str(counts[i]), str(sums[i])] for i in range(3)]


def test_rows_carry_what_the_record_knows_and_fields_of_every_type(sql):
    done = sql(
        "select id, at, items[0].n as n, _key, _partition, _offset, _timestamp "
        "from {orders} where id in (1, 61) order by id",
        "--format",
        "json",
    )

    one, later = rows(done)
    assert one == {
        "id": 1,
        "at": (NOON + datetime.timedelta(seconds=1)).isoformat().replace("+00:00", "Z"),
        "n": 1,
        "_key": "k",
        "_partition": 0,
        "_offset": 1,
        "_timestamp": (NOON + datetime.timedelta(milliseconds=1)).isoformat().replace("+00:00", "Z"),
    }
    assert (later["_key"], later["_partition"], later["_offset"]) == (None, 1, 1)


def test_a_record_that_cannot_be_read_is_a_row_of_nulls_and_is_sent_nowhere(sql, topics, shared_broker):
    done = sql("select id, _partition, _offset, _value from {orders} where id is null", "--format", "json")

    assert rows(done) == [{"id": None, "_partition": 1, "_offset": 40, "_value": "no json"}]
    assert "1 of 101 values looked at are no JSON objects" in done.stderr
    listed = CliRunner().invoke(cli, ["topic", "ls", "--json", "-b", shared_broker.kafka]).stdout
    assert topics["orders"].strip("`") in listed
    assert topics["orders"].strip("`") + ".dead" not in listed


def test_values_that_are_no_json_are_text_with_their_keys(sql):
    done = sql("select *, _headers from {lines} order by _offset", "--format", "json")

    found = rows(done)
    assert [(row["key"], row["value"], row["_offset"]) for row in found] == [
        ("k1", "one", 0),
        (None, "t\ufffdo", 1),
        ("k3", None, 2),
    ]
    assert found[0]["_headers"] == [{"key": "h", "value": "x"}]


def test_a_raw_topic_is_text_and_a_schema_goes_before_a_guess(sql):
    raw = sql(
        "select value from {customers} where key is null limit 1", "--raw", "{customers}", "--format", "json"
    )
    typed = sql(
        "select * from {customers} limit 1", "--schema", "{customers}: name STRING", "--format", "json"
    )

    assert rows(raw) == [{"value": '{"id": "c0", "name": "Customer 0"}'}]
    assert list(rows(typed)[0]) == ["name", "_key", "_partition", "_offset", "_timestamp"]


def test_from_and_to_are_times_or_offsets(sql):
    late = (NOON + datetime.timedelta(minutes=30)).isoformat()
    count = "select count(*) as n, min(id) as low, max(id) as high from {orders}"

    assert rows(sql(count, "--from", late, "--format", "json")) == [{"n": 41, "low": 60, "high": 99}]
    assert rows(sql(count, "--to", late, "--format", "json")) == [{"n": 60, "low": 0, "high": 59}]
    assert rows(sql(count, "--from", "10", "--to", "20", "--format", "json")) == [
        {"n": 20, "low": 10, "high": 79}
    ]


def test_a_condition_on_the_time_of_records_and_csv(sql):
    late = (NOON + datetime.timedelta(minutes=30)).isoformat()
    query = (
        "select region, count(id) as n from {orders} where _timestamp >= timestamp '%s' group by 1 order by 1"
    )

    done = sql(query.replace("%s", late), "--format", "csv")

    assert list(csv.reader(io.StringIO(done.stdout))) == [
        ["region", "n"],
        ["", "0"],
        ["north", "20"],
        ["south", "20"],
    ]


def test_more_rows_than_the_limit_are_told_and_zero_is_no_limit(sql):
    some = sql("select id from {orders} where id >= 0 order by id", "--limit", "3", "--format", "csv")
    all_of_them = sql("select id from {orders} where id is not null", "--limit", "0", "--format", "csv")

    assert some.stdout.split() == ["id", "0", "1", "2"]
    assert "more rows: use --limit" in some.stderr
    assert len(all_of_them.stdout.split()) == 101
    assert "more rows" not in all_of_them.stderr


def test_a_plot_is_a_picture_of_sane_size_or_bars_in_the_terminal(sql, tmp_path):
    picture = tmp_path / "revenue.png"
    query = (
        "select date_trunc('minute', at) as minute, region, sum(amount) as revenue from {orders} group by all"
    )

    done = sql(query, "--plot", str(picture))
    bars = sql("select region, count(id) as n from {orders} group by region order by n desc", "--plot", "-")

    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (900, 500)
    assert 5_000 < len(data) < 80_000
    assert done.stdout == ""
    assert "lines over minute" in done.stderr
    assert [line.split()[:2] for line in bars.stdout.splitlines()] == [
        ["north", "50"],
        ["south", "50"],
        ["null", "0"],
    ]
    assert "█" in bars.stdout
    assert "column of numbers" in sql("select region from {orders}", "--plot", "-", exit_code=2).stderr


def test_what_spark_alone_finds_wrong_is_one_line(sql):
    failed = sql("select cast(region as int) from {orders}", exit_code=1)

    assert "CAST_INVALID_INPUT" in failed.stderr
    assert len(failed.stderr.splitlines()) == 2  # the other one is about a message that is no JSON
    assert "at org.apache" not in failed.stderr


def test_unchecked_lets_spark_decide(sql):
    done = sql("describe {orders}", "--unchecked", "--format", "json")

    assert {"col_name": "amount", "data_type": "double", "comment": None} in rows(done)


def test_the_command_alone_prints_its_result_and_nothing_else(topics, shared_broker):
    """In a process and a Spark of its own, whose start says a lot; without a cache for classes."""
    done = subprocess.run(
        [
            *COMMAND,
            f"select count(*) as n from {topics['orders']}",
            "--format",
            "json",
            "-b",
            shared_broker.kafka,
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "XDG_CACHE_HOME": "/dev/null/none"},
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, '{"n": 101}\n', "")


# --- errors that come before Spark starts: with a Java that is not there, starting it would fail ---


def without_spark(broker, *words, stdin=""):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from mainstem.cli.main import main; main()",
            "sql",
            *words,
            "-b",
            broker.kafka,
        ],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "JAVA_HOME": "/no/such/java"},
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select sum(amount frm {orders}", "column 19: syntax error near 'frm'"),
        ("select regin from {orders}", "there is no column 'regin'; did you mean 'region'?"),
        ("select summ(amount) from {orders}", "there is no function 'summ'; did you mean 'sum'?"),
        ("select 1; select 2", "one query at a time"),
    ],
)
def test_wrong_queries_are_refused_before_spark_starts(topics, shared_broker, query, said):
    code, told = without_spark(shared_broker, query.format(**topics))

    assert code == 2
    assert said in told
    assert told.rstrip().endswith("^")


def test_an_unknown_topic_and_a_name_without_backticks_get_a_hint(topics, shared_broker):
    name = topics["orders"].strip("`")

    code, told = without_spark(shared_broker, "-", stdin=f"select *\nfrom `{name}x`\n")
    assert code == 2
    assert f"line 2, column 6: there is no topic '{name}x'; did you mean '{name}'?" in told
    code, told = without_spark(shared_broker, f"select * from {name}")
    assert code == 2
    assert f"in backticks: `{name}`" in told


def test_flags_that_make_no_sense_are_refused_before_spark_starts(tmp_path, topics, shared_broker):
    name = topics["orders"].strip("`")
    query = f"select 1 from `{name}`"
    file = tmp_path / "query.sql"
    file.write_text("select\nfrom from")

    for words, said in (
        ((query, "--plot", "x.jpg"), "x.png"),
        ((query, "--plot", "/no/such/folder/x.png"), "no folder"),
        ((query, "--schema", name), "--schema is written"),
        ((query, "--schema", f"{name}: id"), "no columns"),
        ((query, "--raw", f"{name}z"), f"did you mean '{name}'"),
        ((query, "--from", "tomorrow"), "no place in a topic"),
        (("--file", str(file)), "query.sql: line 2, column 6"),
        (("--file", str(tmp_path / "none.sql")), "cannot be read"),
        ((query, "--file", str(file)), "Give a QUERY"),
    ):
        code, told = without_spark(shared_broker, *words)
        assert (code, said in told) == (2, True), told


def test_without_java_one_line_says_what_to_install(shared_broker):
    done = subprocess.run(
        [*COMMAND, "select 1"],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/no/such/folder", "MAINSTEM_BOOTSTRAP": shared_broker.kafka},
    )

    assert done.returncode == 2
    assert done.stderr == "Error: Spark needs Java 17 or newer: apt install openjdk-17-jre-headless\n"
