"""Mainstem: one durable log that every message client can speak to."""

__version__ = "0.1.0"
