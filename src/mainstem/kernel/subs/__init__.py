"""Acknowledging subscriptions, as pure state: what may be delivered, to whom, and when again.

ranges.py      a set of offsets as ranges: compact for runs, still small for a million holes
lane.py        the delivery state of one partition: acked, in flight, ready
attempts.py    how often the delivery of a message failed
sharing.py     which consumer gets how many of the next ones
"""
