"""A small synchronous Kafka client on our own codec: for the command line, Spark, tests and benches.

Start with `Client` (client.py); `admin` and `groups` are functions over one, `producing` makes batches.
"""

from mainstem.client.client import EARLIEST, LATEST, MAX_TIMESTAMP, Client
from mainstem.client.cluster import Fetched, TopicPartition
from mainstem.client.settings import Address, ClientSettings, Sasl, Tls, parse_bootstrap

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "Address",
    "Client",
    "ClientSettings",
    "Fetched",
    "Sasl",
    "Tls",
    "TopicPartition",
    "parse_bootstrap",
]
