"""`make run ARGS="--for ..."` with its sample, as a user runs it."""

import contextlib
import re
import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = [sys.executable, "-c", "from mainstem.cli.main import main; main()", "demo"]


def test_the_sample_computes_what_was_sent(spark, tmp_path):
    command = [*PROGRAM, "--for", "10", "--rate", "300", "--data", str(tmp_path / "data")]
    command += ["--listen", "kafka=127.0.0.1:0", "--listen", "http=127.0.0.1:0"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=110, cwd=tmp_path, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Right: what came out is what went in" in ran.stdout
    found = re.search(r"Right: the pipeline's figures are those of the orders: (\d+) minutes", ran.stdout)
    assert found, ran.stdout
    assert int(found[1]) >= 3
    assert (tmp_path / "mainstem-sample" / "orders.sql").exists()


def test_after_ctrl_c_nothing_of_the_sample_runs_any_more(spark, tmp_path):
    command = [*PROGRAM, "--data", str(tmp_path / "data")]
    command += ["--listen", "kafka=127.0.0.1:0", "--listen", "http=127.0.0.1:0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert any("minutes closed" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=110)
    assert process.returncode == 0, out + err
    assert "Stopped." in out
    left = []
    for other in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (other / "cwd").resolve() == tmp_path:
                left.append((other / "cmdline").read_bytes())
    assert left == []
