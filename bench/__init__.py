"""Measures Mainstem beside a real Apache Kafka, on one machine, with the same load programs.

`python -m bench --help` says how to run it; docs/operate/bench.md says what the numbers mean.
"""
