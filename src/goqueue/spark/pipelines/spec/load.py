"""From a path to a pipeline: reads the file, or runs the module, and says everything that is wrong with it.

A `.py` file is a module and is run, as Python imports it; everything else is YAML and is only read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import TracebackType

from goqueue.seams.disk import Disk, RealDisk
from goqueue.spark.pipelines.spec.functions import ReadFile, run_file
from goqueue.spark.pipelines.spec.model import PipelineSpec
from goqueue.spark.pipelines.spec.module import Pipeline
from goqueue.spark.pipelines.spec.nodes import Mistake, Node, Notes, SourceLocation
from goqueue.spark.pipelines.spec.parse import parse
from goqueue.spark.pipelines.spec.yaml_file import read_yaml

FILE_BYTES_MAX = 8 * 1024 * 1024

_START = SourceLocation(1, 1)


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The result of loading a file; it has a pipeline if no mistake is an error. `text` is for showing locations."""

    file: str
    text: str
    mistakes: tuple[Mistake, ...]
    pipeline: PipelineSpec | None


def load(path: Path, environ: Mapping[str, str], *, disk: Disk | None = None) -> LoadedFile:
    """Read a pipeline file, or run a pipeline module; OSError if there is none."""
    disk = disk or RealDisk()
    notes = Notes()
    text = _decoded(_bytes_of(path, disk), notes)
    if text is None:
        return LoadedFile(str(path), "", notes.in_order(), None)

    def read(file: PurePath) -> bytes | None:
        try:
            return _bytes_of(file, disk)
        except OSError:
            return None

    if path.suffix == ".py":
        tree: Node | None = _run_module(path, notes)
        return _finished(str(path), text, tree, notes, read)
    return read_text(text, str(path), environ, read)


def read_text(text: str, file: str, environ: Mapping[str, str], read: ReadFile = lambda _: None) -> LoadedFile:
    """Read the text of a pipeline file; `read` looks into the files that it names."""
    notes = Notes()
    return _finished(file, text, read_yaml(text, environ, notes), notes, read)


def _finished(file: str, text: str, tree: Node | None, notes: Notes, read: ReadFile) -> LoadedFile:
    spec = None if tree is None else parse(tree, notes, PurePath(file).parent, read)
    return LoadedFile(file, text, notes.in_order(), spec)


def _bytes_of(path: PurePath, disk: Disk) -> bytes:
    file = disk.open(path, writable=False)
    try:
        return file.read_at(0, FILE_BYTES_MAX)
    finally:
        file.close()


def _decoded(raw: bytes, notes: Notes) -> str | None:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        notes.error(SourceLocation(line, 1), "the file is not UTF-8", "save it with that encoding")
        return None


def _run_module(path: Path, notes: Notes) -> Node | None:
    """Run a module and return what its pipeline says."""
    try:
        module = run_file(path)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - any exception of a user's module is a mistake in it
        _note_failure(error, path, notes)
        return None
    found = {name: value for name, value in vars(module).items() if isinstance(value, Pipeline)}
    pipelines = {id(pipeline): pipeline for pipeline in found.values()}
    if len(pipelines) == 1:
        (pipeline,) = pipelines.values()
        return pipeline.tree(notes)
    if found:
        notes.error(_START, f"the module has several pipelines: {', '.join(found)}", "put each into a file of its own")
    else:
        notes.error(_START, "the module has no pipeline", 'write pipeline = Pipeline("name") at its top level')
    return None


def _note_failure(error: BaseException, path: Path, notes: Notes) -> None:
    hint = ""
    place = SourceLocation(_line_in(error.__traceback__, path), 1)
    if isinstance(error, SyntaxError) and error.filename == str(path):
        place = SourceLocation(error.lineno or 1, max(error.offset or 1, 1))
    if isinstance(error, ImportError) and (error.name or "").split(".")[0] in {"pyspark", "pandas", "pyarrow"}:
        hint = "pip install 'goqueue[spark]'"
    reason = error.msg if isinstance(error, SyntaxError) else str(error)
    notes.error(place, f"the module fails: {type(error).__name__}: {reason}", hint)


def _line_in(trace: TracebackType | None, path: Path) -> int:
    """Return the innermost line of a file that an error went through."""
    line = 1
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
