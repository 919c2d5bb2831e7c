"""A driver that runs a pipeline with files and a Delta table, and is killed in the middle of a commit.

    python -m tests.spark.lake_driver BOOTSTRAP FILE FAULT

FAULT is `between-renames` or `before-delta`. It has to be the leader of its process group, which is what is killed,
Spark and all.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from goqueue.spark.pipelines.write.delta import _Table
from goqueue.spark.pipelines.write.file_systems import LocalFiles
from goqueue.spark.session import SessionRequest, start_session
from tests.spark.pipeline_run_kit import Pipelines

# Those before it write nothing: the first batch of a stream only tells where it begins.
BATCH = 2
MOVES_BEFORE = 1


def main(bootstrap: str, file: Path, fault: str) -> None:
    """Run it."""
    known: Any = LocalFiles
    move, moves = known.move, [0]

    def faulty_move(self: LocalFiles, source: str, target: str) -> None:
        if fault == "between-renames" and "lake/" in target and f"batch-{BATCH:010}" in target:
            moves[0] += 1
            if moves[0] > MOVES_BEFORE:
                os.killpg(0, signal.SIGKILL)
        move(self, source, target)

    table: Any = _Table
    commit = table._commit

    def faulty_commit(self: _Table, schema: Any, actions: Any, number: int) -> bool:
        if fault == "before-delta" and number == BATCH:
            os.killpg(0, signal.SIGKILL)
        return bool(commit(self, schema, actions, number))

    known.move, table._commit = faulty_move, faulty_commit
    spark = start_session(SessionRequest(master="local[2]", settings={"spark.driver.memory": "1g"}))
    broker: Any = SimpleNamespace(bootstrap=bootstrap, http=None)
    Pipelines(spark, file.parent, broker).run(file.read_text())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
