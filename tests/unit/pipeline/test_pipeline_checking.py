"""A pipeline is checked before Spark starts: all mistakes at once, each with its place."""

from pathlib import Path

import pytest

from mainstem.pipeline.checking import Surroundings, check
from mainstem.pipeline.loading import load
from mainstem.pipeline.parts import PipelineError, PipelineErrors
from mainstem.pipeline.validating import validate

ORDERS = "CREATE STREAM orders (id BIGINT, amount DOUBLE, at TIMESTAMP) WITH (topic = 'orders');\n"


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def made(text: str, name: str = "shop.sql"):
        Path(name).write_text(text)
        return load([Path(name)])

    return made


def mistakes(pipeline, topics=None) -> list[str]:
    try:
        checked = validate(pipeline, None)
        check(pipeline, Surroundings(checked.columns, topics))
    except PipelineErrors as errors:
        return [str(error) for error in errors.all]
    return []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "CREATE STREAM o WITH (topik = 'x');",
            "shop.sql:1:23: there is no option 'topik' here; did you mean 'topic'?",
        ),
        (
            "CREATE STREAM o WITH (topic = 'x', format = 'jsn');",
            "format is json or csv or avro or text or raw",
        ),
        ("CREATE STREAM o WITH (format = 'json');", "stream o needs WITH (topic = '...')"),
        ("CREATE STREAM o (a INT) WITH (topic = 'x', watermark = '1 hour');", "a watermark needs timestamp"),
        (
            "CREATE STREAM o (a TIMESTAMP) WITH (topic = 'x', timestamp = 'a', watermark = 'soon');",
            "'soon' is no time; write it as '10 seconds'",
        ),
        ("CREATE STREAM o (a INT) WITH (topic = 'x', timestamp = 'b');", "timestamp names no column: 'b'"),
        ("CREATE STREAM o (a, b INT) WITH (topic = 'x');", "o: not a list of columns"),
        ("CREATE STREAM o WITH (topic = 'x', format = 'csv');", "the fields of csv must be given"),
        ("CREATE TABLE t WITH (path = 'x');", "table t needs WITH (format = '...')"),
        ("CREATE TABLE t WITH (format = 'csv', path = 'gone.csv');", "there is no file or folder"),
        (
            ORDERS + "CREATE VIEW v AS SELECT * FROM ordrs;",
            "shop.sql:2:32: there is no stream or table 'ordrs'",
        ),
        (ORDERS + "CREATE VIEW v AS SELECT amout FROM orders;", "shop.sql:2:25: there is no column 'amout'"),
        (ORDERS + "INSERT INTO out SELECT id FROM orders;", "there is no stream or table 'out'"),
        (ORDERS + "CREATE VIEW ORDERS AS SELECT 1 AS a;", "ORDERS is there already, at shop.sql:1:1"),
        ("CREATE VIEW a AS SELECT * FROM b; CREATE VIEW b AS SELECT * FROM a;", "in a circle: a -> b -> a"),
        (
            ORDERS + "CREATE STREAM r WITH (topic = 'r', key = 'idd') AS SELECT id FROM orders;",
            "key names no column",
        ),
        (
            ORDERS + "CREATE TABLE t WITH (format = 'parquet', path = 'x', output = 'changelog') AS"
            " SELECT id FROM orders;",
            "a table of files cannot take a changelog",
        ),
        ("CREATE STREAM `a/b` (x INT) WITH (topic = 'x');", "'a/b' is no name"),
        (
            "CREATE STREAM o (a INT) WITH (topic = 'x', max_offsets = 'many');",
            "max_offsets is a number above 0",
        ),
        ("CREATE STREAM o (a INT) WITH (topic = 'x', fail_on_data_loss = 'no');", "is true or false"),
        (
            ORDERS + "CREATE STREAM r WITH (topic = 'r', trigger = 'now') AS SELECT id FROM orders;",
            "is no time",
        ),
        (
            ORDERS + "INSERT INTO orders SELECT id, amount, at FROM orders;",
            "in a circle: orders -> orders-insert-1",
        ),
        (ORDERS + "CREATE STREAM r WITH (topic = 'orders') AS SELECT id FROM orders;", "in a circle"),
        (
            "CREATE TABLE t WITH (format = 'x'); CREATE STREAM r WITH (topic = 'r') AS SELECT 1 AS a FROM t;",
            "reads no stream",
        ),
        (
            ORDERS + "CREATE TABLE a WITH (format = 'parquet', path = 'x') AS SELECT id FROM orders;"
            "CREATE TABLE b WITH (format = 'parquet', path = 'x/') AS SELECT id FROM orders;",
            "with UNION ALL",
        ),
        (
            ORDERS
            + "CREATE STREAM out (id BIGINT) WITH (topic = 'o'); INSERT INTO out SELECT id, 1 n FROM orders;",
            "out has no column 'n'",
        ),
        (
            "CREATE STREAM o (a INT) WITH (topic = 'x', starting = 'lates');",
            "starting is earliest, latest or JSON",
        ),
        ("CREATE STREAM o (a INT) WITH (topic = 'x', isolation = 'none');", "isolation is read_committed"),
        (
            "CREATE STREAM o (a INT) WITH (topic = 'x', metadata = 'kee');",
            "a record has no 'kee'; did you mean 'key'",
        ),
        ("CREATE STREAM o (a INT) WITH (topic = 'x', pattern = 'y');", "give topic or pattern, not both"),
        ("CREATE JOB a USING lak WITH (topic = 'x');", "there is no job 'lak'; did you mean 'lake'?"),
    ],
)
def test_a_mistake_is_found_before_spark_starts(loaded, text, said):
    found = mistakes(loaded(text))
    assert any(said in one for one in found), found


def test_all_mistakes_are_told_at_once(loaded):
    text = ORDERS + "CREATE VIEW a AS SELECT x FROM orders;\nCREATE VIEW b AS SELECT y, amout FROM orders;"
    assert [one.split(" ")[0] for one in mistakes(loaded(text))] == [
        "shop.sql:2:25:",
        "shop.sql:3:25:",
        "shop.sql:3:28:",
    ]


def test_a_topic_must_be_there_unless_the_pipeline_makes_it(loaded):
    text = (
        ORDERS + "CREATE STREAM made WITH (topic = 'made') AS SELECT id FROM orders;"
        "CREATE STREAM again (id BIGINT) WITH (topic = 'made');"
    )
    assert mistakes(loaded(text), frozenset({"orders"})) == []
    (told,) = mistakes(loaded(text), frozenset({"order"}))
    assert told == "shop.sql:1:69: the broker has no topic 'orders'; did you mean 'order'?"


def test_a_topic_of_another_broker_is_not_looked_for_here(loaded):
    text = "CREATE STREAM o (id BIGINT) WITH (topic = 'far', kafka.bootstrap.servers = 'other:9092');"
    assert mistakes(loaded(text), frozenset()) == []


def test_a_wrong_column_is_told_without_what_follows_from_it(loaded):
    text = (
        ORDERS + "CREATE STREAM r WITH (topic = 'r', key = 'amount') AS SELECT o.amout FROM orders o;\n"
        "CREATE VIEW v AS SELECT amount FROM r;"
        "CREATE STREAM out (id BIGINT) WITH (topic = 'o', key = 'id');\n"
        "INSERT INTO out SELECT idd FROM orders;"
    )
    assert mistakes(loaded(text)) == [
        "shop.sql:2:64: o has no column 'amout'; did you mean 'amount'?",
        "shop.sql:4:24: there is no column 'idd'; did you mean 'id'?",
    ]


def test_a_function_of_messages_reads_a_stream_with_a_topic(loaded, tmp_path):
    (tmp_path / "f.py").write_text(
        "from mainstem.pipeline import message\n@message(source='v', topic='t')\ndef f(m):\n    return m\n"
    )
    (told,) = mistakes(loaded(ORDERS + "CREATE VIEW v AS SELECT id FROM orders; IMPORT 'f.py';"))
    assert "a function of messages reads a stream with a topic; v is none" in told


def test_a_stream_of_lines_is_read_again_as_values(loaded):
    made = (
        ORDERS + "CREATE STREAM t WITH (topic = 't', format = 'text') AS SELECT string(id) AS s FROM orders;"
    )
    assert mistakes(loaded(made + "CREATE VIEW v AS SELECT value FROM t;")) == []
    assert "there is no column 's'" in mistakes(loaded(made + "CREATE VIEW v AS SELECT s FROM t;"))[0]


def test_what_a_pipeline_writes_comes_before_what_reads_it(loaded):
    text = (
        "CREATE TABLE lake WITH (format = 'parquet', path = 'l') AS SELECT id FROM done;"
        "CREATE STREAM done (id BIGINT) WITH (topic = 'done'); INSERT INTO done SELECT id FROM orders;"
        + ORDERS
    )
    checked = validate(loaded(text), None)
    assert [part.name for part in checked.order] == ["orders", "done-insert-1", "done", "lake"]
    assert checked.after["done"] == ("done-insert-1",)


def test_parts_may_stand_in_any_order(loaded):
    pipeline = loaded("CREATE VIEW a AS SELECT id FROM b; CREATE VIEW b AS SELECT id FROM orders;" + ORDERS)
    checked = validate(pipeline, None)
    assert [part.name for part in checked.order] == ["orders", "b", "a"]
    assert checked.columns["a"] == ("id",)


def test_functions_come_before_all_that_may_call_them(loaded, tmp_path):
    (tmp_path / "f.py").write_text(
        "from mainstem.pipeline import function\n@function('bigint')\ndef twice(x):\n    return 2 * x\n"
    )
    pipeline = loaded(ORDERS + "CREATE VIEW v AS SELECT twice(id) AS id FROM orders; IMPORT 'f.py';")
    assert [part.name for part in validate(pipeline, None).order] == ["twice", "orders", "v"]


def test_columns_of_a_csv_table_come_from_its_header(loaded, tmp_path):
    (tmp_path / "c.csv").write_text("id;region\n1;north\n")
    text = "CREATE TABLE c WITH (format = 'csv', path = 'c.csv', header = 'true', sep = ';');"
    assert mistakes(loaded(text + "CREATE VIEW v AS SELECT regoin FROM c;")) == [
        "shop.sql:1:106: there is no column 'regoin'; did you mean 'region'?"
    ]


def test_python_and_sql_make_one_pipeline(loaded, tmp_path):
    (tmp_path / "more.py").write_text(
        "from mainstem.pipeline import function, message, stream\n"
        "@stream(topic='big', key=['id'])\n"
        "def big(orders):\n    return orders\n"
        "@function('double')\n"
        "def vat(amount):\n    return amount * 0.19\n"
        "@message(source='orders', topic='eu')\n"
        "def europe(message):\n    return message\n"
    )
    pipeline = loaded(ORDERS + "IMPORT 'more.py'; CREATE VIEW v AS SELECT vat(1) AS x FROM big;")
    checked = validate(pipeline, None)
    assert checked.inputs == {
        "orders": (),
        "big": ("orders",),
        "vat": (),
        "europe": ("orders",),
        "v": ("big",),
    }


def test_an_error_in_a_python_file_is_told_with_its_line(loaded):
    with pytest.raises(PipelineError, match=r"p\.py:2:1: NameError: name 'foo' is not defined"):
        loaded("x = 1\nfoo()\n", "p.py")
    with pytest.raises(PipelineError, match=r"p\.py:1:\d+: syntax error"):
        loaded("def (:\n", "p.py")
    with pytest.raises(PipelineError, match=r"there is no .sql or .py file 'gone\.py'"):
        loaded("IMPORT 'gone.py';")
