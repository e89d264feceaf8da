"""Pipelines: SQL and Python files that say what Spark computes over topics, and how they are run."""
