"""Sinks that write files: each batch as a whole, once, and right for every reader of the directory.

`file_commits` says how. Spark writes the rows, to a directory that readers do not look at; what is left to do is a few
renames, by the driver (with Spark Connect, by a process of the server).

Directories that Spark's own file sink has written: put into the form that every reader understands.

Spark's sink writes files under their final names, and notes in `_spark_metadata` which of them count:

    _spark_metadata/0, 1, ..., 9.compact, 10      a line `v1`, then a JSON object for each file of the batch

Files of attempts that failed are in the same directory, and only readers that know these notes leave them out. `adopt`
moves them away, takes all batches of the notes for committed, and moves the notes away at last: a crash in between
leaves the notes, and it begins again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import msgspec

from goqueue.errors import Conflict, Invalid
from goqueue.seams.entropy import SystemEntropy
from goqueue.spark.pipelines.run.checkpoints import query_of
from goqueue.spark.pipelines.spec.model import FileSink
from goqueue.spark.pipelines.write.commits import COMMITTED, TABLE_PREFIX, FileCommits, notes_of
from goqueue.spark.pipelines.write.file_systems import Files, open_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


NOTES: Final = "_spark_metadata"
_COMPACT: Final = ".compact"
_NUMBERED: Final = re.compile(r"\d+(\.compact)?")


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


class _Noted(msgspec.Struct):
    path: str
    action: str = "add"


def adopt(files: Files, path: str, commits: FileCommits, *, planned: Callable[[], int], sink: str) -> None:
    """Adopt a directory of Spark's sink; `planned` tells the last batch of the query that goes on with it.

    Invalid if that query cannot have written it: it has planned each of the batches that are noted.
    """
    numbers = numbers_in(files, f"{path}/{NOTES}")
    if not numbers:
        return
    last = max(numbers)
    if last > planned():
        raise Invalid(
            f"{path} holds files of a query that sink {sink} does not go on with: rows could be there twice",
            hint=f"choose another path, or move {path} away to begin anew",
        )
    counted = _counted(files, path)
    notes = notes_of(path)
    for file in files.walk(path):
        # Files of ours are there if an older version of GoQueue was used in between.
        if file.path not in counted and COMMITTED.fullmatch(file.path) is None:
            files.move(f"{path}/{file.path}", f"{notes}/left-over/{file.path}")
    commits.adopt(last)
    files.move(f"{path}/{NOTES}", f"{notes}/spark-metadata")


def require_none(files: Files, path: str, sink: str) -> None:
    """Raise Invalid if a stream has written a directory with Spark's sink: rows of tables would not be seen there."""
    if numbers_in(files, f"{path}/{NOTES}"):
        raise Invalid(f"{path} holds the files of a stream, and sink {sink} writes a table", hint="choose another path")


def numbers_in(files: Files, directory: str) -> list[int]:
    """Return the numbers that files of a log of Spark have."""
    return [int(name.partition(".")[0]) for name in files.names(directory) if _NUMBERED.fullmatch(name)]


def _counted(files: Files, path: str) -> set[str]:
    """Return the files that the notes name, by their paths below the directory."""
    names = [name for name in files.names(f"{path}/{NOTES}") if _NUMBERED.fullmatch(name)]
    compact = max((int(name.partition(".")[0]) for name in names if name.endswith(_COMPACT)), default=-1)
    counted: set[str] = set()
    for name in names:
        number = int(name.partition(".")[0])
        # A compact file has all of those before it, and may stand beside a plain one of the same number.
        if number < compact or (number == compact and not name.endswith(_COMPACT)):
            continue
        for line in files.read(f"{path}/{NOTES}/{name}").splitlines()[1:]:
            noted = msgspec.json.decode(line, type=_Noted)
            if noted.action == "add":
                counted.add(_below(path, noted.path))
    return counted


def _below(path: str, uri: str) -> str:
    """Return the path of a noted file below its directory."""
    whole = unquote(urlsplit(uri).path)
    root = urlsplit(path).path if "://" in path else path
    if not whole.startswith(f"{root.rstrip('/')}/"):
        raise Invalid(
            f"{path}/{NOTES} names {whole}, which is elsewhere: the directory was moved or copied",
            hint="read it with Spark, and write it to another path",
        )
    return whole[len(root.rstrip("/")) + 1 :]
