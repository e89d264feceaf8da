"""Spark's types as Arrow's, exactly as Spark wants to get them."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as spark

from mainstem.model.errors import InvalidRequest

_PLAIN: dict[type[spark.DataType], pa.DataType] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", tz="UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
}


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    return pa.schema([pa.field(field.name, arrow_type(field.dataType)) for field in schema.fields])


def arrow_type(kind: spark.DataType) -> pa.DataType:
    plain = _PLAIN.get(type(kind))
    if plain is not None:
        return plain
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, spark.ArrayType):
        return pa.list_(arrow_type(kind.elementType))
    if isinstance(kind, spark.StructType):
        return pa.struct([pa.field(field.name, arrow_type(field.dataType)) for field in kind.fields])
    if isinstance(kind, spark.MapType):
        return pa.map_(arrow_type(kind.keyType), arrow_type(kind.valueType))
    raise InvalidRequest(f"values of type {kind.simpleString()} cannot be read; use STRING and convert them")
