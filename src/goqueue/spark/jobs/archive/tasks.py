"""The Spark tasks of an archive job.

Rows do not pass through Java: a task reads its slice from the broker, or its files, writes files and returns their
description. A task may run more than once: each attempt writes its own files, and Spark returns those of one attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JError
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql.datasource import InputPartition

from goqueue.errors import Unavailable
from goqueue.seams.entropy import SystemEntropy
from goqueue.spark.archive.manifest import ArchiveDamaged, ArchivedFile
from goqueue.spark.archive.rows import batches_of
from goqueue.spark.archive.store import ArchiveStore, sha256_of
from goqueue.spark.archive.write import WriteTarget, write_rows
from goqueue.spark.failures import failure_of
from goqueue.spark.source.columns import SCHEMA
from goqueue.spark.source.options import ReadOptions
from goqueue.spark.source.plan import Range
from goqueue.spark.source.reader import read_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

_RESULT: Final = pa.schema([pa.field("task", pa.int64()), pa.field("result", pa.string())])


class JobFailed(Unavailable):
    """A task of a job has failed too often."""

    code = "job_failed"


class RecordsLost(JobFailed):
    """Records that a task should read were removed."""


@dataclass(frozen=True, slots=True)
class Work:
    """The parameters of all tasks of a round."""

    path: str
    topic: str
    number: int
    """The number of the next commit."""
    target_bytes: int

    def target(self, partition: int) -> WriteTarget:
        """Return the target of a partition's rows."""
        return WriteTarget(self.topic, partition, self.number, self.target_bytes)


def copy_slices(
    session: SparkSession, work: Work, slices: Sequence[Range], options: ReadOptions
) -> list[tuple[ArchivedFile, ...]]:
    """Copy slices of a topic into files, one task each; return the files of each slice, which are durable."""
    return run_tasks(session, partial(_copy, work, tuple(slices), options), len(slices), tuple[ArchivedFile, ...])


def merge_files(
    session: SparkSession, work: Work, groups: Sequence[Sequence[ArchivedFile]]
) -> list[tuple[ArchivedFile, ...]]:
    """Write the rows of each group of files into one, one task each; return the new files of each group."""
    frozen = tuple(tuple(group) for group in groups)
    return run_tasks(session, partial(_merge, work, frozen), len(groups), tuple[ArchivedFile, ...])


def run_tasks(session: SparkSession, do: Callable[[int], object], count: int, kind: type[T]) -> list[T]:
    """Run a function on Spark for each number below `count`; return the results, which must be JSON."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = msgspec.json.encode(do(number)).decode()
                yield pa.RecordBatch.from_pydict({"task": [number], "result": [result]}, schema=_RESULT)

    if not count:
        return []
    try:
        rows = session.range(0, count, 1, count).mapInArrow(run, "task BIGINT, result STRING").collect()
    except (PySparkException, Py4JError, OSError) as error:
        failure = failure_of(error)
        kind_of_error = RecordsLost if failure.reason.startswith("DataLost") else JobFailed
        raise kind_of_error(f"the job has failed: {failure.reason}", hint=failure.hint) from error
    results = {row.task: row.result for row in rows}
    if len(rows) != count or sorted(results) != list(range(count)):
        raise JobFailed(f"{len(rows)} of {count} tasks have returned a result")
    return [msgspec.json.decode(results[number], type=kind) for number in range(count)]


def _copy(work: Work, slices: Sequence[Range], options: ReadOptions, number: int) -> list[ArchivedFile]:
    wanted = slices[number]
    rows = read_task(options, SCHEMA.names, InputPartition(wanted))
    return write_rows(ArchiveStore(work.path), work.target(wanted.partition), rows, SystemEntropy())


def _merge(work: Work, groups: Sequence[Sequence[ArchivedFile]], number: int) -> list[ArchivedFile]:
    store, group = ArchiveStore(work.path), groups[number]
    rows = (batch for file in group for batch in _checked_rows(store, file))
    merged = write_rows(store, work.target(group[0].partition), rows, SystemEntropy())
    before, after = sum(file.rows for file in group), sum(file.rows for file in merged)
    if before != after or {file.date for file in merged} != {group[0].date}:
        raise ArchiveDamaged(f"{before} rows from {group[0].path} on were merged into {after}")
    return merged


def _checked_rows(store: ArchiveStore, file: ArchivedFile) -> Iterator[pa.RecordBatch]:
    """Verify a small file by its checksum, and yield its rows."""
    raw = store.read(file.path)
    if len(raw) != file.bytes or sha256_of(raw) != file.sha256:
        raise ArchiveDamaged(f"{file.path} is damaged", hint="restore it from a copy; --verify finds all damage")
    stored = parquet.ParquetFile(pa.BufferReader(raw))
    for batch in batches_of(stored, range(stored.metadata.num_row_groups), SCHEMA.names):
        yield batch.cast(SCHEMA)
