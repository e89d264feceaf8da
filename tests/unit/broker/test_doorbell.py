"""Calls from other threads reach the loop, each once, in the order of their thread."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from mainstem.broker.doorbell import Doorbell

CALLS = 2000


@pytest.fixture(params=["eventfd", "asyncio"])
def way(request, monkeypatch):
    if request.param == "asyncio":
        monkeypatch.delattr(os, "eventfd", raising=False)
    elif not hasattr(os, "eventfd"):
        pytest.skip("this system has no eventfd")


@pytest.mark.usefixtures("way")
def test_every_call_is_made_once_in_its_threads_order():
    async def run() -> None:
        doorbell, made, all_made = Doorbell(asyncio.get_running_loop()), [], asyncio.Event()

        def call(what: tuple[int, int]) -> None:
            made.append((*what, threading.current_thread()))
            if len(made) == 3 * CALLS:
                all_made.set()

        def post(thread: int) -> None:
            for number in range(CALLS):
                doorbell.post(call, (thread, number))

        threads = [threading.Thread(target=post, args=(thread,)) for thread in range(3)]
        for thread in threads:
            thread.start()
        async with asyncio.timeout(30):
            await all_made.wait()
        doorbell.close()
        assert {where for _, _, where in made} == {threading.main_thread()}
        for thread in range(3):
            assert [number for who, number, _ in made if who == thread] == list(range(CALLS))

    asyncio.run(run())


@pytest.mark.usefixtures("way")
def test_a_call_that_fails_does_not_keep_the_next_from_being_made():
    async def run() -> None:
        doorbell, made = Doorbell(asyncio.get_running_loop()), asyncio.Event()
        doorbell.post(lambda _: 1 // 0, None)
        doorbell.post(lambda _: made.set(), None)
        async with asyncio.timeout(30):
            await made.wait()
        doorbell.close()

    asyncio.run(run())


@pytest.mark.usefixtures("way")
def test_what_is_in_line_can_be_delivered_at_once():
    async def run() -> None:
        doorbell, made = Doorbell(asyncio.get_running_loop()), []
        doorbell.post(made.append, 1)
        doorbell.deliver()
        assert made == [1]
        doorbell.close()
        doorbell.close()

    asyncio.run(run())
