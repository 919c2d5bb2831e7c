"""Directories of files that streams write: each belongs to the one query that began it.

Spark notes in `_spark_metadata` which batches of a query are in a directory, and leaves out batches whose number it
finds there. A query that begins anew, or another one, counts from zero: its rows would be left out without a word.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from goqueue.errors import Invalid
from goqueue.spark.archive_paths import known_scheme
from goqueue.spark.pipelines.model import FileSink

_NOTES = "_spark_metadata"
_NUMBERED = re.compile(r"\d+(\.compact)?")
# Where pyarrow looks without the help of other programs.
_SCHEMES = ("s3", "gs", "hdfs")


def require_own(sink: FileSink, checkpoint: str) -> None:
    """Raise unless the directory of a sink is new, or belongs to the query of this checkpoint.

    A query has planned each of the batches that are noted in its directory. Where only Spark can look, nobody knows.
    """
    noted, planned = _last_batch(f"{sink.path}/{_NOTES}"), _last_batch(f"{checkpoint}/offsets")
    if noted is not None and planned is not None and noted > planned:
        raise Invalid(
            f"{sink.path} holds files of a query that sink {sink.name} does not go on with: Spark would take new rows "
            f"for old ones, and leave them out",
            hint=f"choose another path, or move {sink.path} away to begin anew",
        )


def _last_batch(path: str) -> int | None:
    """Return the greatest number of a file in a directory, -1 if there is none; None if that cannot be told."""
    path = known_scheme(path)
    if re.match(r"file:/+", path):
        path = "/" + re.sub(r"^file:/+", "", path)
    scheme, has_scheme, _ = path.partition(":/")
    if has_scheme and scheme not in _SCHEMES:
        return None
    try:
        system, inner = fs.FileSystem.from_uri(path if has_scheme else Path(path).absolute().as_uri())
        found = system.get_file_info(fs.FileSelector(inner, allow_not_found=True))
    except (pa.ArrowException, OSError):
        return None
    return max((int(each.base_name.split(".")[0]) for each in found if _NUMBERED.fullmatch(each.base_name)), default=-1)
