"""Kafka's wire protocol, pure: bytes to messages and back.

Read in this order: `schema` (how a message is declared), `metadata` (one family of declarations), `apis` (the
table of all), `codec` and `generate` (how a declaration becomes code), `frames` (headers), `hot` (Produce and
Fetch by hand). Nothing is imported here, so that a client pays only for what it uses.
"""
