"""A driver that runs a pipeline to its end, or is killed around the commit of a batch of changes.

    python -m tests.spark.pipeline_driver BOOTSTRAP FILE FAULT

FAULT is `none`, `before-commit` or `after-commit`. It has to be the leader of its process group, which is what is
killed, Spark and all.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from goqueue.spark.pipelines.run.query import RunState
from goqueue.spark.pipelines.write import updates as run_updates
from goqueue.spark.session import SessionRequest, start_session
from tests.spark.pipeline_run_kit import Pipelines

# Those before it write nothing: the first batch of a stream only tells where it begins.
BATCH = 2


def main(bootstrap: str, file: Path, fault: str) -> None:
    """Run it."""
    known = vars(run_updates)
    commit = known["commit_staged"]

    def faulty(options: Any, batch: int, staged: Any, *, again: str) -> None:
        if fault == "before-commit" and batch == BATCH:
            os.killpg(0, signal.SIGKILL)
        commit(options, batch, staged, again=again)
        if fault == "after-commit" and batch == BATCH:
            os.killpg(0, signal.SIGKILL)

    known["commit_staged"] = faulty
    spark = start_session(SessionRequest(master="local[2]", settings={"spark.driver.memory": "1g"}))
    broker: Any = SimpleNamespace(bootstrap=bootstrap, http=None)
    pipelines = Pipelines(spark, file.parent, broker)
    status = pipelines.run(file.read_text())
    assert (status.state, status.restarts) == (RunState.ENDED, 0), pipelines.failures
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
