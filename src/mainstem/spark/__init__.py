"""Spark reads and writes topics: the data source `mainstem`, for batches and streams.

It needs pyspark and pyarrow (`pip install 'mainstem[spark]'`), which nothing else in the package does. Start
with `source.py`, which Spark calls; `options.py` says what can be asked for, `planning.py` turns that into
stretches of partitions on the driver, `reading.py` turns those into Arrow batches on executors. `versions.py`
holds what differs between versions of PySpark.
"""
