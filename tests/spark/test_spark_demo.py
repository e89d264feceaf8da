"""`make run ARGS="--for ..."` with its sample, as a user runs it."""

import re
import subprocess
import sys

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
