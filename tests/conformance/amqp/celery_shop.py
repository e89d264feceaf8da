"""Tasks for a real Celery worker: `celery -A celery_shop worker`, told by the environment where and how.

SHOP_ADDRESS is the broker's HOST:PORT, SHOP_BACKEND where results go, SHOP_QUEUE the queue, SHOP_MORE further
settings as JSON.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from celery import Celery, shared_task
from kombu import Queue


def make_app(address: str, backend: str, queue: str, **more: Any) -> Celery:
    app = Celery("shop", broker=f"amqp://guest:guest@{address}//", backend=backend, set_as_current=False)
    app.conf.update(
        task_default_queue=queue,
        task_default_exchange=queue,
        task_default_routing_key=queue,
        task_publish_retry=False,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"confirm_publish": True},
        worker_send_task_events=True,
        task_send_sent_event=True,
        result_expires=600,
        control_exchange=f"{queue}.control",
        event_exchange=f"{queue}.events",
    )
    top = more.pop("max_priority", None)
    if top is not None:
        arguments = {"x-max-priority": top}
        app.conf.task_queues = [Queue(queue, routing_key=queue, queue_arguments=arguments)]
    app.conf.update(more)
    return app


@shared_task(name="shop.add")
def add(x: int, y: int) -> int:
    return x + y


@shared_task(name="shop.total")
def total(numbers: list[int]) -> int:
    return sum(numbers)


@shared_task(name="shop.echo")
def echo(thing: Any) -> Any:
    return thing


@shared_task(name="shop.fail")
def fail(text: str) -> None:
    raise ValueError(text)


@shared_task(name="shop.now")
def now() -> float:
    return time.time()


@shared_task(name="shop.stubborn", bind=True, max_retries=5)
def stubborn(self: Any, failures: int) -> int:
    """Fails so many times before it tells how often it was tried."""
    if self.request.retries < failures:
        raise self.retry(countdown=0)
    return int(self.request.retries) + 1


@shared_task(name="shop.note")
def note(path: str, word: str) -> None:
    """Add a word to a file."""
    with Path(path).open("a") as file:
        file.write(word + "\n")


@shared_task(name="shop.hold", bind=True, acks_late=True, reject_on_worker_lost=True)
def hold(self: Any, started: str, release: str) -> bool:
    """Say that it has started, then wait for a file; tells whether it was redelivered."""
    with Path(started).open("a") as file:
        file.write("started\n")
    deadline = time.monotonic() + 60
    while not Path(release).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(self.request.delivery_info["redelivered"])


if "SHOP_ADDRESS" in os.environ:
    app = make_app(
        os.environ["SHOP_ADDRESS"],
        os.environ["SHOP_BACKEND"],
        os.environ["SHOP_QUEUE"],
        **json.loads(os.environ.get("SHOP_MORE", "{}")),
    )
