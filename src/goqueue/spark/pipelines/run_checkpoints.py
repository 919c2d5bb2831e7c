"""Where queries note how far they got: one directory for each sink of each pipeline, and one for the dead letters.

    DIR/PIPELINE/sinks/SINK        with --checkpoint DIR, or DIR beside the pipeline file by default
    CHECKPOINT/sinks/SINK          if the pipeline file names a directory of its own
    .../dead-letters

A sink that is renamed begins anew, and one that comes later begins at the start of its sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from goqueue.spark.pipelines.model import PipelineSpec

DEFAULT_NAME = ".goqueue/checkpoints"


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The directories of one pipeline."""

    root: str

    def of_sink(self, name: str) -> str:
        """Return the directory of a sink."""
        return f"{self.root}/sinks/{name}"

    @property
    def of_letters(self) -> str:
        """The directory of the dead letters."""
        return f"{self.root}/dead-letters"


def checkpoints_of(spec: PipelineSpec, file: PurePath, chosen: str = "") -> Checkpoints:
    """Return where a pipeline keeps its checkpoints; `chosen` by whoever runs it is stronger than its file."""
    if chosen:
        return Checkpoints(f"{chosen.rstrip('/')}/{spec.name}")
    if spec.checkpoint:
        return Checkpoints(spec.checkpoint.rstrip("/"))
    return Checkpoints(f"{file.parent / DEFAULT_NAME / spec.name}")
