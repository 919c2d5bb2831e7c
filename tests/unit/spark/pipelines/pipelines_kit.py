"""Pipeline files in tests: read from a text, with mistakes as lines."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import PurePath

from goqueue.spark.pipelines import LoadedFile, Mistake, PipelineSpec, read_text

SAMPLE = files("goqueue.spark.pipelines").joinpath("sample.yaml").read_text("utf-8")

SMALL = """\
pipeline: orders
sources:
  orders: {topic: orders}
sinks:
  out: {from: orders, console: true}
"""


def reading(text: str, environ: Mapping[str, str] | None = None, **python_files: str) -> LoadedFile:
    """Read a text as the file `dir/pipeline.yaml`, with Python files beside it by their names."""
    beside = {PurePath("dir") / f"{name}.py": content.encode() for name, content in python_files.items()}
    return read_text(text, "dir/pipeline.yaml", environ or {}, beside.get)


def spec_of(text: str, environ: Mapping[str, str] | None = None, **python_files: str) -> PipelineSpec:
    """Return the pipeline of a text that has one, and no mistakes."""
    read = reading(text, environ, **python_files)
    assert read.mistakes == ()
    assert read.pipeline is not None
    return read.pipeline


def lines_of(read: LoadedFile) -> list[str]:
    """Return mistakes as `line:column severity: message (hint)`."""
    return [_line(mistake) for mistake in read.mistakes]


def _line(mistake: Mistake) -> str:
    place = f"{mistake.place.line}:{mistake.place.column}"
    hint = f" ({mistake.hint})" if mistake.hint else ""
    return f"{place} {mistake.severity.value}: {mistake.message}{hint}"
