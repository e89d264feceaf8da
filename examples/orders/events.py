"""Orders of a small coffee shop: a few customers buy often, most buy seldom."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random

TOPIC = "orders"
COUNT = 20_000
MINUTES = 60
CUSTOMERS = 200
REGIONS = ("north", "east", "south", "west")
# What is sold, its price in cents, and how often it is bought against the others.
ITEMS = {
    "beans": (1890, 30),
    "filters": (349, 25),
    "oat drink": (229, 40),
    "cup": (1250, 8),
    "kettle": (6450, 2),
}


def customers() -> Iterator[tuple[str, str]]:
    """Name and region of each, as in customers.csv. More live in the first regions."""
    for number in range(CUSTOMERS):
        yield f"c-{number:03d}", REGIONS[int((number * 7 % CUSTOMERS) ** 2 / CUSTOMERS**2 * len(REGIONS))]


def events(count: int, seed: int, until: datetime) -> Iterator[tuple[str, bytes]]:
    """Key and value of each order, in the order of their times; the last is at `until`."""
    chance = Random(seed)
    weights = [weight for _, weight in ITEMS.values()]
    begin = until - timedelta(minutes=MINUTES)
    for number in range(1, count + 1):
        item = chance.choices(list(ITEMS), weights)[0]
        customer = f"c-{int(CUSTOMERS * chance.random() ** 2):03d}"
        order = {
            "id": number,
            "customer": customer,
            "item": item,
            "amount": (1 + int(chance.expovariate(1.5))) * ITEMS[item][0] / 100,
            "at": (begin + number / count * (until - begin)).isoformat(timespec="milliseconds"),
        }
        yield customer, json.dumps(order).encode()


if __name__ == "__main__":  # makes customers.csv
    print("id,region", *map(",".join, customers()), sep="\n")
