"""Idempotent producers and transactions, as pure state machines.

producers.py    one partition's producers: sequences, epochs, open and aborted transactions (hot path)
ids.py          producer ids, never given twice
table.py        transactional ids as deltas build them
coordinator.py  who may do what in which transaction; decisions.py is what it answers
deltas.py       the durable form of all of it
"""
