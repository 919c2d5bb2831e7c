"""References to Python functions: `transforms.py:clean`, or `package.module:clean`.

Files are looked into without running them, so that a name that is not there is found before Spark starts. Modules
are left to Python.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import PurePath

from goqueue.model.units import quoted
from goqueue.spark.pipelines.spec.model import PythonFunction
from goqueue.spark.pipelines.spec.nodes import Notes, Scalar, suggestion

ReadFile = Callable[[PurePath], bytes | None]
"""Returns what a file holds, None if there is none."""

_REFERENCE = re.compile(r"(?P<where>[^:]+(?:\.py)?):(?P<function>[^\W\d]\w*)")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def parse_function(scalar: Scalar, what: str, notes: Notes, directory: PurePath, read: ReadFile) -> PythonFunction:
    """Return a function that is named, or that is there already."""
    if scalar.target is not None:
        return PythonFunction(scalar.text, scalar.target)
    match = _REFERENCE.fullmatch(scalar.text.strip())
    if match is None or not (match["where"].endswith(".py") or _MODULE.fullmatch(match["where"])):
        notes.error(
            scalar.place,
            f"{what} is {quoted(scalar.text)}, which names no function",
            "write transforms.py:clean, or package.module:clean",
        )
        return PythonFunction("")
    if not match["where"].endswith(".py"):
        return PythonFunction(match[0])
    file = directory / match["where"]
    _check_file(scalar, file, match["function"], what, notes, read)
    return PythonFunction(f"{file}:{match['function']}")


def _check_file(scalar: Scalar, file: PurePath, function: str, what: str, notes: Notes, read: ReadFile) -> None:
    text = read(file)
    if text is None:
        notes.error(scalar.place, f"{what}: there is no file {file}", "paths are relative to the pipeline file")
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        notes.error(scalar.place, f"{what}: line {line or '?'} of {file} is no Python")
        return
    names = list(_top_names(tree))
    if function not in names:
        offset = scalar.text.rfind(function)
        notes.error(scalar.at(offset), f"{what}: {file} has no function {function}", suggestion(function, names))


def _top_names(tree: ast.Module) -> list[str]:
    """Return what a module defines or imports at its top, which may all be functions."""
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return names
