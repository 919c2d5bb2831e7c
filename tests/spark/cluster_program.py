"""A program as users write it, run on any Spark: it reads a topic, copies it to another one, and tells what it saw.

    cluster_program.py BOOTSTRAP FROM TO DIRECTORY [MASTER]

The copy has its checkpoint in the directory. If there is a module `faults` as well, which is `cluster_faults`, its rows
go through `lose_executor`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from goqueue.spark.session import SessionRequest, start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# As many as the pipeline of the test has, whose faults are the same.
ROWS_PER_BATCH = "25"


def look(batches: Iterator[Any]) -> Iterator[Any]:
    """Tell which Python runs a task, and of which GoQueue."""
    import pyarrow

    import goqueue

    for _ in batches:
        told = {"python": [sys.executable], "goqueue": [goqueue.__version__]}
        yield pyarrow.RecordBatch.from_pydict(told)


def risky(rows: DataFrame, directory: Path) -> DataFrame:
    """Have rows go through the fault, if there is one; executors do not have its module, so they are sent it."""
    if not (directory / "faults.py").exists():
        return rows
    sys.path.append(str(directory))
    faults = import_module("faults")
    cloudpickle.register_pickle_by_value(faults)  # type: ignore[no-untyped-call]
    lossy: DataFrame = faults.lose_executor(rows)
    return lossy


def main(bootstrap: str, source: str, target: str, directory: str, master: str = "") -> None:
    """Do all of it, on Spark wherever it is."""
    spark = start_session(SessionRequest(name="program", master=master or None))
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", ROWS_PER_BATCH)
    broker = {"kafka.bootstrap.servers": bootstrap}
    (worker,) = spark.range(1, numPartitions=1).mapInArrow(look, "python STRING, goqueue STRING").collect()
    read = spark.read.format("goqueue").options(**broker).option("topic", source).load().count()
    rows = spark.readStream.format("goqueue").options(**broker, topic=source, startingOffsets="earliest").load()
    copied = risky(rows.select("key", "value"), Path(directory))
    writer = copied.writeStream.format("goqueue").options(**broker, topic=target)
    query = writer.option("checkpointLocation", f"{directory}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    told = {
        "worker": worker.asDict(),
        "read": read,
        "copied": query.lastProgress.numInputRows if query.lastProgress else 0,
        "time zone": spark.conf.get("spark.sql.session.timeZone"),
    }
    spark.stop()
    sys.stdout.write(f"{json.dumps(told)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
