"""Groups and transactions as the Java clients use them. Their jars are those of the bench's Kafka."""

import shutil
import subprocess
from pathlib import Path

import pytest
from bench.peers import kafka

from mainstem.testing.broker import Broker

HERE = Path(__file__).parent
PROGRAM = HERE / "java" / "GroupsAndTransactions.java"


@pytest.mark.peers
@pytest.mark.timeout(300)
def test_java_clients_share_move_commit_abort_and_are_fenced(own_broker: Broker):
    java = shutil.which("java")
    assert java is not None, "this test needs a Java 17 or later"
    command = [java, "-cp", f"{kafka.fetch()}/*", str(PROGRAM), own_broker.kafka]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert done.stdout.endswith("seen: after an abort its owner goes on\n"), done.stdout
