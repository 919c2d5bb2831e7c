"""The program that `goqueue spark doctor` runs in a separate process: it starts Spark and runs a job of one row.

`python -m goqueue.cli.spark.probe [MASTER]` prints a JSON object per step, on a line: `check`, `what` was found, a
`fix` if that does not work, and the `next` step, or "" if this was the last. A step that does not work is the last.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSION, JOB = "session", "job"
DOING = {SESSION: "starting Spark", JOB: "running a job of one row"}

_WORKER_FIX = (
    "install the same 'goqueue[spark]' into the Python of all executors, and name that Python with PYSPARK_PYTHON: "
    "here for a cluster, where the server is started for a Spark Connect server"
)
_SERVER_FIX = (
    "install 'goqueue[spark]' into the Python of the server, name that Python with PYSPARK_PYTHON where it is started, "
    "and start it again"
)
_LOOK_FIX = "correct what Spark reports; --master 'local[1]' tests whether it works on this machine at all"


def main(master: str | None) -> None:
    """Run all steps."""
    session = _start(master)
    if session is not None:
        _run_job(session)
        session.stop()


def _tell(check: str, what: str, fix: str = "", *, next_check: str = "") -> None:
    sys.stdout.write(json.dumps({"check": check, "what": what, "fix": fix, "next": next_check}) + "\n")
    sys.stdout.flush()


def _start(master: str | None) -> SparkSession | None:
    from goqueue.spark.session import SessionRequest, SparkNotStarted, start_session

    began = time.monotonic()
    try:
        session = start_session(SessionRequest(name="goqueue spark doctor", master=master))
    except GoQueueError as error:
        # Its hint is to run `goqueue spark doctor`, which runs this.
        _tell(SESSION, error.message, _LOOK_FIX if isinstance(error, SparkNotStarted) else error.hint)
        return None
    where = session.conf.get("spark.master", None) or "a Spark server"
    took_s = time.monotonic() - began
    _tell(SESSION, f"Spark {session.version} on {where}, started in {took_s:.1f} s", next_check=JOB)
    return session


def _run_job(session: SparkSession) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from goqueue import __version__
    from goqueue.spark.session import is_remote

    def look(batches: Iterator[Any]) -> Iterator[Any]:
        import sys

        import pyarrow

        try:
            from goqueue import __version__ as version
        except ImportError:
            version = ""
        for _ in batches:
            yield pyarrow.RecordBatch.from_pydict({"python": [sys.executable], "goqueue": [version]})

    began = time.monotonic()
    try:
        (worker,) = session.range(1, numPartitions=1).mapInArrow(look, "python string, goqueue string").collect()
        is_found = not is_remote(session) or _finds_source(session)
    except (PySparkException, Py4JError) as error:
        _tell(JOB, f"a job of one row failed: {error}", _LOOK_FIX)
        return
    took_s = time.monotonic() - began
    if worker.goqueue != __version__:
        has = f"goqueue {worker.goqueue}" if worker.goqueue else "no goqueue"
        _tell(JOB, f"the Python of executors, {worker.python}, has {has}; here it is {__version__}", _WORKER_FIX)
    elif not is_found:
        _tell(JOB, "the Spark server knows no data source goqueue", _SERVER_FIX)
    else:
        _tell(JOB, f"1 row went through a Python worker and back in {took_s:.1f} s")


def _finds_source(session: SparkSession) -> bool:
    """Return whether a server finds the data source; without options, the data source itself refuses the read."""
    from pyspark.errors import AnalysisException

    try:
        session.read.format("goqueue").load().schema  # noqa: B018 - this asks the server
    except AnalysisException as error:
        return "DATA_SOURCE_NOT_FOUND" not in str(error)
    return True


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
