"""Sinks that write files: each batch as a whole, once, and right for every reader of the directory.

`file_commits` says how. Spark writes the rows, to a directory that readers do not look at; what is left to do is a few
renames, by the driver (with Spark Connect, by a process of the server).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from goqueue.errors import Conflict
from goqueue.seams.entropy import SystemEntropy
from goqueue.spark.pipelines.run.checkpoints import query_of
from goqueue.spark.pipelines.spec.model import FileSink
from goqueue.spark.pipelines.write.file_commits import TABLE_PREFIX, FileCommits
from goqueue.spark.pipelines.write.file_migration import adopt, numbers_in, require_none
from goqueue.spark.pipelines.write.file_systems import open_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def writing_files(sink: FileSink, checkpoint: str) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that writes the rows of each batch, exactly once."""
    opened: list[FileCommits] = []

    def write(batch: DataFrame, number: int) -> None:
        if not opened:
            opened.append(_open(sink, batch, checkpoint))
        if number > opened[0].last:
            _write(sink, batch, opened[0], number)

    return write


def write_files(sink: FileSink, rows: DataFrame, group: str) -> None:
    """Write all rows of a table; each call adds them to what is there."""
    files, path = open_files(rows.sparkSession, sink.path)
    require_none(files, path, sink.name)
    commits = FileCommits(files, path, f"{TABLE_PREFIX}{group}", SystemEntropy())
    commits.recover()
    if not _write(sink, rows, commits, commits.last + 1):
        raise Conflict(
            f"another run has written sink {sink.name} at the same time, and the rows of this one are not there",
            hint="run it again",
        )


def _open(sink: FileSink, batch: DataFrame, checkpoint: str) -> FileCommits:
    files, path = open_files(batch.sparkSession, sink.path)
    commits = FileCommits(files, path, query_of(batch, checkpoint), SystemEntropy())
    commits.require_own(sink.name)
    commits.recover()

    def planned() -> int:
        system, directory = open_files(batch.sparkSession, checkpoint)
        return max(numbers_in(system, f"{directory}/offsets"), default=-1)

    adopt(files, path, commits, planned=planned, sink=sink.name)
    return commits


def _write(sink: FileSink, rows: DataFrame, commits: FileCommits, number: int) -> bool:
    staged = commits.stage(number)
    rows.write.format(sink.format.value).partitionBy(*sink.partition_by).save(staged)
    return commits.commit(number, staged, is_partitioned=bool(sink.partition_by))
