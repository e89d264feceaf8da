"""Columns are followed through queries; only what is certainly wrong is refused."""

import pytest

from mainstem.pipeline.dialect import parse_query
from mainstem.pipeline.names import columns_of, tables_of, unknown_columns
from mainstem.pipeline.parts import Position

KNOWN = {
    "orders": ("id", "customer", "amount", "at", "xs"),
    "customers": ("id", "region"),
    "opaque": None,
}
WINDOWED = """SELECT window.start AS minute, c.region, sum(o.amount) AS revenue
FROM orders o JOIN customers c ON o.customer = c.id GROUP BY window(o.at, '1 minute'), c.region"""


def look(query):
    tree, text = parse_query(query, Position("f.sql", 1, 1))
    wrong = [str(error) for error in unknown_columns(tree, KNOWN, text)]
    return list(tables_of(tree)), columns_of(tree, KNOWN), wrong


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        (WINDOWED, ("minute", "region", "revenue")),
        ("select * from orders join opaque on orders.foo = opaque.bar", None),
        ("select o.*, region from orders o join customers c using (id)", (*KNOWN["orders"], "region")),
        ("select transform(xs, y -> y + amount) as t from orders", ("t",)),
        ("select exists(select 1 from customers k where k.id = orders.customer) as e from orders", ("e",)),
        ("select z from orders lateral view explode(xs) t as z", ("z",)),
        ("select id from orders union all select id from customers", ("id",)),
        ("select sum(amount) s from orders group by customer having s > 3 order by s", ("s",)),
        ("from orders |> where amount > 3 |> select id", ("id",)),
        ("select id, row_number() over (partition by customer order by at) rn from orders", ("id", "rn")),
        ("select count(*) from orders", None),
        ("select id as a, a + 1 as b from orders", ("a", "b")),
        ("select e.c from orders, lateral explode(xs) as e(c)", ("c",)),
        ("with b as (select id, amount * 2 as x from orders) select x, b.id from b", ("x", "id")),
        ("select ID, Orders.Amount from ORDERS", ("ID", "Amount")),
        ("select id from orders where customer in (select region from customers)", ("id",)),
        ("select id from orders where exists (select 1 from customers where region = customer)", ("id",)),
        ("select id, (select max(region) from customers) as m from orders", ("id", "m")),
        ("with a(x, y) as (select id, region from customers) select x, y from a", ("x", "y")),
        ("select s.x from (select id from orders) as s(x)", ("x",)),
        ("select to_json(o) as j from orders o", ("j",)),
        ("(select id from orders) union (select id from customers) order by id", None),
        ("select id from stream orders", ("id",)),
        ("select id from orders watermark at delay of interval '10 seconds' where amount > 1", ("id",)),
        ("select id from orders o watermark o.at delay of interval 1 minute 30 seconds", ("id",)),
        ("select session_window.end as e from orders group by session_window(at, '5 minutes')", ("e",)),
    ],
)
def test_what_spark_would_take_is_not_refused(query, columns):
    _, found, wrong = look(query)
    assert wrong == []
    assert found == columns


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select o.amout from orders o", "f.sql:1:10: o has no column 'amout'; did you mean 'amount'?"),
        ("select amout from orders", "f.sql:1:8: there is no column 'amout'; did you mean 'amount'?"),
        ("select id from orders o\nwhere o.id = c.id", "f.sql:2:14: there is no table or column 'c'"),
        ("select x.id from (select id from orders) x where x.foo = 1", "f.sql:1:52: x has no column 'foo'"),
        ("with b as (select id from orders) select y from b", "f.sql:1:42: there is no column 'y'"),
        ("select t.z, q from orders lateral view explode(xs) t as z", "f.sql:1:13: there is no column 'q'"),
    ],
)
def test_an_unknown_column_is_told_with_what_was_meant(query, said):
    _, _, wrong = look(query)
    assert wrong[0].startswith(said)


def test_names_that_with_gives_are_not_tables():
    tables, _, _ = look("with b as (select id from orders) select * from b join customers using (id)")
    assert sorted(tables) == ["customers", "orders"]
