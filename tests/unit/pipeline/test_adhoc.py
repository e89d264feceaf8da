"""An ad-hoc query before Spark: the topics it reads, the columns it needs, and errors that say where."""

import pytest

from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.adhoc import (
    QueryError,
    check_columns,
    check_topics,
    named_topics,
    needs_backticks,
    parse,
    parse_ddl,
    plan,
    plan_all,
    text_columns,
)
from mainstem.pipeline.adhoc_sample import columns_of

ORDERS = parse_ddl(
    "orders", "id BIGINT, region STRING, amount DOUBLE, items ARRAY<STRUCT<sku: STRING, n: INT>>"
)
KNOWN = {"orders": ORDERS, "web.log-1": text_columns("web.log-1")}


def planned(query):
    parsed = parse(query)
    check_topics(parsed, KNOWN)
    check_columns(parsed, KNOWN)
    return {one.topic: (list(one.fields), list(one.record)) for one in plan(parsed, KNOWN)}


def error(query):
    with pytest.raises(QueryError) as caught:
        planned(query)
    return str(caught.value)


@pytest.mark.parametrize(
    ("query", "topics"),
    [
        ("select 1", ()),
        ("select * from orders o join `web.log-1` on true", ("orders", "web.log-1")),
        ("with orders2 as (select * from orders) select * from orders2 as again", ("orders",)),
        ("select * from (select id from orders) x, range(10)", ("orders",)),
        ("select id from orders where id in (select key from `web.log-1`)", ("orders", "web.log-1")),
        ("select id from orders union all select key from `web.log-1`", ("orders", "web.log-1")),
        ("select o.n from orders lateral view explode(items) t as o", ("orders",)),
        ("from orders |> where amount > 3 |> select id", ("orders",)),
        ("select a from values (1), (2) as t(a)", ()),
    ],
)
def test_tables_are_topics_and_names_that_the_query_makes_up_are_not(query, topics):
    assert tuple(sorted(parse(query).topics)) == topics


@pytest.mark.parametrize(
    ("query", "fields", "record"),
    [
        ("select count(*) from orders", [], []),
        ("select REGION, sum(amount) from orders group by all", ["region", "amount"], []),
        ("select o.items[0].sku from orders as o", ["items"], []),
        ("select id from orders where _timestamp > now() - interval 1 hour", ["id"], ["_timestamp"]),
        ("select transform(items, i -> i.n) from orders order by _offset", ["items"], ["_offset"]),
        ("select _value, _headers from orders where id is null", ["id"], ["_value", "_headers"]),
        ("select a.id from orders a left anti join orders b on a.region = b.region", ["id", "region"], []),
        (
            "select window.start, count(*) from orders group by window(_timestamp, '1 minute')",
            [],
            ["_timestamp"],
        ),
    ],
)
def test_only_columns_that_the_query_names_are_read(query, fields, record):
    assert planned(query) == {"orders": (fields, record)}


@pytest.mark.parametrize(
    "query",
    [
        "select * from orders",
        "select o.* from orders o",
        "select to_json(struct(*)) from orders",
        "select id from orders natural join orders b",
        "from orders |> where amount > 3",
    ],
)
def test_a_star_takes_the_fields_and_what_a_record_knows(query):
    found = planned(query)["orders"]

    assert found == (["id", "region", "amount", "items"], ["_key", "_partition", "_offset", "_timestamp"])


def test_text_has_key_and_value_and_no_second_key():
    assert planned("select * from `web.log-1`") == {
        "web.log-1": (["key", "value"], ["_partition", "_offset", "_timestamp"])
    }


def test_a_field_of_a_value_goes_before_a_column_of_the_record_with_its_name():
    topic = parse_ddl("t", "_key BIGINT")

    assert topic.all.count("_key") == 1
    assert plan(parse("select _key from t"), {"t": topic})[0].record == ()


@pytest.mark.parametrize(
    ("query", "first_line", "last_lines"),
    [
        ("select sum(amount frm orders", "line 1, column 19: syntax error near 'frm'", ["frm orders", "^"]),
        (
            "select id,\n\tregin\nfrom orders",
            "line 2, column 2: there is no column 'regin'; did you mean 'region'?",
            ["\tregin", "\t^"],
        ),
        (
            "select 1 from ordes",
            "line 1, column 15: there is no topic 'ordes'; did you mean 'orders'?",
            ["ordes", "^"],
        ),
        ("select o.nam from orders o", "line 1, column 10: o has no column 'nam'", ["nam", "^"]),
        ("select id from orders; select 1", "line 1, column 24: one query at a time", ["select 1", "^"]),
        ("", "line 1, column 1: there is no query", ["^"]),
        ("insert into orders select 1", "line 1, column 1: a SELECT must stand here", ["^"]),
        ("drop table orders", "line 1, column 1: a SELECT must stand here", ["^"]),
    ],
)
def test_errors_say_where_and_show_it(query, first_line, last_lines):
    said = error(query)

    assert said.startswith(first_line)
    lines = said.splitlines()
    assert lines[-1].endswith(last_lines[-1])
    if len(last_lines) == 2:
        shown, mark = lines[-2:]
        assert last_lines[0] in shown
        assert shown[len(mark) - 1 :].startswith(last_lines[0].strip()[:3])


def test_a_name_with_dots_wants_backticks():
    parsed = parse("select * from web.log")

    with pytest.raises(QueryError, match=r"column 15: .*`web\.log`"):
        check_topics(parsed, ["web.log"])


def test_names_that_differ_in_case_only_are_refused_together():
    parsed = parse("select * from Orders join orders")

    with pytest.raises(InvalidRequest, match="case"):
        check_topics(parsed, ["Orders", "orders"])


def test_a_name_that_broke_the_query_is_found():
    assert needs_backticks("select * from web.log-1 where x", KNOWN) == "web.log-1"
    assert needs_backticks("select * from `web.log-1` where x = 'web.log-1'", KNOWN) is None
    assert needs_backticks("select * from my-web.log-1", KNOWN) is None


def test_functions_that_nobody_knows_are_left_to_spark():
    assert planned("select my_own(id, 3)[0], try_variant_get(region, '$.a') from orders") == {
        "orders": (["id", "region"], [])
    }


def test_of_a_query_that_cannot_be_parsed_every_topic_that_is_named_is_read_whole():
    assert named_topics("select strange !! from `web.log-1` x orders.y", KNOWN) == ("web.log-1",)
    (one,) = plan_all([ORDERS])
    assert list(one.fields) == list(ORDERS.fields)
    assert one.record == ("_key", "_partition", "_offset", "_timestamp", "_value", "_topic", "_headers")


@pytest.mark.parametrize("ddl", ["id", "", "id BIGINT) x (", "primary key (id)"])
def test_columns_that_make_no_sense_are_refused(ddl):
    with pytest.raises(InvalidRequest, match="orders: .*no columns"):
        parse_ddl("orders", ddl)


def test_values_that_are_mostly_objects_have_fields():
    found = columns_of("t", [b'{"id": 1, "ID": 2}', b'{"id": 2.5, "at": "2030-01-01T00:00:00Z"}', b"oops"])

    assert found.format == "json"
    assert found.fields == {"id": "DOUBLE", "at": "TIMESTAMP"}
    assert (found.misfits, found.seen) == (1, 3)


@pytest.mark.parametrize(
    "values", [[], [b"x"], [b"[1]", b"3"], [b'{"a": 1}', b"x", b"y"], [b"\xff{}"], [b"{}"]]
)
def test_other_values_are_text(values):
    assert columns_of("t", values) == text_columns("t")
