"""Calls of the http listener for people and tools who look after queues; see door.py."""
