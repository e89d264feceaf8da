"""Executors on a real standalone cluster, started from the pip package, read as local ones do."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

DRIVER = """
import sys
from pyspark.sql import SparkSession
master, address, topic = sys.argv[1:]
spark = SparkSession.builder.master(master).config("spark.ui.enabled", "false").getOrCreate()
frame = spark.read.format("mainstem").option("kafka.bootstrap.servers", address) \\
    .option("subscribe", topic).option("minPartitions", 4).load()
workers = frame.rdd.getNumPartitions()
print("counted", frame.count(), "in", workers, "from", spark.sparkContext.master)
"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The master's address, with one worker registered."""
    home = Path(pyspark.__file__).parent
    folder = tmp_path_factory.mktemp("cluster")
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_WORKER_DIR": str(folder),
    }
    port, ui, worker_ui = free_port(), free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    start = [str(home / "bin" / "spark-class"), "org.apache.spark.deploy"]
    with ExitStack() as stack:

        def run(role, *options):
            log = stack.enter_context(open(folder / f"{role}.log", "wb"))
            command = [start[0], f"{start[1]}.{role.lower()}.{role}", *options]
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
            stack.callback(process.wait)
            stack.callback(process.terminate)

        run("Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(ui))
        run(
            "Worker",
            master,
            "--host",
            "127.0.0.1",
            "--cores",
            "2",
            "--memory",
            "1g",
            "--webui-port",
            str(worker_ui),
        )
        deadline = time.monotonic() + 90
        while alive_workers(ui) < 1:
            assert time.monotonic() < deadline, (folder / "Master.log").read_text()[-2000:]
            time.sleep(0.2)
        yield master, environment


def alive_workers(ui):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{ui}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except OSError:
        return 0


def test_executors_of_a_cluster_read_a_topic(cluster, house, topic, tmp_path):
    master, environment = cluster
    house.create(topic, 2)
    for partition in range(2):
        house.fill(topic, [b"v"] * 1000, partition)
    (tmp_path / "driver.py").write_text(DRIVER)
    command = [sys.executable, str(tmp_path / "driver.py"), master, house.address, topic]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=110)
    assert f"counted 2000 in 4 from {master}" in done.stdout, done.stderr[-3000:]


PIPELINE = """
CREATE STREAM orders (id BIGINT, customer STRING, amount DOUBLE, at TIMESTAMP)
  WITH (topic = '{topic}', format = 'json', timestamp = 'at', watermark = '10 seconds');
CREATE TABLE customers WITH (format = 'csv', path = 'customers.csv', header = 'true');
CREATE STREAM revenue WITH (topic = '{topic}-revenue', format = 'json', key = 'region') AS
  SELECT window.start AS minute, c.region, sum(gross(o.amount)) AS revenue
  FROM orders o JOIN customers c ON o.customer = c.id
  GROUP BY window(o.at, '1 minute'), c.region;
CREATE TABLE lake WITH (format = 'parquet', path = 'lake') AS SELECT id, amount FROM orders;
"""
FUNCTIONS = """
from mainstem.pipeline import function


@function("double")
def gross(amount):
    return None if amount is None else amount * 2
"""


@pytest.mark.timeout(300)
def test_a_pipeline_runs_on_a_cluster_as_it_does_here(cluster, house, topic, tmp_path):
    master, environment = cluster
    house.create(topic, 2)
    for partition in range(2):
        orders = [
            {"id": 100 * partition + i, "customer": "ab"[i % 2], "amount": 1, "at": f"2031-05-04T12:0{i}:00Z"}
            for i in range(4)
        ]
        house.fill(topic, [json.dumps(order).encode() for order in orders], partition)
    (tmp_path / "shop.sql").write_text(PIPELINE.format(topic=topic))
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "customers.csv").write_text("id,region\na,north\nb,south\n")
    command = [sys.executable, "-c", "from mainstem.cli.main import main; main()", "pipeline", "run"]
    command += ["shop.sql", "functions.py", "--once", "--json", "--name", topic, "--master", master]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment | {"MAINSTEM_BOOTSTRAP": house.address},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert (told["state"], told["master"]) == ("done", master)
    values = [json.loads(row.value) for row in house.read(f"{topic}-revenue").collect()]
    # The watermark is ten seconds behind the last order, and so in the third minute.
    assert sorted((row["minute"][14:16], row["region"], row["revenue"]) for row in values) == [
        ("00", "north", 4.0),
        ("01", "south", 4.0),
    ]
    found = house.spark.read.parquet(str(tmp_path / "lake")).collect()
    assert sorted(row.id for row in found) == [0, 1, 2, 3, 100, 101, 102, 103]
