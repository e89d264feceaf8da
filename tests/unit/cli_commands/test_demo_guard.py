"""What the demo's guard runs ends with it, and so does whatever that has started."""

import signal
import subprocess
import sys

import pytest

GUARD = [sys.executable, "-m", "mainstem.cli.demo_guard", sys.executable, "-c"]
# Starts a program in a session of its own, which has this pipe open until it ends, and says so.
STARTS = """
import os, subprocess, sys
other = [sys.executable, "-c", "print('up', flush=True); import time; time.sleep(600)"]
subprocess.Popen(other, start_new_session=True)
"""
WAITS = "import time; time.sleep(600)"


@pytest.fixture
def guard():
    running = []

    def start(code):
        process = subprocess.Popen([*GUARD, code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running.append(process)
        return process

    yield start
    for process in running:
        process.stdin.close()  # all below it is killed
        process.wait(60)
        process.stdout.close()


def test_all_are_killed_once_the_demo_is_gone(guard):
    process = guard(STARTS + WAITS)
    assert process.stdout.readline() == "up\n"
    process.stdin.close()
    assert process.stdout.read() == "", "nobody has the pipe open any more"
    assert process.wait(60) == 128 + signal.SIGKILL


def test_what_is_left_of_a_program_that_has_ended_is_killed_too(guard):
    leaves = "import mainstem.cli.demo_guard as guard, sys; guard.LEAVES_S = 0.1; guard.main(sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", leaves, sys.executable, "-c", STARTS + "sys.exit(3)"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    out = process.stdout.read()  # to the end, when nobody has it open any more
    assert process.wait(60) == 3
    assert out in ("up\n", "")
    process.stdin.close()
    process.stdout.close()


def test_sigterm_is_passed_on_and_the_exit_code_is_the_programs(guard):
    process = guard(
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); "
        "print('up', flush=True); time.sleep(600)"
    )
    assert process.stdout.readline() == "up\n"
    process.terminate()
    assert process.wait(60) == 7
