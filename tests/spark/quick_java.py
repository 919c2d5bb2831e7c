"""How Javas of tests are told to be quick: each of them lives for seconds, and has little to do.

Compiling is left to the first of the two compilers, memory is cleared by one thread, and classes come from an archive
that `python -m tests.spark.quick_java` makes, already loaded and verified. Together that takes three quarters off the
CPU time that a Spark takes to start, and a machine that runs all tests has none to spare.

`make test` makes the archive. Without it, or with another Java than the one that made it, classes are loaded as usual.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

ARCHIVE: Final = Path(__file__).parents[2] / "build" / "spark-classes.jsa"

_QUICK: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
# An archive that does not fit is not used; Java would warn of that on stdout.
_WITH_ARCHIVE: Final = f" -XX:SharedArchiveFile={ARCHIVE} -Xshare:auto -Xlog:disable" if ARCHIVE.exists() else ""

QUICK_JAVA: Final = _QUICK + _WITH_ARCHIVE
QUICK_DRIVERS: Final = {"SPARK_SUBMIT_OPTS": QUICK_JAVA, "SPARK_LAUNCHER_OPTS": _QUICK}
"""What the environment has to say for drivers, in whichever process they start, and what prepares their start."""


def make_archive(archive: Path) -> None:
    """Run a Spark that does a little of everything, and store the classes that it has loaded."""
    from goqueue.spark.session import SessionRequest, start_session

    archive.parent.mkdir(parents=True, exist_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f"{_QUICK} -XX:ArchiveClassesAtExit={archive} -Xlog:disable"
    session = start_session(SessionRequest(name="classes", master="local[1]", settings={"spark.ui.enabled": "false"}))
    with tempfile.TemporaryDirectory() as workspace:
        rows = session.range(100).selectExpr("id % 7 AS key", "id", "to_json(struct(id)) AS value")
        rows.write.parquet(f"{workspace}/rows")
        sums = session.read.parquet(f"{workspace}/rows").groupBy("key").sum("id").join(rows, "key")
        assert sums.mapInArrow(lambda batches: batches, sums.schema).count() == 100
        stream = session.readStream.schema(rows.schema).parquet(f"{workspace}/rows").writeStream
        places = {"checkpointLocation": f"{workspace}/checkpoint", "path": f"{workspace}/copy"}
        query = stream.format("parquet").options(**places).trigger(availableNow=True).start()
        query.awaitTermination()
    session.stop()


if __name__ == "__main__":
    make_archive(ARCHIVE)
