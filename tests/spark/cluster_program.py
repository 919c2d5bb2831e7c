"""A program as users write it, run on any Spark: it reads a topic, copies it to another one, and tells what it saw.

cluster_program.py BOOTSTRAP FROM TO CHECKPOINT [MASTER]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from goqueue.spark.session import SessionRequest, start_session


def look(batches: Iterator[Any]) -> Iterator[Any]:
    """Tell which Python runs a task, and of which GoQueue."""
    import pyarrow

    import goqueue

    for _ in batches:
        told = {"python": [sys.executable], "goqueue": [goqueue.__version__]}
        yield pyarrow.RecordBatch.from_pydict(told)


def main(bootstrap: str, source: str, target: str, checkpoint: str, master: str = "") -> None:
    """Do all of it, on Spark wherever it is."""
    spark = start_session(SessionRequest(name="program", master=master or None))
    broker = {"kafka.bootstrap.servers": bootstrap}
    (worker,) = spark.range(1, numPartitions=1).mapInArrow(look, "python STRING, goqueue STRING").collect()
    read = spark.read.format("goqueue").options(**broker).option("topic", source).load().count()
    rows = spark.readStream.format("goqueue").options(**broker, topic=source, startingOffsets="earliest").load()
    writer = rows.select("key", "value").writeStream.format("goqueue").options(**broker, topic=target)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
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
