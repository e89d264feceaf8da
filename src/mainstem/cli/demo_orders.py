"""The orders of a small shop, made up but plausible; and a ledger that tells whether all of them arrived."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from random import Random

# What is sold, its price in cents, and how often it is bought against the others.
CATALOGUE = (
    ("espresso beans 1 kg", 1890, 30),
    ("filter paper 100", 349, 25),
    ("oat drink 1 l", 229, 40),
    ("cup, blue", 1250, 8),
    ("hand grinder", 7900, 3),
    ("kettle, gooseneck", 6450, 2),
    ("tasting course", 4900, 4),
)
_WEIGHTS = [weight for _, _, weight in CATALOGUE]
CUSTOMERS = 5000


class Orders:
    """An endless stream of orders: a few customers buy often, most buy seldom."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._next_id = 1

    def next(self, now_us: int) -> tuple[str, bytes]:
        """Key (the customer) and value (JSON) of the next order."""
        chance = self._chance
        item, cents, _ = chance.choices(CATALOGUE, _WEIGHTS)[0]
        quantity = 1 + int(chance.expovariate(1.5))
        customer = f"c-{int(CUSTOMERS * chance.random() ** 3):04d}"
        order = {
            "id": self._next_id,
            "customer": customer,
            "item": item,
            "quantity": quantity,
            "amount": quantity * cents / 100,
            "time": datetime.fromtimestamp(now_us / 1e6, UTC).isoformat(timespec="microseconds"),
        }
        self._next_id += 1
        return customer, json.dumps(order, separators=(",", ":")).encode()


def order_id(value: bytes) -> int:
    """Without parsing the whole: the id is the first field."""
    return int(value[len(b'{"id":') : value.index(b",")])


class _Page:
    __slots__ = ("checksum", "count", "last_id", "out_of_order")

    def __init__(self) -> None:
        self.count = 0
        self.last_id = 0
        self.out_of_order = 0
        self.checksum = blake2b(digest_size=16)


class Ledger:
    """What went by, per partition: how many, whether ids only grew, a checksum over all bytes in order."""

    def __init__(self) -> None:
        self._pages: dict[int, _Page] = {}
        self.count = 0

    def add(self, partition: int, value: bytes) -> None:
        page = self._pages.get(partition)
        if page is None:
            page = self._pages[partition] = _Page()
        number = order_id(value)
        if number <= page.last_id:
            page.out_of_order += 1
        page.last_id = number
        page.count += 1
        page.checksum.update(value)
        self.count += 1

    def count_of(self, partition: int) -> int:
        return self._pages[partition].count if partition in self._pages else 0

    @property
    def partitions(self) -> list[int]:
        return sorted(self._pages)

    def differences(self, read: Ledger) -> Iterator[str]:
        """Self is what was acknowledged; what is wrong with `read`, if anything."""
        for partition in sorted({*self._pages, *read._pages}):
            sent_page = self._pages.get(partition) or _Page()
            read_page = read._pages.get(partition) or _Page()
            where = f"partition {partition}" if partition >= 0 else "over AMQP"
            if sent_page.count != read_page.count:
                yield f"{where}: {sent_page.count} were acknowledged, {read_page.count} were read"
            elif sent_page.checksum.digest() != read_page.checksum.digest():
                yield f"{where}: the bytes that were read are not those that were sent"
            if read_page.out_of_order:
                yield f"{where}: {read_page.out_of_order} were read out of order"
