"""References to Python functions: `transforms.py:clean`, or `package.module:clean`.

Files are looked into without running them, so that a name that is not there is found before Spark starts. Modules
are left to Python.

Running a Python file of the user's, as a pipeline or for a function that a pipeline names.

Files beside it can be imported as if it was run by itself. None of these modules stays known by its name: functions are
then sent to executors whole, with the modules that they use, and not as the name of something that executors do not
have; and two pipelines may each have a `helpers.py`. An import inside of a function comes too late for that.

Functions by name: `transforms.py:clean` is loaded from its file, `package.module:clean` is imported.

Functions from a file are sent to executors by value, since they have no such module: a module that is not known to
Python when one of its functions is pickled is pickled with it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

import goqueue
from goqueue.errors import Invalid, NotFound
from goqueue.model.units import quoted
from goqueue.spark.pipelines.spec.model import PythonFunction
from goqueue.spark.pipelines.spec.nodes import Notes, ScalarNode
from goqueue.spark.suggestions import suggestion

ReadFile = Callable[[PurePath], bytes | None]
"""Returns what a file holds, None if there is none."""

_REFERENCE = re.compile(r"(?P<where>[^:]+(?:\.py)?):(?P<function>[^\W\d]\w*)")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")

# While it runs a module is known by this name, which no import uses.
_MODULE_NAME = "__goqueue_pipeline__"


def parse_function(scalar: ScalarNode, what: str, notes: Notes, directory: PurePath, read: ReadFile) -> PythonFunction:
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


def _check_file(scalar: ScalarNode, file: PurePath, function: str, what: str, notes: Notes, read: ReadFile) -> None:
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


def run_file(path: Path) -> ModuleType:
    """Run a file and return it as a module; ImportError if it can be none, and whatever its code raises."""
    spec = spec_from_file_location(_MODULE_NAME, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
    module = module_from_spec(spec)
    beside = path.resolve().parent
    known = set(sys.modules)
    sys.path.insert(0, str(beside))
    sys.modules[_MODULE_NAME] = module
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(beside))
        for name in [_MODULE_NAME, *_modules_of(beside, set(sys.modules) - known)]:
            sys.modules.pop(name, None)
    return module


def _modules_of(directory: Path, names: set[str]) -> list[str]:
    """Return those modules whose files lie in a directory, or below it but in no installation of Python or GoQueue."""
    others = [Path(each).resolve() for each in (sys.prefix, sys.base_prefix)] + [Path(goqueue.__file__).parent]
    installed = [each for each in others if each.is_relative_to(directory)]
    found = []
    for name in names:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(directory) and not any(map(Path(file).is_relative_to, installed)):
            found.append(name)
    return found


def function_of(named: PythonFunction) -> Callable[..., Any]:
    """Return a function, loaded if it is only known by name; what its module raises is raised."""
    if named.function is not None:
        return named.function
    where, _, name = named.reference.rpartition(":")
    module = _from_file(Path(where)) if where.endswith(".py") else import_module(where)
    function = getattr(module, name, None)
    if not callable(function):
        raise Invalid(f"{named.reference} is no function", hint="name something in that module that can be called")
    return function  # type: ignore[no-any-return]


def _from_file(path: Path) -> ModuleType:
    if not path.exists():
        raise NotFound(f"there is no file {path}")
    return run_file(path)
