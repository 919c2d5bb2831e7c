"""A driver in a process of its own, which can be killed: it writes all input files to a topic, and ends.

    python -m tests.spark.sink_driver BOOTSTRAP TOPIC DIRECTORY FAULT

FAULT is `before-commit` or `after-commit`: the whole driver is killed there. Before that, the first attempt of every
task fails when all its rows are staged, and leaves them so, if it is `after-commit`. Tasks have three attempts. It has
to be the leader of its process group, which is what is killed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from typing_extensions import override

from goqueue.spark.session import SessionRequest, start_session
from goqueue.spark.sink.options import SinkOptions
from goqueue.spark.sink.writers import GoQueueStreamWriter

DRIVER = os.getpid()


class FaultyWriter(GoQueueStreamWriter):
    """Our writer, with a fault."""

    def __init__(self, options: SinkOptions, fault: str, driver: int) -> None:
        super().__init__(options)
        self._fault = fault
        self._driver = driver

    @override
    def write(self, iterator: Iterator[Any]) -> Any:
        staged = super().write(iterator)
        context = TaskContext.get()
        assert context is not None
        if self._fault == "after-commit" and context.attemptNumber() == 0:
            raise RuntimeError("the first attempt of a task fails")
        return staged

    @override
    def commit(self, messages: Any, batchId: int) -> None:
        if self._fault == "before-commit":
            self._die()
        super().commit(messages, batchId)
        if self._fault == "after-commit":
            self._die()

    def _die(self) -> None:
        os.killpg(self._driver, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Run the query."""
    from tests.spark.sink_kit import register, run_query

    bootstrap, topic, directory, fault = sys.argv[1:]
    driver, writer = DRIVER, FaultyWriter
    spark = start_session(SessionRequest(master="local[2,3]", settings={"spark.driver.memory": "1g"}))
    source = register(spark, "goqueue-faulty", lambda options: writer(options, fault, driver))
    told = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    run_query(spark, Path(directory), told, source).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
