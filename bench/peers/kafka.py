"""Apache Kafka as a peer: one node, KRaft, its own defaults.

The jars come by Maven, once, into bench/.peers; only the bench needs Maven and Java. Heap and collector
flags are those of Kafka's own start script.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bench.peers.server import Server, free_port, make_certificate, spawn, wait_ready

VERSION = "4.3.1"
HERE = Path(__file__).parent
LIBS = HERE.parent / ".peers" / f"kafka-{VERSION}"
CLUSTER_ID = "bWFpbnN0ZW0tYmVuY2gxMQ"
JVM = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip
FLUSH_EACH_BATCH = {"log.flush.interval.messages": "1"}


def fetch() -> Path:
    """The folder with the jars; asks Maven for them the first time."""
    if (LIBS / f"kafka_2.13-{VERSION}.jar").exists():
        return LIBS
    if not shutil.which("mvn") or not shutil.which("java"):
        raise RuntimeError("the Kafka peer needs Maven and Java 17 (mvn and java on the PATH)")
    command = ["mvn", "-q", "-B", "-f", str(HERE / "kafka.pom.xml"), "dependency:copy-dependencies"]
    subprocess.run([*command, f"-DoutputDirectory={LIBS}"], check=True)
    return LIBS


def properties(data: Path, port: int, tls_port: int | None, extra: Mapping[str, str]) -> dict[str, str]:
    controller_port = free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL",
        "log.dirs": str(data / "logs"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }
    if tls_port:
        cert, key = make_certificate(data)
        keystore = data / "tls-keystore.pem"
        keystore.write_text(key.read_text() + cert.read_text())
        values["listeners"] += f",SSL://127.0.0.1:{tls_port}"
        values |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(keystore)}
    return values | dict(extra)


def start_kafka(
    name: str,
    data: Path,
    *,
    tls: bool = False,
    extra: Mapping[str, str] | None = None,
    ready_timeout_s: float = 120,
) -> Server:
    """Formats the folder if it is new, starts the broker and waits until it answers."""
    libs = fetch()
    data.mkdir(parents=True, exist_ok=True)
    config, log = data / "server.properties", data / "broker.log"
    port, tls_port = free_port(), free_port() if tls else None
    values = properties(data, port, tls_port, extra or {})
    config.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    classpath = f"{libs}/*"
    if not (data / "logs" / "meta.properties").exists():
        tool = [
            "java",
            "-cp",
            classpath,
            "kafka.tools.StorageTool",
            "format",
            "-t",
            CLUSTER_ID,
            "-c",
            str(config),
        ]
        subprocess.run(tool, check=True, capture_output=True)
    process = spawn(["java", *JVM, "-cp", classpath, "kafka.Kafka", str(config)], log)
    ready_s = wait_ready(process, port, log, ready_timeout_s)
    ca = data / "tls-cert.pem" if tls else None
    return Server(name, process, data, port, None, ready_s, tls_port, ca, version=f"Kafka {VERSION}")
