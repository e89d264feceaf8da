"""rabbitmq-c through its command line tools (Debian's amqp-tools)."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from amqp_kit import PATIENCE_S, bound, declare, declare_exchange, everything, must_get, new_name, put, ready

pytestmark = pytest.mark.skipif(
    shutil.which("amqp-publish") is None, reason="rabbitmq-c's tools (package amqp-tools) are not installed"
)


@pytest.fixture
def tool(address):
    """Run one of the tools against the broker."""

    def run(name, *arguments, typed=b""):
        where = f"amqp://guest:guest@{address}"
        return subprocess.run(
            [name, "--url", where, *arguments], input=typed, capture_output=True, timeout=PATIENCE_S
        )

    return run


def test_amqp_publish_sends_what_it_is_given(tool, channel):
    queue = declare(channel)
    made = tool("amqp-publish", "-r", queue, "-p", "-C", "text/plain", "-b", "hello")
    assert (made.returncode, made.stderr) == (0, b"")
    found = must_get(channel, queue)
    assert (found.body, found.properties.delivery_mode) == ("hello", 2)
    assert found.properties.content_type == "text/plain"


def test_amqp_publish_sends_to_exchanges_with_headers_and_each_line_alone(tool, channel):
    exchange = declare_exchange(channel, "topic")
    queue = bound(channel, exchange, "a.#")
    made = tool("amqp-publish", "-e", exchange, "-r", "a.b", "-H", "colour: blue", "-l", typed=b"one\ntwo\n")
    assert made.returncode == 0
    one, two = must_get(channel, queue), must_get(channel, queue)
    assert (one.body.strip(), two.body.strip()) == ("one", "two")
    assert one.properties.headers["colour"].strip() == "blue"


def test_amqp_get_takes_one_message_and_tells_when_there_is_none(tool, channel):
    queue = declare(channel)
    put(channel, queue, "a")
    found = tool("amqp-get", "-q", queue)
    assert (found.returncode, found.stdout) == (0, b"a")
    assert tool("amqp-get", "-q", queue).returncode == 2


def test_amqp_consume_hands_each_message_to_a_program(tool, channel):
    queue = declare(channel)
    put(channel, queue, "a\n", "b\n", "c\n")
    found = tool("amqp-consume", "-q", queue, "-c", "2", "-p", "1", "cat")
    assert (found.returncode, found.stdout) == (0, b"a\nb\n")
    assert everything(channel, queue) == ["c\n"]


def test_amqp_declare_and_delete_queue(tool, channel):
    queue = new_name()
    made = tool("amqp-declare-queue", "-q", queue, "-d")
    assert (made.returncode, made.stdout.strip()) == (0, queue.encode())
    put(channel, queue, "a", "b")
    assert ready(channel, queue) == 2
    gone = tool("amqp-delete-queue", "-q", queue)
    assert (gone.returncode, gone.stdout.strip()) == (0, b"2")


def test_a_refusal_is_shown_to_the_user(tool):
    failed = tool("amqp-get", "-q", new_name())
    assert failed.returncode == 1
    assert b"404" in failed.stderr
    assert b"NOT_FOUND - no queue" in failed.stderr


def test_a_large_body_travels_through(tool, channel):
    queue = declare(channel)
    body = b"0123456789" * 50_000
    assert tool("amqp-publish", "-r", queue, typed=body).returncode == 0
    assert tool("amqp-get", "-q", queue).stdout == body
