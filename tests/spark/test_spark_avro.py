"""Avro values through a real Spark: typed columns, streams, records that cannot be read."""

import datetime
import decimal
import io
import json

import fastavro
import pytest
from pyspark.errors import PySparkException

UTC = datetime.UTC
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": ["null", "string"]},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["new", "paid"]}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]},
            },
        },
    ],
}
AT = datetime.datetime(2024, 5, 1, 10, 0, 0, 250000, tzinfo=UTC)
SCHEMA = fastavro.parse_schema(ORDER)


def order(i, before=b""):
    out = io.BytesIO()
    value = {
        "id": i,
        "customer": f"c{i}" if i % 2 else None,
        "amount": decimal.Decimal(i) / 100,
        "at": AT + datetime.timedelta(seconds=i),
        "day": AT.date(),
        "state": "paid",
        "tags": {"a": "b"},
        "lines": [{"sku": f"s{i}"}],
    }
    fastavro.schemaless_writer(out, SCHEMA, value)
    return before + out.getvalue()


def avro(**more):
    return {"format": "avro", "avroSchema": json.dumps(ORDER), **more}


def test_avro_becomes_typed_columns_and_bad_records_are_set_aside(house, topic):
    house.create(topic)
    values = [order(i) for i in range(100)]
    values[30], values[60] = values[30][:-1], b"{}"
    house.fill(topic, values)
    frame = house.read(topic, **avro(metadata="offset"))
    assert dict(frame.dtypes) == {
        "id": "bigint",
        "customer": "string",
        "amount": "decimal(10,2)",
        "at": "timestamp",
        "day": "date",
        "state": "string",
        "tags": "map<string,string>",
        "lines": "array<struct<sku:string>>",
        "_offset": "bigint",
    }
    rows = sorted(frame.collect(), key=lambda row: row.id)  # in Spark, a sort would read twice
    assert [row.id for row in rows] == [i for i in range(100) if i not in (30, 60)]
    row = rows[7]
    assert (row.customer, row.amount, row.state, row._offset) == ("c7", decimal.Decimal("0.07"), "paid", 7)
    assert row["at"].astimezone(UTC) == AT + datetime.timedelta(seconds=7)
    assert (row.day, row.tags, row.lines[0].sku) == (AT.date(), {"a": "b"}, "s7")
    dead = house.read(f"{topic}.dead", includeHeaders="true").orderBy("offset").collect()
    assert [bytes(one.value) for one in dead] == [values[30], b"{}"]
    assert b"Avro schema" in bytes(dead[0].headers[0].value)


def test_a_stream_reads_values_behind_the_bytes_of_a_registry(house, topic, tmp_path):
    house.create(topic)
    house.fill(topic, [order(i, b"\x00\x00\x00\x00\x09") for i in range(50)])
    frame = house.stream(
        topic, **avro(avroFraming="confluent", schema="id BIGINT, state STRING", startingOffsets="earliest")
    )
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", f"{tmp_path}/checkpoint")
        .option("path", f"{tmp_path}/out")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    rows = house.spark.read.parquet(f"{tmp_path}/out").orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(i, "paid") for i in range(50)]


def test_a_field_that_the_schema_lacks_is_named(house, topic):
    house.create(topic)
    with pytest.raises(PySparkException, match="no field 'amuont'; did you mean 'amount'"):
        house.read(topic, **avro(schema="amuont DOUBLE")).collect()
