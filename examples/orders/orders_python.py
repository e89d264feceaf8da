"""The same stream of orders in Python: DataFrames in and out, a function for SQL, a function per message."""

import json

from pyspark.sql import DataFrame, functions

from mainstem.pipeline import Message, function, message, read_stream, read_table, stream

read_stream(
    "orders",
    "id BIGINT, customer STRING, item STRING, amount DECIMAL(12, 2), at TIMESTAMP",
    topic="orders",
    timestamp="at",
    watermark="30 seconds",
)
read_table("customers", "id STRING, region STRING", format="csv", path="customers.csv", header=True)


@function("string")
def shelf(item: str | None) -> str:
    """What SQL can call: shelf('oat drink') is 'food'."""
    return "tools" if item in ("kettle", "cup", "filters") else "food"


@stream(topic="shelves", key="region")
def shelves(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """Revenue per five minutes, region and shelf. The parameters name what is read."""
    joined = orders.join(customers, orders.customer == customers.id)
    groups = joined.groupBy(
        functions.window("at", "5 minutes"), "region", functions.expr("shelf(item) AS shelf")
    )
    sums = groups.agg(functions.sum("amount").alias("revenue"))
    return sums.select(functions.col("window.start").alias("begin"), "region", "shelf", "revenue")


@message(source="orders", topic="receipts")
def receipts(order: Message) -> Message | None:
    """Large orders go to a topic of their own, small change gets no receipt."""
    if order.value is None:
        return None
    fields = json.loads(order.value)
    if fields["amount"] < 5:
        return None
    receipt = order.with_value(f"{fields['id']}: {fields['item']}, {fields['amount']:.2f}")
    return receipt.to("large-receipts") if fields["amount"] > 100 else receipt
