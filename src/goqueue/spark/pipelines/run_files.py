"""Directories of files that streams write: each belongs to the one query that began it.

Spark notes in `_spark_metadata` which batches of a query are in a directory, and leaves out batches whose number it
finds there. A query that begins anew, or another one, counts from zero: its rows would be left out without a word.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from goqueue.errors import Invalid
from goqueue.spark.pipelines.model import FileSink

_NOTES = "_spark_metadata"
# What Spark calls some file systems, and how pyarrow calls them.
_SCHEMES = {"s3a://": "s3://", "s3n://": "s3://"}


def require_own(sink: FileSink, checkpoint: str) -> None:
    """Raise unless the directory of a sink is new, or belongs to the query of this checkpoint.

    A directory that only Spark can reach is not looked at.
    """
    if _exists(f"{sink.path}/{_NOTES}") and not _exists(f"{checkpoint}/offsets"):
        raise Invalid(
            f"{sink.path} holds files of a query that sink {sink.name} does not go on with: Spark would take new rows "
            f"for old ones, and leave them out",
            hint=f"choose another path, or move {sink.path} away to begin anew",
        )


def _exists(path: str) -> bool:
    for theirs, ours in _SCHEMES.items():
        if path.startswith(theirs):
            path = ours + path.removeprefix(theirs)
    try:
        system, inner = fs.FileSystem.from_uri(path if "://" in path else Path(path).absolute().as_uri())
        return system.get_file_info(inner).type is not fs.FileType.NotFound
    except (pa.ArrowException, OSError):
        return False
