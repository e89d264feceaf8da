"""Share groups: records of a partition go to many members, each to one of them, until it is acknowledged.

`settings.py` what can be set for a group, `deltas.py` and `book.py` what is durable, `sessions.py` what a
member reads, `reading.py` the batches that it gets, `shares.py` the door.
"""

from mainstem.broker.shares.book import ShareBook
from mainstem.broker.shares.deltas import ShareDelta
from mainstem.broker.shares.reading import Wanted
from mainstem.broker.shares.sessions import CLOSE_EPOCH, OPEN_EPOCH, Key, ShareSession
from mainstem.broker.shares.settings import GROUP_CONFIGS, ShareSettings
from mainstem.broker.shares.shares import Acknowledgement, Delivered, Shares, Verdict

__all__ = [
    "CLOSE_EPOCH",
    "GROUP_CONFIGS",
    "OPEN_EPOCH",
    "Acknowledgement",
    "Delivered",
    "Key",
    "ShareBook",
    "ShareDelta",
    "ShareSession",
    "ShareSettings",
    "Shares",
    "Verdict",
    "Wanted",
]
