"""The brokers under measurement, each started and stopped by the same few calls."""

from bench.peers.kafka import start_kafka
from bench.peers.mainstem import start_mainstem
from bench.peers.rabbitmq import start_rabbitmq
from bench.peers.server import Server
from bench.peers.sink import start_sink

__all__ = ["Server", "start_kafka", "start_mainstem", "start_rabbitmq", "start_sink"]
