"""Acknowledging subscriptions, as pure state: what may be delivered, to whom, and when again.

ranges.py      a set of offsets as ranges: compact for runs, still small for a million holes
lane.py        the delivery state of one partition: acked, in flight, ready
attempts.py    how often the delivery of a message failed
sharing.py     which consumer gets how many of the next ones
key_shared.py  the same, where the messages of one key stay with one consumer
leases.py      in flight with deadlines: who holds what, until when
backoff.py     how long a message waits before it is delivered again
"""
