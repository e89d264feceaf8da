"""Write down which functions SQL may call, asked of a real Spark: `python tools/spark_functions.py`.

Checks before a start of Spark compare with that list. Run it when the project moves to another version.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

TARGET = Path("src/mainstem/pipeline/spark_functions.txt")
HEAD = "# Functions of Spark {version}, as SHOW SYSTEM FUNCTIONS lists them, without operators.\n"


def main() -> None:
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    rows = session.sql("SHOW SYSTEM FUNCTIONS").collect()
    names = sorted({row[0] for row in rows if row[0].isidentifier()})
    TARGET.write_text(HEAD.format(version=session.version) + "\n".join(names) + "\n", encoding="utf-8")
    print(f"{TARGET}: {len(names)} functions")
    session.stop()


if __name__ == "__main__":
    main()
