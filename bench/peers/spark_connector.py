"""Spark's own Kafka connector as a peer: its jars come by Maven, once, into bench/.peers.

The newest that Maven has is made for Spark 4.0; its batch reads work on 4.3, its streams do not.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

VERSION = "4.0.0"
CLIENTS = "3.9.0"  # the kafka-clients that it comes with
HERE = Path(__file__).parent
LIBS = HERE.parent / ".peers" / f"spark-connector-{VERSION}"
# What Spark brings itself would be there twice.
WANTED = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")


def jars() -> str:
    """Their paths, as spark.jars wants them."""
    if not LIBS.exists():
        if not shutil.which("mvn"):
            raise RuntimeError("Spark's connector needs Maven (mvn on the PATH)")
        command = ["mvn", "-q", "-B", "-f", str(HERE / "spark.pom.xml"), "dependency:copy-dependencies"]
        subprocess.run([*command, f"-DoutputDirectory={LIBS}"], check=True)
    found = [str(path) for path in sorted(LIBS.glob("*.jar")) if path.name.startswith(WANTED)]
    if len(found) < len(WANTED):
        raise RuntimeError(f"{LIBS} does not hold all of {', '.join(WANTED)}; delete it and try again")
    return ",".join(found)
