"""SQL files become parts, or an error that says where."""

import pytest

from mainstem.pipeline.parsing import Import, parse
from mainstem.pipeline.parts import Insert, JobPart, PipelineError, Query, Source

SHOP = """\
-- Revenue per minute
CREATE STREAM orders (id BIGINT, price DECIMAL(10, 2), tags ARRAY<STRUCT<a: INT, b: MAP<STRING, INT>>>)
  WITH (topic = 'orders', kafka.client.id = "shop", header = TRUE, max_offsets = 100);
CREATE TABLE customers WITH (format = 'csv', path = 'customers.csv');
CREATE STREAM revenue WITH (topic = 'revenue') AS
  SELECT window.start AS minute, sum(o.price) AS revenue
  FROM orders o GROUP BY window(o.at, '1 minute');
CREATE VIEW big AS SELECT * FROM orders WHERE price > 100;
INSERT INTO out SELECT id FROM orders WATERMARK at DELAY OF INTERVAL 10 SECONDS;
INSERT INTO out SELECT id FROM big;
CREATE JOB archive USING lake WITH (topic = 'orders', from = 'x');
IMPORT 'more.py'
"""


def test_every_statement_becomes_its_part():
    parts = parse(SHOP, "shop.sql")
    assert [type(part) for part in parts] == [
        *(Source, Source, Query, Query, Insert, Insert, JobPart, Import)
    ]
    orders, customers, revenue, big, first, second, job, imported = parts
    assert orders.schema == "id BIGINT, price DECIMAL(10, 2), tags ARRAY<STRUCT<a: INT, b: MAP<STRING, INT>>>"
    assert {name: option.value for name, option in orders.options.items()} == {
        "topic": "orders",
        "kafka.client.id": "shop",
        "header": "true",
        "max_offsets": "100",
    }
    assert (customers.kind, customers.schema) == ("table", "")
    assert (revenue.kind, big.kind) == ("stream", "view")
    assert revenue.query.startswith("SELECT window.start")
    assert revenue.query.endswith("'1 minute')")
    assert "WATERMARK at DELAY" in first.query  # Spark gets the text as it was written
    assert (first.into, second.into) == ("out", "out")
    assert (job.job, job.options["from"].value) == ("lake", "x")
    assert imported.path == "more.py"


def test_parts_know_their_line_and_column():
    orders, *_, imported = parse(SHOP, "shop.sql")
    assert str(orders.at) == "shop.sql:2:1"
    assert str(orders.options["topic"].at) == "shop.sql:3:9"
    assert str(imported.at) == "shop.sql:12:8"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "CREAT STREAM x",
            "f.sql:1:1: CREATE, INSERT or IMPORT must stand here, not 'CREAT'; did you mean CREATE?",
        ),
        ("CREATE STREEM x", "f.sql:1:8: STREAM, TABLE, VIEW or JOB must stand here, not 'STREEM'"),
        ("CREATE STREAM x (a INT", "f.sql:1:17: this parenthesis is never closed"),
        ("CREATE STREAM x WITH (topic 'a')", "f.sql:1:29: = must stand here, not 'a'"),
        ("CREATE STREAM x WITH (topic = )", "f.sql:1:31: the value of 'topic' must be"),
        ("CREATE STREAM x WITH (a = 1, a = 2)", "f.sql:1:30: option 'a' is given twice"),
        ("CREATE STREAM x WITH (a = 'it''s')", "f.sql:1:31: write a quote inside a text as \\'"),
        ("CREATE STREAM r AS\n SELECT a FROM b WHERE x =", "f.sql:2:26: syntax error near '='"),
        ("CREATE STREAM r AS SELECT a b c FROM d", "f.sql:1:31: syntax error near 'c'"),
        ("CREATE STREAM r AS SELECT (a FROM d", "f.sql:1:30: syntax error near 'FROM'"),
        ("CREATE STREAM r AS SELECT a,\n  b,\n FROM d", "f.sql:2:4: a comma too many"),
        ("CREATE STREAM r AS", "f.sql:1:17: a SELECT is missing"),
        ("CREATE STREAM r (a INT) AS SELECT 1", "f.sql:1:1: r takes its columns from the SELECT"),
        ("CREATE OR REPLACE TABLE r", "f.sql:1:8: CREATE OR REPLACE makes no sense here"),
        ("CREATE VIEW x", "f.sql:1:13: CREATE VIEW x needs AS and a SELECT"),
        ("INSERT out SELECT 1", "f.sql:1:8: INTO must stand here"),
        ("CREATE JOB a lake WITH (x = 1)", "f.sql:1:14: USING must stand here"),
        ("CREATE STREAM x WITH (topic = 'a", "f.sql:1:31: not SQL"),
        ("CREATE VIEW v AS SELECT 'a' AS b;\nCREATE VIEW w AS SELECT 'c FROM d;", "f.sql:2:25: not SQL"),
        ("CREATE VIEW v AS SELECT id FROM orders JOIN orders;", "f.sql:1:18: not SQL: Alias already used"),
        (f"CREATE VIEW v AS SELECT {'(' * 900}1{')' * 900}", "f.sql:1:18: this is nested too deeply"),
        (
            "CREATE VIEW v AS SELECT id FROM o WATERMARK f(x) AS t DELAY OF INTERVAL 1 DAY",
            "f.sql:1:35: write WATERMARK",
        ),
        ("CREATE STREAM x WITH (a = 1) foo", "f.sql:1:30: WITH, AS or ; must stand here"),
        ("IMPORT more", "f.sql:1:8: the file to import must stand here, in quotes"),
        ("SELECT 1", "f.sql:1:1: CREATE, INSERT or IMPORT must stand here"),
    ],
)
def test_a_mistake_is_told_with_its_place(text, said):
    with pytest.raises(PipelineError) as error:
        parse(text, "f.sql")
    assert said in str(error.value)


def test_an_empty_file_has_no_parts():
    assert parse("-- nothing yet\n;;\n", "f.sql") == []
