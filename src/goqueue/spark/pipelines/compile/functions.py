"""Functions by name: `transforms.py:clean` is loaded from its file, `package.module:clean` is imported.

What comes from a file is sent to executors by value, since they have no such module: a module that is not known to
Python when one of its functions is pickled is pickled with it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from goqueue.errors import Invalid, NotFound
from goqueue.spark.pipelines.spec.model import PythonFunction
from goqueue.spark.pipelines.spec.user_code import run_file


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
