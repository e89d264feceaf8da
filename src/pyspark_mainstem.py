"""Spark looks for data sources in modules named pyspark_*, and for this name in them: nothing to register."""

from mainstem.spark.source import MainstemSource as DefaultSource

__all__ = ["DefaultSource"]
