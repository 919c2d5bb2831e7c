"""Directories of checkpoints: one for each sink of a pipeline, and one for the dead letters.

    DIR/PIPELINE/sinks/SINK
    DIR/PIPELINE/dead-letters

DIR is what `--checkpoint` says, or else the key `checkpoint` of the file, or else a directory beside the file. It may
be the same for many pipelines.
A sink that is renamed begins anew, and one that comes later begins at the start of its sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

import msgspec

from goqueue.spark.pipelines.spec.model import PipelineSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEFAULT_NAME = ".goqueue/checkpoints"


class _Metadata(msgspec.Struct):
    """The metadata of a query in Spark's checkpoint; a test covers its format."""

    id: str


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The directories of one pipeline."""

    root: str

    def of_sink(self, name: str) -> str:
        """Return the directory of a sink."""
        return f"{self.root}/sinks/{name}"

    @property
    def of_dead_letters(self) -> str:
        """The directory of the dead letters."""
        return f"{self.root}/dead-letters"


def checkpoints_of(spec: PipelineSpec, file: PurePath, chosen: str = "") -> Checkpoints:
    """Return the checkpoint directories of a pipeline; `chosen` overrides its file."""
    directory = chosen or spec.checkpoint or str(file.parent / DEFAULT_NAME)
    return Checkpoints(f"{directory.rstrip('/')}/{spec.name}")


def query_of(batch: DataFrame, checkpoint: str) -> str:
    """Return the id of the query that a batch belongs to, which its checkpoint holds."""
    (metadata,) = batch.sparkSession.read.text(f"{checkpoint}/metadata", wholetext=True).collect()
    return msgspec.json.decode(metadata.value, type=_Metadata).id
