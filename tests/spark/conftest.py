"""A real local Spark and a real broker for the tests of this folder: one of each in every worker."""

import os
import shutil
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from spark_kit import House, new_name

from mainstem.spark.interpreter import worker_python
from mainstem.testing.broker import Broker

# Records of tests have times of their own, years ago.
FOREVER = {"topics.retention_ms": -1}


@pytest.fixture(scope="session")
def spark(tmp_path_factory) -> Iterator[SparkSession]:
    if not os.environ.get("JAVA_HOME") and not shutil.which("java"):
        pytest.skip("Spark needs Java 17 or newer; there is none here")
    folder = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = worker_python(folder / "python")
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        # Tests are short: the compiler that takes long to start does not pay. Derby is a database of tests.
        .config(
            "spark.driver.extraJavaOptions",
            f"-XX:TieredStopAtLevel=1 -Dderby.stream.error.file={folder / 'derby.log'}",
        )
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[Broker]:
    with Broker(FOREVER, process=True) as broker:
        yield broker


@pytest.fixture
def house(spark, shared_broker) -> House:
    return House(spark, shared_broker.kafka)


@pytest.fixture
def own_house(spark) -> Iterator[House]:
    """With a broker of this test alone."""
    with Broker(FOREVER, process=True) as broker:
        yield House(spark, broker.kafka, broker)


@pytest.fixture
def topic() -> str:
    return new_name("orders")
