"""What tests with Spark share: topics made and filled by our own client, reads with few words."""

import itertools
import os

from pyspark.sql import DataFrame, SparkSession

from mainstem.client import Client, ClientSettings, TopicPartition, admin, parse_bootstrap
from mainstem.model.records import Record, encode_batch
from mainstem.testing.broker import Broker

_numbers = itertools.count()
T0_MS = 1_700_000_000_000


def new_name(stem: str) -> str:
    return f"{stem}-{os.getpid()}-{next(_numbers)}"


class House:
    """A session and a broker."""

    def __init__(self, spark: SparkSession, address: str, broker: Broker | None = None) -> None:
        self.spark = spark
        self.address = address
        self.broker = broker

    def client(self) -> Client:
        return Client(ClientSettings(parse_bootstrap(self.address)))

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        with self.client() as client:
            admin.create_topic(
                client, topic, partitions, {name.replace("_", "."): value for name, value in configs.items()}
            )

    def fill(self, topic: str, values, partition: int = 0, key=None, first_ms: int = T0_MS, **how) -> None:
        """One batch; record i has the time first_ms + i."""
        records = [Record(0, first_ms + i, key, value) for i, value in enumerate(values)]
        self.put(topic, records, partition, **how)

    def put(self, topic: str, records, partition: int = 0, **how) -> None:
        with self.client() as client:
            client.topic(topic)
            client.produce({TopicPartition(topic, partition): encode_batch(records, **how)})

    def options(self, **options) -> dict[str, str]:
        given = {"kafka.bootstrap.servers": self.address}
        return given | {name: str(value) for name, value in options.items()}

    def read(self, topic: str | None = None, **options) -> DataFrame:
        if topic is not None:
            options["subscribe"] = topic
        return self.spark.read.format("mainstem").options(**self.options(**options)).load()

    def stream(self, topic: str | None = None, **options) -> DataFrame:
        if topic is not None:
            options["subscribe"] = topic
        return self.spark.readStream.format("mainstem").options(**self.options(**options)).load()
