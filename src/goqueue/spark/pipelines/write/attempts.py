"""Attempts to write a batch: a directory each, and a mark that tells whether its rows may still be removed.

A driver that was taken for dead may still be writing when the next one starts. If the next one removed files of an
attempt that is committed a moment later, rows would be lost. So the two contend for the mark, and renaming it decides:

| mark      | what it means                                                | who renames it                        |
|-----------|--------------------------------------------------------------|---------------------------------------|
| `_open`   | Spark is writing rows                                        |                                       |
| `_sealed` | all rows are there, and the attempt is about to be committed | the writer, before it commits         |
| `_taken`  | it can never be committed                                    | the next driver, before it removes it |

A sealed attempt stays until its batch is committed, by this attempt or by another; so does one without a mark, which
tasks have made that outlived their attempt.
"""

from __future__ import annotations

from typing import Final

from goqueue.errors import Conflict
from goqueue.spark.pipelines.write.file_systems import Files

_OPEN: Final = "_open"
_SEALED: Final = "_sealed"
_TAKEN: Final = "_taken"


class Overtaken(Conflict):
    """Another run of a pipeline has begun, and has removed the rows that this one was writing."""

    code = "overtaken"


def begin(files: Files, directory: str) -> None:
    """Make the directory of an attempt, for Spark to append to."""
    files.create(f"{directory}/{_OPEN}", b"")


def seal(files: Files, directory: str) -> None:
    """Keep other drivers from removing the attempt; Overtaken if one has removed it already."""
    if not _rename(files, directory, _SEALED):
        files.remove(directory)
        raise Overtaken(
            "another run of this pipeline has begun, and has removed the rows that this one was writing",
            hint="let only one of them run",
        )


def unseal(files: Files, directory: str) -> None:
    """Remove the mark of an attempt that is committed, and stays where it is."""
    files.remove(f"{directory}/{_SEALED}")


def remove_unless_sealed(files: Files, directory: str) -> None:
    """Remove an attempt of a driver that has ended, or is taken for dead."""
    if _rename(files, directory, _TAKEN) or files.exists(f"{directory}/{_TAKEN}"):
        files.remove(directory)


def _rename(files: Files, directory: str, mark: str) -> bool:
    """Rename the mark of an open attempt, and tell whether there was one to rename."""
    try:
        files.move(f"{directory}/{_OPEN}", f"{directory}/{mark}")
    except FileNotFoundError:
        return False
    return True
